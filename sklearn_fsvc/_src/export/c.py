"""Export of fitted classifiers and regressors as a C99 header of constant tables and loops."""

import re
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..formulas import EXP, IDENTITY, TANH, as_finite
from ..parts.composition import layer_of, parts_of
from ..readouts.uncovered import least_activity
from ..version import __version__
from .c_constants import STRING, Table, ctype_of, format_literal
from .unwrap import InputTransform, unwrap

# C functions of the last step of an activation; IDENTITY has none.
_C_FUNCTIONS = {IDENTITY: "", EXP: "exp", TANH: "tanh"}
# The largest magnitude of a double is below 2^1024: products of two doubles that were scaled by
# 2^-520 each stay finite. A power of two rounds nothing, but for subnormal numbers.
_DOWNSCALE = "0x1p-520"


@dataclass(frozen=True)
class Header:
    """The text of a C header, and the number of bytes of its constants."""

    text: str
    n_bytes: int


def to_c(model: Any, name: str = "model") -> str:
    """Export a fitted model as a C header, for a machine without Python.

    The header includes only ``<math.h>`` and ``<stdint.h>`` and does not allocate memory. Input
    arrays have the dtype of the centres or, with tanh units, of their weights: uint8, whose
    distances are integers, float or double. It defines, for ``name="model"``,

    - ``model_predict(x)`` of a classifier, which returns the class of a sample, a number or a
      string; ``model_predict(x, y)`` of a regressor, which writes a double per output to y;
    - ``model_scores(x, y)`` of a classifier, its `decision_function`;
    - ``MODEL_N_FEATURES``, ``MODEL_N_OUTPUTS`` and the constant arrays.

    Parameters
    ----------
    model : estimator
        A fitted `RBFClassifier`, `TanhClassifier`, `RBFRegressor` or `TanhRegressor`; a
        `Pipeline` of a `StandardScaler` or `MinMaxScaler` and one of them; or a search that
        was fitted to either.
    name : str, default="model"
        Prefix of all names in the header.

    Returns
    -------
    str

    Raises
    ------
    TypeError, ValueError
        If the model cannot be exported, with the reason, or the name is not a C identifier.

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


def header_of(model: Any, name: str = "model") -> Header:
    """Return the `Header` of a model; the parameters are those of `to_c`."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(
            f"name={name!r} is not a C identifier; begin with a letter, followed by letters, "
            "digits and underscores."
        )
    return _HeaderBuilder(name, *unwrap(model)).build()


_HEADER = Template("""\
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

# One pass over the units: each activation is added to all outputs at once, so that none is stored.
_OUTPUTS = Template("""\
/* $comment */
static inline void $function(const $input_type *x, $output_type *y)
{
    const $unit_type *unit = ${name}_units;
    const $real *weight = ${name}_readout;
    $real total[$n_outputs] = {0};
$prologue    for (int j = 0; j < $n_units; j++) {
        $sum_type sum = 0;
        for (int k = 0; k < $n_inputs; k++, unit++) {
            $add_term
        }
$rescue$activation        for (int o = 0; o < $n_outputs; o++)
            total[o] += h * *weight++;
$track_nearest    }
    for (int o = 0; o < $n_outputs; o++)
        y[o] = $scaled_total + ${name}_intercept[o];
$uncovered}
""")

# The linear map of the features. The difference of two infinite terms is NaN: such a sample is
# infinitely far from every unit.
_MAP = Template("""\
    $real mapped[$n_inputs];
    for (int i = 0; i < $n_inputs; i++) {
        mapped[i] = 0;
        for (int k = 0; k < $n_features; k++)
            mapped[i] += $input[k] * ${name}_map[k * $n_inputs + i];
        if (mapped[i] != mapped[i])
            mapped[i] = ($real)HUGE_VAL;
    }
""")

# A sum of products that overflowed is computed again in double, on scaled factors: partial sums
# may be infinite, or NaN, where the whole sum is finite.
_RESCUE = Template("""\
        if (!(sum - sum == 0)) {
            double exact = 0;
            for (int k = 0; k < $n_features; k++)
                exact += (double)$input[k]$downscale * (unit[k - $n_features]$downscale);
            sum = ($real)(exact$upscale);
        }
""")

_TRACK_NEAREST = """\
        activity += h;
        if (j == 0 || d < least) {
            least = d;
            nearest = j;
        }
"""

_UNCOVERED = Template("""\
    if (activity <= $least_activity) /* no unit covers the sample: the nearest centre decides */
        for (int o = 0; o < $n_outputs; o++)
            y[o] = $score;
""")

_PREDICT_CLASS = Template("""\
/* The class of a sample. */
static inline $label_type${name}_predict(const $input_type *x)
{
    $output_type y[$n_outputs];
    int best = 0;
    ${name}_scores(x, y);
$argmax    return ${name}_classes[best];
}
""")

_ARGMAX = Template("""\
    for (int o = 1; o < $n_outputs; o++)
        if (y[o] > y[best])
            best = o;
""")

# One term of the sum over the features, by `Layer.reduction`.
_TERMS = {
    "manhattan": Template("sum += $abs($input[k] - *unit);"),
    "sqeuclidean": Template("""\
const $real diff = $input[k] - *unit;
            sum += diff * diff;"""),
    "product": Template("sum += $input[k] * *unit;"),
}
# Of uint8, in integers.
_BYTE_TERM = Template("""\
const int diff = $input[k] - *unit;
            sum += diff < 0 ? -diff : diff;""")


class _HeaderBuilder:
    """Fills in the templates with the tables and formulas of one fitted model.

    Parameters
    ----------
    name : str
        Prefix of all names in C.
    network : estimator
        Fitted, with its readout solved.
    input_transform : InputTransform
        From the samples of the header to those of the network, including its feature weights.
    """

    def __init__(self, name: str, network: Any, input_transform: InputTransform) -> None:
        layer, self._is_classifier = layer_of(network), is_classifier(network)
        self._check_supported(network, layer)
        input_dtype = getattr(network, "centers_", layer.units).dtype
        if layer.reduction != "manhattan" and layer.units.dtype == np.uint8:
            layer = layer.astype(np.float32)  # only Manhattan distances are computed in integers
        self._name, self._network, self._layer = name, network, layer
        self._input_transform, self._real = input_transform, layer.hidden_dtype
        self._parts = parts_of(network)
        self._has_fallback = self._parts.uses_nearest_unit
        self._tables: list[Table] = []
        self._fields = {
            "name": name, "guard": name.upper(), "version": __version__,
            "input_type": ctype_of(input_dtype), "unit_type": ctype_of(layer.units.dtype),
            "real": ctype_of(self._real), "n_features": layer.n_features_in,
            "n_inputs": layer.n_features,
            "n_units": layer.n_units, "n_outputs": len(network.readout_coef_),
            "output_type": ctype_of(network.readout_intercept_.dtype),
        }  # fmt: skip

    def build(self) -> Header:
        """Return the header. The functions come first, since they define the tables."""
        functions = [self._outputs_function()]
        if self._is_classifier:
            functions.append(self._class_function())
        n_bytes = sum(table.n_bytes for table in self._tables)
        text = _HEADER.substitute(
            self._fields, title=self._title(), n_bytes=n_bytes,
            tables="\n\n".join(map(str, self._tables)), functions="\n".join(functions),
        )  # fmt: skip
        return Header(text, n_bytes)

    def _check_supported(self, network, layer):
        """Raise ValueError for functions and outputs without a counterpart in the header."""
        is_known = layer.function in _C_FUNCTIONS or layer.function.exponent
        if not is_known and layer.table is None:
            raise ValueError(
                f"kernel={layer.kernel!r} ends in the function {layer.function.name!r}, which is "
                'not supported in C; use "triangular", "gaussian", "laplacian", or a Kernel whose '
                "function is IDENTITY, EXP or TANH of sklearn_fsvc.kernels."
            )
        if self._is_classifier and not parts_of(network).target.labels.is_single:
            raise ValueError(
                f"model={network!r} has several outputs, and the header returns one class; fit "
                "a classifier to each column of y, and export each under its own name."
            )

    def _title(self):
        fields = self._fields
        return (
            f"{type(self._network).__name__}: {fields['n_features']} features of type "
            f"{fields['input_type']}, {fields['n_units']} units, {fields['n_outputs']} outputs"
        )

    def _add_table(self, name, values, dtype=None):
        """Add an array to the tables of the header, and return its C name."""
        table = Table.from_numbers(f"{self._name}_{name}", np.asarray(values, dtype))
        self._tables.append(table)
        return table.name

    def _number(self, value):
        """Return a literal of the type of the activations."""
        return format_literal(as_finite(value, self._real), self._fields["real"])

    def _call(self, function, argument):
        suffix = "f" if self._real == np.float32 else ""
        return f"{function}{suffix}({argument})"

    def _outputs_function(self):
        """Return the function that computes the outputs of the readout."""
        self._add_table("units", self._layer.units)
        prologue, inputs = self._prologue()
        fields = self._fields | {
            "prologue": prologue, "add_term": self._add_term(inputs),
            "rescue": self._rescue(inputs), "activation": self._activation(),
            "scaled_total": self._scaled_total(), "track_nearest": "", "uncovered": "",
            "sum_type": self._sum_type(), "function": f"{self._name}_scores",
            "comment": "Scores of the classes; one score for two classes, positive for the second.",
        }  # fmt: skip
        if not self._is_classifier:
            fields |= {"function": f"{self._name}_predict", "comment": "Predictions of a sample."}
        if self._has_fallback:
            fields |= {"track_nearest": _TRACK_NEAREST, "uncovered": self._uncovered()}
        return _OUTPUTS.substitute(fields)

    def _sum_type(self):
        """Return the type of the sum over features: the smallest that holds integer distances."""
        if self._layer.units.dtype != np.uint8:
            return self._fields["real"]
        return "uint16_t" if 255 * self._layer.n_features < 2**16 else "uint32_t"

    def _prologue(self):
        """Return the statements before the loop over units, and the name of its input array."""
        real, lines, inputs = self._fields["real"], [], "x"
        if self._has_fallback:
            lines += ["int nearest = 0;", f"{real} least = 0, activity = 0;"]
        value, transform = "x[k]", self._input_transform
        if np.any(transform.shift):
            value = f"({value} - {self._add_table('shift', transform.shift, self._real)}[k])"
        if np.any(transform.factor != 1):
            value = f"{value} * {self._add_table('factor', transform.factor, self._real)}[k]"
        if np.any(transform.offset):
            value = f"{value} + {self._add_table('offset', transform.offset, self._real)}[k]"
        if value != "x[k]":
            n_features, inputs = self._fields["n_features"], "row"
            lines += [f"{real} row[{n_features}];", f"for (int k = 0; k < {n_features}; k++)"]
            lines += [f"    row[k] = {value};"]
        code = "".join(f"    {line}\n" for line in lines)
        if not self._layer.is_mapped:
            return code, inputs
        self._add_table("map", self._layer.weights, self._real)
        return code + _MAP.substitute(self._fields, input=inputs), "mapped"

    def _add_term(self, inputs):
        layer = self._layer
        term = _BYTE_TERM if layer.units.dtype == np.uint8 else _TERMS[layer.reduction]
        absolute = "fabsf" if self._real == np.float32 else "fabs"
        return term.substitute(input=inputs, abs=absolute, real=self._fields["real"])

    def _rescue(self, inputs):
        """Return the second computation of sums of products; only products cancel."""
        if self._layer.reduction != "product":
            return ""
        is_float = self._real == np.float32  # whose products a double holds
        return _RESCUE.substitute(
            self._fields,
            input=inputs,
            downscale="" if is_float else f" * {_DOWNSCALE}",
            upscale="" if is_float else f" / {_DOWNSCALE} / {_DOWNSCALE}",
        )

    def _activation(self):
        """Return the statements from ``sum`` to the activation ``h``, without idle ones.

        They follow `layers` step by step: the power of the distance, the affine map, its floor,
        the function of the kernel, and the rounding to `precision` bits.
        """
        if self._layer.table is not None:
            return self._statements(self._table_lookup())
        layer, affine = self._layer, self._layer.affine
        steps = [("d", self._call("sqrt", "sum") if layer.power == 0.5 else "sum")]
        a = "d * d" if layer.power == 2 else "d"
        if layer.power == 2 and layer.affine_of_sum.scale != 1:
            # Scale before squaring, which would overflow.
            steps.append(("scaled", f"{self._number(layer.affine_of_sum.scale)} * d"))
            a = "scaled * scaled"
        if affine.scale != 1:
            a = f"{self._number(affine.scale)} * {a}"
        if np.ndim(affine.offset):
            a = f"{a} + {self._add_table('bias', affine.offset, self._real)}[j]"
        elif affine.offset:
            a = f"{a} + {self._number(affine.offset)}"
        steps.append(("a", a))
        if affine.floor > -np.inf:
            floor = self._number(affine.floor)
            steps.append(("b", f"a > {floor} ? a : {floor}"))
        exponent = layer.function.exponent
        if exponent not in (0, 1):  # as in `formulas.powered_exp`
            power = self._call("pow", f"-{steps[-1][0]}, {self._number(exponent)}")
            steps.append(("e", f"-{power}"))
        argument, function = steps[-1][0], "exp" if exponent else _C_FUNCTIONS[layer.function]
        steps.append(("f", self._call(function, argument) if function else argument))
        return self._statements(steps + self._rounding())

    def _table_lookup(self):
        """Return the steps of `formulas.lookup_function`: distances index rounded activations."""
        last = len(self._layer.table) - 1
        table = self._add_table("outputs", self._layer.table)
        step = self._number(1 / self._layer.quantizer.scale)
        distance = [("d", "sum")] if self._has_fallback else []
        return [*distance, ("h", f"{step} * {table}[sum > {last} ? {last} : sum]")]

    def _rounding(self):
        """Return the steps of `formulas.Quantizer.apply`."""
        rounding = self._layer.quantizer
        if rounding is None:
            return []
        upper, lower = self._number(rounding.max_code), self._number(-rounding.max_code)
        clipped = f"q < {upper} ? q : {upper}"
        if rounding.is_signed:
            clipped = f"q < {upper} ? (q > {lower} ? q : {lower}) : {upper}"
        return [
            ("q", self._call("rint", f"f * {self._number(rounding.scale)}")),
            ("r", clipped),
            ("s", f"r * {self._number(1 / rounding.scale)}"),
        ]

    def _statements(self, steps):
        """Return steps (name, expression) as statements; the last one defines ``h``."""
        *first, (_, last) = steps
        real = self._fields["real"]
        lines = [*first, ("h", last)]
        return "".join(f"        const {real} {name} = {value};\n" for name, value in lines)

    def _scaled_total(self):
        """Return the expression of an output, and add the tables of the readout.

        Coefficients that are wider than the activations are stored relative to the largest one of
        their output, so that none is beyond the range of the narrower type.
        """
        network = self._network
        W, unit = network.readout_coef_, None
        if W.dtype > self._real:
            unit = np.abs(W).max(axis=1)
            unit[unit == 0] = 1
            W = W / unit[:, None]
        self._add_table("readout", W.T, self._real)
        self._add_table("intercept", network.readout_intercept_)
        return "total[o]" if unit is None else f"total[o] * {self._add_table('scale', unit)}[o]"

    def _uncovered(self):
        """Return the statements for a sample outside all units: the scores of the nearest centre.

        All units of a class have the same scores. So the tables are the class of each unit, and
        the scores of each class.
        """
        network = self._network
        codes = np.searchsorted(network.classes_, network.center_labels_)
        _, first = np.unique(codes, return_index=True)
        scores = np.zeros((len(network.classes_), self._fields["n_outputs"]))
        scores[codes[first]] = self._parts.nearest_scores[first]
        codes_name = self._add_table("labels", codes, np.min_scalar_type(len(network.classes_)))
        scores_name = self._add_table("nearest", scores, network.readout_intercept_.dtype)
        index = f"{codes_name}[nearest] * {self._fields['n_outputs']} + o"
        return _UNCOVERED.substitute(
            self._fields,
            score=f"{scores_name}[{index}]",
            least_activity=self._number(least_activity(self._real)),
        )

    def _class_function(self):
        """Return the function that predicts the class."""
        table = Table.from_labels(f"{self._name}_classes", self._network.classes_)
        self._tables.append(table)
        is_binary = len(self._network.classes_) == 2
        return _PREDICT_CLASS.substitute(
            self._fields,
            argmax="    best = y[0] > 0;\n" if is_binary else _ARGMAX.substitute(self._fields),
            label_type="const char *" if table.ctype == STRING else f"{table.ctype} ",
        )
