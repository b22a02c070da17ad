"""A fitted classifier or regressor as one header of C99: tables and loops, and nothing else."""

import re
from dataclasses import dataclass
from string import Template

import numpy as np
from sklearn.base import is_classifier

from ..formulas import EXP, IDENTITY, TANH, finite
from ..parts import layer_of, parts_of
from ..readouts.linear import least_activity
from ..version import __version__
from .unwrap import unwrap

# Arrays as constants of C99.

# What a constant of a type ends in.
_ENDS = {"float": "f", "int64_t": "LL"}
_A_LINE = 12
# The type of strings, after ``const``.
TEXT = "char *const"


@dataclass(frozen=True, eq=False)
class Table:
    """A constant array, without dimensions within: any compiler takes it without more braces."""

    name: str
    ctype: str
    values: np.ndarray
    n_bytes: int  # on a machine whose pointers have 4 bytes

    @classmethod
    def of(cls, name, values):
        """Make the table of an array of numbers, in their own type."""
        return cls(name, ctype_of(values.dtype), values, values.nbytes)

    def __str__(self):
        written = [literal(value, self.ctype) for value in self.values.ravel()]
        lines = [", ".join(written[i : i + _A_LINE]) for i in range(0, len(written), _A_LINE)]
        head = f"static const {self.ctype} {self.name}[{len(written)}] = {{"
        return "\n".join([head, *(f"    {line}," for line in lines), "};"])


def ctype_of(dtype):
    """The C type of an array's elements."""
    dtype = np.dtype(dtype)
    floats = {4: "float", 8: "double"}
    return floats[dtype.itemsize] if dtype.kind == "f" else f"{dtype.name}_t"


def literal(value, ctype):
    """A constant that the compiler reads back as the same number, or the same text."""
    if ctype == TEXT:
        return _quoted(str(value))
    return f"{value!s}{_ENDS.get(ctype, '')}"


def table_of_labels(name, classes):
    """Return the classes of a classifier: numbers, or strings in UTF-8; TypeError for others."""
    kind = classes.dtype.kind
    if kind in "OTU" and all(isinstance(label, str) for label in classes):
        n_bytes = sum(4 + len(label.encode()) + 1 for label in classes)
        return Table(name, TEXT, classes, n_bytes)
    largest = max(abs(int(label)) for label in classes) if kind in "biu" else np.inf
    if largest < 2**63:
        is_short = largest < 2**31
        return Table.of(name, classes.astype(np.int32 if is_short else np.int64))
    if kind == "f":
        return Table.of(name, classes.astype(np.float64))
    raise TypeError(
        f"classes_={classes!r} are neither whole numbers, floats nor strings; fit the model to "
        "numbers of the classes, from 0."
    )


def _quoted(text):
    """A C string; what is not plain ASCII is in octal, and so are question marks (trigraphs)."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


# The parts of a header of C99, with places for names, numbers and steps.

HEADER = Template("""\
/* $title
 *
 * Written by sklearn_fsvc $version. C99; nothing is allocated. $n_bytes bytes of constants.
 * Include it in one file only, and link with -lm.
 */
#ifndef ${guard}_H
#define ${guard}_H

#include <math.h>
#include <stdint.h>

#define ${guard}_N_FEATURES $n_features
#define ${guard}_N_OUTPUTS $n_outputs

$tables

$functions
#endif
""")

OUTPUTS = Template("""\
/* $what */
static inline void $function(const $row_type *x, $answer *y)
{
    const $unit_type *unit = ${name}_units;
    const $real *weight = ${name}_readout;
    $real total[$n_outputs] = {0};
$before    for (int j = 0; j < $n_units; j++) {
        $sum_type sum = 0;
        for (int k = 0; k < $n_inputs; k++, unit++) {
            $add
        }
$again$formula        for (int o = 0; o < $n_outputs; o++)
            total[o] += h * *weight++;
$watch    }
    for (int o = 0; o < $n_outputs; o++)
        y[o] = $scaled + ${name}_intercept[o];
$uncovered}
""")

# A row through a linear map; infinity less infinity is as far away as infinity.
MAP = """\
{real} mapped[{n_inputs}];
for (int i = 0; i < {n_inputs}; i++) {{
    mapped[i] = 0;
    for (int k = 0; k < {n_features}; k++)
        mapped[i] += $row[k] * {name}_map[k * {n_inputs} + i];
    if (mapped[i] != mapped[i])
        mapped[i] = ({real})HUGE_VAL;
}}
"""

# Products of huge numbers: infinite ones may have had another sign than their sum.
AGAIN = Template("""\
        if (!(sum - sum == 0)) {
            double exact = 0;
            for (int k = 0; k < $n_features; k++)
                exact += (double)$row[k]$scale * (unit[k - $n_features]$scale);
            sum = ($real)(exact$grown);
        }
""")

UNCOVERED = Template("""\
    if (activity <= $least) /* no unit covers the row: the nearest one decides */
        for (int o = 0; o < $n_outputs; o++)
            y[o] = $score;
""")

WATCH = """\
        activity += h;
        if (j == 0 || d < least) {
            least = d;
            nearest = j;
        }
"""

CLASS = Template("""\
/* The class of a row. */
static inline $label_type${name}_predict(const $row_type *x)
{
    $answer y[$n_outputs];
    int best = 0;
    ${name}_scores(x, y);
$choose    return ${name}_classes[best];
}
""")

LARGEST = """\
    for (int o = 1; o < {n_outputs}; o++)
        if (y[o] > y[best])
            best = o;
"""

TERMS = {
    "manhattan": "sum += {abs}({row}[k] - *unit);",
    "sqeuclidean": """\
const {real} apart = {row}[k] - *unit;
            sum += apart * apart;""",
    "product": "sum += {row}[k] * *unit;",
}
# Of bytes, in integers.
MANHATTAN_OF_BYTES = """\
const int apart = {row}[k] - *unit;
            sum += apart < 0 ? -apart : apart;"""


_FUNCTIONS = {IDENTITY: "", EXP: "exp", TANH: "tanh"}
# 2 to the power of minus 520: products of doubles that were multiplied by it are finite.
_SHRUNK = "0x1p-520"


@dataclass(frozen=True)
class Header:
    """A header, and how many bytes its constants take."""

    text: str
    n_bytes: int


def to_c(model, name="model"):
    """Write a fitted model as a C header, for a machine without Python.

    The header needs ``<math.h>`` and ``<stdint.h>`` alone and allocates nothing. Rows have the
    dtype of the centres or, of tanh units, of their weights: bytes, whose distances are
    integers, float or double. It defines, for ``name="model"``,

    - ``model_predict(x)``, the class of a row, a number or a string; of a regressor
      ``model_predict(x, y)``, which writes a double for each output;
    - ``model_scores(x, y)`` of a classifier: `decision_function`;
    - ``MODEL_N_FEATURES``, ``MODEL_N_OUTPUTS`` and the tables.

    Parameters
    ----------
    model : estimator
        A fitted `RBFClassifier`, `TanhClassifier`, `RBFRegressor` or `TanhRegressor`; a
        `Pipeline` of a `StandardScaler` or `MinMaxScaler` and one of them; or a search that
        was fitted to either.
    name : str, default="model"
        What all names in the header begin with.

    Returns
    -------
    str

    Raises
    ------
    TypeError, ValueError
        For models and names that cannot be exported, with the reason.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_fsvc import RBFClassifier
    >>> from sklearn_fsvc.export.c import to_c
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RBFClassifier(10, random_state=0).fit(X.astype("float32"), y)
    >>> text = to_c(clf, "iris")
    >>> "static inline int32_t iris_predict(const float *x)" in text
    True
    """
    return header_of(model, name).text


def header_of(model, name="model"):
    """The `Header` of a model; as `to_c`."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(
            f"name={name!r} is no name in C; begin with a letter, and go on with letters, digits "
            "and underscores."
        )
    return _Writer(name, *unwrap(model)).header()


class _Writer:
    """Puts the parts of a header together, by what the model has of each."""

    def __init__(self, name, network, arrival):
        layer, self._is_classifier = layer_of(network), is_classifier(network)
        self._check(network, layer)
        rows = getattr(network, "centers_", layer.units).dtype
        if layer.accumulation != "manhattan" and layer.units.dtype == np.uint8:
            layer = layer.astype(np.float32)
        self._name, self._network, self._layer, self._arrival = name, network, layer, arrival
        self._real = layer.hidden_dtype
        self._parts = parts_of(network)
        self._finds_uncovered = self._parts.uses_nearest_unit
        self._tables = []
        self._words = {
            "name": name, "guard": name.upper(), "version": __version__,
            "row_type": ctype_of(rows), "unit_type": ctype_of(layer.units.dtype),
            "real": ctype_of(self._real), "n_features": layer.n_features_in,
            "n_inputs": layer.n_features,
            "n_units": layer.n_units, "n_outputs": len(network.readout_coef_),
            "answer": ctype_of(network.readout_intercept_.dtype),
        }  # fmt: skip

    def _check(self, network, layer):
        """Raise for what there are no words for in C."""
        is_known = layer.function in _FUNCTIONS or layer.function.exponent
        if not is_known and layer.table is None:
            raise ValueError(
                f"kernel={layer.kernel!r} ends in the function {layer.function.name!r}, which is "
                'not known in C; use "triangular", "gaussian", "laplacian", or a Kernel whose '
                "function is IDENTITY, EXP or TANH of sklearn_fsvc.kernels."
            )
        if self._is_classifier and not parts_of(network).task.labels.is_single:
            raise ValueError(
                f"model={network!r} has several outputs, and a function in C has one answer; fit "
                "a classifier to each column of y, and export each by a name of its own."
            )

    def header(self):
        functions = [self._outputs()]
        if self._is_classifier:
            functions.append(self._class())
        n_bytes = sum(table.n_bytes for table in self._tables)
        words = self._words | {
            "title": self._title(), "n_bytes": n_bytes,
            "tables": "\n\n".join(map(str, self._tables)), "functions": "\n".join(functions),
        }  # fmt: skip
        return Header(HEADER.substitute(words), n_bytes)

    def _title(self):
        words = "{row_type}, {n_units} units, {n_outputs} outputs".format_map(self._words)
        name = type(self._network).__name__
        return f"{name} for rows of {self._layer.n_features_in} {words}"

    def _table(self, name, values, dtype=None):
        """Keep an array; its name in C."""
        table = Table.of(f"{self._name}_{name}", np.asarray(values, dtype))
        self._tables.append(table)
        return table.name

    def _number(self, value):
        return literal(finite(value, self._real), self._words["real"])

    def _call(self, function, argument):
        end = "f" if self._real == np.float32 else ""
        return f"{function}{end}({argument})"

    def _outputs(self):
        """The function that computes the outputs of the readout."""
        self._table("units", self._layer.units)
        before, row = self._before()
        words = self._words | {
            "before": before, "add": self._add(row), "formula": self._formula(),
            "scaled": self._scaled(), "watch": "", "uncovered": "",
            "again": self._again(row), "sum_type": self._sum_type(),
            "function": f"{self._name}_scores",
            "what": "Scores of the classes; of two classes one, positive for the second.",
        }  # fmt: skip
        if not self._is_classifier:
            words |= {"function": f"{self._name}_predict", "what": "The predictions for a row."}
        if self._finds_uncovered:
            words |= {"watch": WATCH, "uncovered": self._uncovered()}
        return OUTPUTS.substitute(words)

    def _sum_type(self):
        if self._layer.units.dtype != np.uint8:
            return self._words["real"]
        return "uint16_t" if 255 * self._layer.n_features < 2**16 else "uint32_t"

    def _before(self):
        """What is done before the units are met, and the name of the row that meets them."""
        lines, row = [], "x"
        if self._finds_uncovered:
            lines += ["int nearest = 0;", "{real} least = 0, activity = 0;"]
        step, arrival = "x[k]", self._arrival
        if np.any(arrival.shift):
            step = f"({step} - {self._table('shift', arrival.shift, self._real)}[k])"
        if np.any(arrival.factor != 1):
            step = f"{step} * {self._table('factor', arrival.factor, self._real)}[k]"
        if np.any(arrival.offset):
            step = f"{step} + {self._table('offset', arrival.offset, self._real)}[k]"
        if step != "x[k]":
            row = "row"
            lines += ["{real} row[{n_features}];", "for (int k = 0; k < {n_features}; k++)"]
            lines += [f"    row[k] = {step};"]
        if self._layer.is_mapped:
            self._table("map", self._layer.weights, self._real)
            lines, row = [*lines, *MAP.replace("$row", row).splitlines()], "mapped"
        return "".join(f"    {line.format_map(self._words)}\n" for line in lines), row

    def _add(self, row):
        layer = self._layer
        term = MANHATTAN_OF_BYTES if layer.units.dtype == np.uint8 else TERMS[layer.accumulation]
        absolute = "fabsf" if self._real == np.float32 else "fabs"
        return term.format(row=row, abs=absolute, real=self._words["real"])

    def _again(self, row):
        """What is done where a sum of products is no number; other sums may be infinite."""
        if self._layer.accumulation != "product":
            return ""
        scale = "" if self._real == np.float32 else f" * {_SHRUNK}"
        grown = "" if self._real == np.float32 else f" / {_SHRUNK} / {_SHRUNK}"
        return AGAIN.substitute(self._words, row=row, scale=scale, grown=grown)

    def _formula(self):
        """From the sum to h, a step a line, without those that do nothing."""
        if self._layer.table is not None:
            return self._written(self._look_up())
        layer, affine = self._layer, self._layer.affine
        steps = [("d", self._call("sqrt", "sum") if layer.power == 0.5 else "sum")]
        a = "d * d" if layer.power == 2 else "d"
        if layer.power == 2 and layer.on_sums.scale != 1:  # else the square is no number
            steps.append(("near", f"{self._number(layer.on_sums.scale)} * d"))
            a = "near * near"
        if affine.scale != 1:
            a = f"{self._number(affine.scale)} * {a}"
        if np.ndim(affine.offset):
            a = f"{a} + {self._table('bias', affine.offset, self._real)}[j]"
        elif affine.offset:
            a = f"{a} + {self._number(affine.offset)}"
        steps.append(("a", a))
        if affine.floor > -np.inf:
            floor = self._number(affine.floor)
            steps.append(("b", f"a > {floor} ? a : {floor}"))
        exponent = layer.function.exponent
        if exponent not in (0, 1):  # as of `formulas.powered_exp`
            power = self._call("pow", f"-{steps[-1][0]}, {self._number(exponent)}")
            steps.append(("e", f"-{power}"))
        last, function = steps[-1][0], "exp" if exponent else _FUNCTIONS[layer.function]
        steps.append(("f", self._call(function, last) if function else last))
        steps += self._rounding()
        return self._written(steps)

    def _look_up(self):
        """The same by the table of rounded outputs: integers to the end."""
        last = len(self._layer.table) - 1
        table = self._table("outputs", self._layer.table)
        step = self._number(1 / self._layer.steps.scale)
        return [("d", "sum"), ("h", f"{step} * {table}[sum < {last} ? sum : {last}]")]

    def _written(self, steps):
        """Steps (name, formula) as lines; the last one is h."""
        steps[-1] = "h", steps[-1][1]
        real = self._words["real"]
        return "".join(f"        const {real} {name} = {step};\n" for name, step in steps)

    def _rounding(self):
        """Return the steps of `formulas.Steps.apply`."""
        rounding = self._layer.steps
        if rounding is None:
            return []
        most, least = self._number(rounding.most), self._number(-rounding.most)
        steps = [("q", self._call("rint", f"f * {self._number(rounding.scale)}"))]
        steps.append(("r", f"q < {most} ? q : {most}"))
        if rounding.is_signed:
            steps[-1] = "r", f"q < {most} ? (q > {least} ? q : {least}) : {most}"
        return [*steps, ("s", f"r * {self._number(1 / rounding.scale)}")]

    def _scaled(self):
        """An output, of weights in units of their own where they are wider than H."""
        network = self._network
        W, unit = network.readout_coef_, None
        if W.dtype > self._real:
            unit = np.abs(W).max(axis=1)
            unit[unit == 0] = 1
            W = W / unit[:, None]
        self._table("readout", W.T, self._real)
        self._table("intercept", network.readout_intercept_)
        return "total[o]" if unit is None else f"total[o] * {self._table('scale', unit)}[o]"

    def _uncovered(self):
        """The scores of a row that no unit covers: those of its nearest unit, by its class."""
        network = self._network
        codes = np.searchsorted(network.classes_, network.center_labels_)
        # Each class has one row of scores, as all units of a class have the same.
        _, first = np.unique(codes, return_index=True)
        scores = np.zeros((len(network.classes_), self._words["n_outputs"]))
        scores[codes[first]] = self._parts.nearest_scores[first]
        codes = self._table("labels", codes, np.min_scalar_type(len(network.classes_)))
        scores = self._table("nearest", scores, network.readout_intercept_.dtype)
        at = f"{codes}[nearest] * {self._words['n_outputs']} + o"
        least = self._number(least_activity(self._real))
        return UNCOVERED.substitute(self._words, score=f"{scores}[{at}]", least=least)

    def _class(self):
        """The function that says which class it is."""
        table = table_of_labels(f"{self._name}_classes", self._network.classes_)
        self._tables.append(table)
        is_binary = len(self._network.classes_) == 2
        return CLASS.substitute(
            self._words,
            choose="    best = y[0] > 0;\n" if is_binary else LARGEST.format_map(self._words),
            label_type="const char *" if table.ctype == TEXT else f"{table.ctype} ",
        )
