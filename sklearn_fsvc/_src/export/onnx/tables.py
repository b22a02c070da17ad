"""The preprocessing of `make_tabular_pipeline` as ONNX operators."""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.impute import MissingIndicator
from sklearn.preprocessing import OrdinalEncoder

from ...data.columns import is_missing
from ...tabular.categories import ONE_HOT_VALUE, UNKNOWN_CODE, CategoryEncoder, category_codes
from ...tabular.dates import DatetimeEncoder
from ...tabular.interactions import InteractionEncoder
from ...tabular.numerical_interactions import NumericalInteractionEncoder
from ...tabular.repeated_values import RepeatedValueEncoder
from ...tabular.scalers import (
    MedianImputer,
    RankOrValueScaler,
    RankScaler,
    ValueScaler,
    nonzero_and_rounded,
)
from ...tabular.table_transformer import TableTransformer
from ...tabular.text import TextEncoder
from ...tabular.thresholds import ThresholdEncoder
from ..unwrap import steps_of
from .graph import ML_DOMAIN, GraphBuilder, add_rational, add_search, flatten_sorted, int64

# Texts of missing values; onnxruntime converts None, NaN and pandas.NA to the last three.
_MISSING_TEXTS = ("", "None", "nan", "<NA>")
_REMEDIES = {
    DatetimeEncoder: "replace dates by numbers, such as days, before fit",
    TextEncoder: "fit without text, set_params(preprocessing__text='drop')",
}
# M. J. Wichura (1988), "Algorithm AS 241: The percentage points of the normal distribution",
# PPND7, of relative error 1e-7: coefficients of numerators and denominators, highest powers first.
# z / q for q = p - 1/2 is a function of 0.425^2 - q^2 up to |q| = 0.425; beyond, |z| is a function
# of sqrt(-log(min(p, 1 - p))) - 1.6.
_MIDDLE = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
_TAIL = (
    (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
    (0.12021132975, 0.73700164250, 1.0),
)


class TableInputs:
    """The columns of a table, which are spread over the inputs of an ONNX model.

    Parameters
    ----------
    graph : GraphBuilder
    inputs : sequence of (str, dtype, int)
        Name, dtype and number of columns of each input. Strings are objects.
    """

    def __init__(self, graph: GraphBuilder, inputs: Sequence[tuple[str, np.dtype, int]]) -> None:
        self._graph = graph
        self._columns = [
            (name, dtype, position) for name, dtype, width in inputs for position in range(width)
        ]

    def column(self, j: int) -> tuple[str, np.dtype]:
        """Add the selection of a column; return its name, of shape (rows,), and its dtype."""
        name, dtype, position = self._columns[j]
        return self._graph.add("Gather", name, np.array(position), axis=1), dtype

    def numerical(self, columns: Sequence[int]) -> tuple[str, np.dtype]:
        """Add the matrix (rows, columns) of some columns, in the dtype of scikit-learn."""
        selected = [self._columns[j] for j in columns]
        dtype = np.result_type(*(dtype for _, dtype, _ in selected))
        dtype = dtype if dtype == np.float32 else np.dtype(np.float64)
        parts = []
        for name in dict.fromkeys(name for name, _, _ in selected):
            positions = int64(*(position for owner, _, position in selected if owner == name))
            part = self._graph.add("Gather", name, positions, axis=1)
            parts.append(self._graph.cast(part, dtype))
        return self._graph.add("Concat", *parts, axis=1), dtype


def add_table(graph: GraphBuilder, table: TableTransformer, inputs: TableInputs) -> str:
    """Add the operators of `TableTransformer.transform`; return the name of its float32 features.

    Raises TypeError for transformers of dates and of text, and for those of other packages.
    """
    features: list[str] = []
    for name, transformer, columns in table.transformers_:
        indices = table.output_indices_[name]
        if indices.start == indices.stop:  # "drop", or no columns, missing values, interactions
            continue
        if add := _PARTS.get(type(transformer)):
            features += add(graph, transformer, inputs, columns)
        else:
            features.append(_add_numerical(graph, name, transformer, inputs, columns))
    return graph.add("Concat", *features, axis=1)


def _add_numerical(graph, name, transformer, inputs, columns):
    """Add a transformer of numerical features, or a pipeline of them."""
    X, dtype = inputs.numerical(columns)
    for step in steps_of(transformer):
        if type(step) not in _NUMERICAL_STEPS:
            remedy = _REMEDIES.get(type(step), "keep the transformers of make_tabular_pipeline")
            raise TypeError(
                f"Part {name!r} of the preprocessing, {step!r}, cannot be converted to ONNX: "
                f"{remedy}. Or convert the network alone, to_onnx(pipeline[-1], "
                "pipeline[:-1].transform(X)), and preprocess with pipeline[:-1].transform."
            )
        X = _NUMERICAL_STEPS[type(step)](graph, step, X, dtype)
    return graph.cast(X, np.float32)


def _add_missing(graph, indicator, inputs, columns):
    """Add `MissingIndicator.transform`."""
    X, _ = inputs.numerical([columns[k] for k in indicator.features_])
    return [graph.cast(graph.add("IsNaN", X), np.float32)]


def _add_categories(graph, encoder, inputs, columns):
    """Add `CategoryEncoder.transform`."""
    features = []
    for j, code in enumerate(_add_codes(graph, encoder, inputs, columns)):
        n_one_hot = encoder.positions_[j].max() + 1
        if n_one_hot:
            position = graph.add("Gather", encoder.positions_[j].astype(np.int64), code)
            position = graph.add("Unsqueeze", position, int64(1))
            is_category = graph.add("Equal", position, int64(*range(n_one_hot)))
            one_hot = graph.cast(is_category, np.float32)
            one_hot = graph.add("Mul", one_hot, np.float32(ONE_HOT_VALUE))
            is_unknown = graph.add("Less", position, int64(0))
            features.append(graph.add("Where", is_unknown, encoder.unknown_[j], one_hot))
        for table in (encoder.means_, encoder.log_counts_):
            if j in table:
                features.append(graph.add("Gather", table[j].astype(np.float32), code))
    return features


def _add_interactions(graph, encoder, inputs, columns):
    """Add `InteractionEncoder.transform`."""
    codes = _add_codes(graph, encoder, inputs, columns)
    features = []
    for (i, j), means in zip(encoder.pairs_, encoder.means_, strict=True):
        cell = codes[i]
        if (i, j) in encoder.equalities_:
            cell = _add_equality(graph, encoder, inputs, columns, i, j)
        elif i < j:
            cell = graph.add("Mul", cell, int64(encoder.n_categories_[j]))
            cell = graph.add("Add", cell, codes[j])
        features.append(graph.add("Gather", means.astype(np.float32), cell))
    return features


def _add_equality(graph, encoder, inputs, columns, i, j):
    """Add whether the values of two columns are equal, and not missing, as integers."""
    (first, dtype), (second, other) = (inputs.column(columns[k]) for k in (i, j))
    known = [c for k in (i, j) for c in encoder.encoder_.categories_[k].tolist()]
    present = [category for category in known if not is_missing(category)]
    types, is_text = {type(category) for category in present}, dtype.kind == "O"
    # As strings, 1 and 1.0 are different.
    if is_text != (other.kind == "O") or (is_text and len(types) > 1):
        names = getattr(encoder, "feature_names_in_", columns)
        raise TypeError(
            f"Columns {names[i]!r} and {names[j]!r} of X have the dtypes {dtype} and {other}, with "
            f"values of the types {sorted(each.__name__ for each in types)}, and a feature is "
            "whether their values are equal; convert both to one dtype before fit, numbers to a "
            "numeric one."
        )
    if not is_text:
        # Of an integer and a float: float64 rounds the one, and int64 the other.
        equal = [
            graph.add("Equal", graph.cast(first, exact), graph.cast(second, exact))
            for exact in dict.fromkeys(map(_exact_type, (dtype, other)))
        ]
        return graph.cast(equal[0] if len(equal) == 1 else graph.add("And", *equal), np.int64)
    is_equal = graph.cast(graph.add_text_equality(first, second), np.int64)
    missing = [text for text in _MISSING_TEXTS if text not in present]
    if not missing:
        return is_equal
    is_present = graph.add(
        "LabelEncoder", first, domain=ML_DOMAIN, keys_strings=missing,
        values_int64s=[0] * len(missing), default_int64=1,
    )  # fmt: skip
    return graph.add("Mul", is_equal, is_present)


# Parts that are not steps of numerical features.
_PARTS = {
    CategoryEncoder: _add_categories,
    InteractionEncoder: _add_interactions,
    MissingIndicator: _add_missing,
}


def _add_codes(graph, encoder, inputs, columns):
    """Add `category_codes`; return for each column the name of its codes, of shape (rows,)."""
    names = getattr(encoder, "feature_names_in_", columns)
    ordinal = encoder.encoder_
    features = zip(names, columns, ordinal.categories_, _known_codes(ordinal), strict=True)
    return [
        _add_code(graph, name, known, codes, *inputs.column(j))
        for name, j, known, codes in features
    ]


def _known_codes(encoder: OrdinalEncoder) -> npt.NDArray[np.int64]:
    """Return the codes of the categories of each feature, (n_features, largest number of them).

    Those of features with fewer categories are repeated.
    """
    n_rows = max(map(len, encoder.categories_))
    X = [np.resize(known.astype(object), n_rows) for known in encoder.categories_]
    return category_codes(encoder, np.stack(X, axis=1)).T


def _add_code(graph, name, known, codes, column, dtype):
    """Add the codes of a column of strings or numbers, whose categories have these codes."""
    pairs = list(zip(known.tolist(), codes.tolist(), strict=False))
    present = [(category, code) for category, code in pairs if not is_missing(category)]
    of_missing = [code for category, code in pairs if is_missing(category)]
    missing = of_missing[-1] if of_missing else UNKNOWN_CODE
    if dtype.kind == "O":
        # onnxruntime converts objects to strings in the same way. A text such as "nan" may be a
        # category beside missing values.
        code_of = dict.fromkeys(_MISSING_TEXTS, missing)
        for category, code in present:
            code_of |= dict.fromkeys(_texts_of(category), code)
        return graph.add(
            "LabelEncoder", column, domain=ML_DOMAIN, keys_strings=list(code_of),
            values_int64s=list(code_of.values()), default_int64=UNKNOWN_CODE,
        )  # fmt: skip
    if not all(isinstance(category, (Real, np.bool_)) for category, _ in present):
        raise TypeError(
            f"Column {name!r} of X has the dtype {dtype}, and was fitted with categories such as "
            f"{pairs[0][0]!r}; convert with the dtypes of fit."
        )
    return _add_code_of_numbers(graph, present, missing, column, dtype)


def _texts_of(category: Any) -> set[str]:
    """Return the strings of all objects that are equal to a category: of 1, also 1.0 and True."""
    texts = {str(category)}
    if isinstance(category, (Real, np.bool_)) and np.isfinite(float(category)):
        texts |= {str(of(category)) for of in (int, float, bool) if of(category) == category}  # type: ignore[arg-type]
    return texts


def _add_code_of_numbers(graph, numbers, missing, column, dtype):
    """Add the codes of a column of numbers: those of (category, code), and of missing numbers.

    Categories that are no int64, in a column of integers, or no float64, are equal to no value.
    """
    exact = _exact_type(dtype)
    exact_numbers = [pair for pair in numbers if _is_exact(pair[0], exact)] or [(0, UNKNOWN_CODE)]
    values, codes = (np.array(each)[:, None] for each in zip(*exact_numbers, strict=True))
    values, column = values.astype(exact), graph.cast(column, exact)
    position = add_search(graph, values, column)
    is_known = graph.add("Equal", graph.add("Gather", flatten_sorted(values), position), column)
    code = graph.add("Gather", flatten_sorted(codes), position)
    code = graph.add("Where", is_known, code, int64(UNKNOWN_CODE))
    if exact is np.int64:
        return code
    return graph.add("Where", graph.add("IsNaN", column), int64(missing), code)


def _exact_type(dtype):
    """Return the type that holds all numbers of a dtype exactly."""
    return np.int64 if dtype.kind in "biu" else np.float64


def _is_exact(number, dtype):
    """Return whether a dtype holds a number exactly."""
    try:
        return dtype(number).item() == number
    except OverflowError:
        return False


def _add_imputation(graph, imputer, X, dtype):
    """Add `MedianImputer.transform`: medians are rounded to the dtype of X."""
    return graph.add("Where", graph.add("IsNaN", X), imputer.statistics_.astype(dtype), X)


def _add_rank_scores(graph, scaler, X, dtype):
    """Add `RankScaler.transform`."""
    X, quantiles = graph.cast(X, np.float64), scaler.quantiles_.astype(np.float64)
    X = graph.add("Max", graph.add("Min", X, quantiles[-1]), quantiles[0])
    position = add_search(graph, quantiles, X)

    lookup = partial(_add_lookup, graph, position)
    # Between two quantiles ranks are interpolated.
    references = np.broadcast_to(scaler.references_[:, None], quantiles.shape)
    step = 1 / max(len(quantiles) - 1, 1)
    gaps = np.diff(quantiles, axis=0, append=quantiles[-1:])
    low, midranks = lookup(quantiles), _midranks(quantiles)
    share = graph.add("Div", graph.add("Sub", X, low), lookup(np.where(gaps > 0, gaps, 1)))
    ranks = graph.add("Add", lookup(references), graph.add("Mul", share, np.float64(step)))
    # As `RankScaler`: values that differ from a quantile by rounding have its rank.
    for at, is_rounded in _add_rounded_matches(graph, quantiles, X, position):
        ranks = graph.add("Where", is_rounded, at(midranks), ranks)
    ranks = graph.add("Where", graph.add("Equal", X, low), lookup(midranks), ranks)
    ranks = graph.add("Min", graph.add("Max", ranks, scaler.ends_[0]), scaler.ends_[1])
    return _add_combined_scores(graph, graph.cast(ranks, np.float32))


def _add_lookup(graph, position, table):
    """Add the elements of a table, (n_values, n_columns), at the positions of `add_search`."""
    return graph.add("Gather", flatten_sorted(table), position)


def _add_rounded_matches(graph, table, X, position):
    """Yield for the last value that is not larger, and for the next, whether X is it, rounded.

    As in `match_rounded`. Yields functions that look up elements of a table at this value, and the
    name of the result.
    """
    in_float32 = graph.cast(graph.cast(X, np.float32), np.float64)
    exact, rounded = nonzero_and_rounded(table)
    lookup = partial(_add_lookup, graph, position)

    def following(table):
        return lookup(np.append(table[1:], table[-1:], axis=0))

    for at in (lookup, following):
        pairs = (in_float32, at(exact)), (X, at(rounded))
        yield at, graph.add("Or", *(graph.add("Equal", *pair) for pair in pairs))


def _midranks(quantiles):
    """Return the ranks of the quantiles themselves: equal ones have the middle of their ranks.

    But the smallest value has rank 0, and the largest rank 1.
    """
    sums = [np.searchsorted(q, q) + np.searchsorted(q, q, "right") for q in quantiles.T]
    ranks = (np.transpose(sums) - 1) / 2 / max(len(quantiles) - 1, 1)
    ranks[quantiles == quantiles[-1]] = 1
    ranks[quantiles == quantiles[0]] = 0
    return ranks


def _add_combined_scores(graph, ranks):
    """Add `combine_scores`."""
    p = graph.cast(ranks, np.float64)
    q = graph.add("Sub", p, np.float64(0.5))
    r = graph.add("Sub", np.float64(0.425**2), graph.add("Mul", q, q))
    middle = graph.add("Mul", q, add_rational(graph, _MIDDLE, r))
    outside = graph.add("Min", p, graph.add("Sub", np.float64(1), p))
    r = graph.add("Sqrt", graph.add("Neg", graph.add("Log", outside)))
    tail = add_rational(graph, _TAIL, graph.add("Sub", r, np.float64(1.6)))
    is_middle = graph.add("LessOrEqual", graph.add("Abs", q), np.float64(0.425))
    z = graph.add("Where", is_middle, middle, graph.add("Mul", graph.add("Sign", q), tail))
    return graph.add(
        "Add", graph.add("Mul", z, np.float64(0.5)), graph.add("Mul", q, np.float64(sqrt(3)))
    )


def _add_values(graph, scaler, X, dtype):
    """Add `ValueScaler.transform`."""
    X, standard = graph.cast(X, np.float64), scaler.scaler_
    # Only the factor of a column of denormal numbers would be infinite.
    X = graph.add("Mul", X, np.ldexp(1.0, np.minimum(-scaler.exponents_, 1023)))
    lower, upper = scaler.limits_
    X = graph.add("Max", graph.add("Min", X, upper), lower)
    return graph.add("Div", graph.add("Sub", X, standard.mean_), standard.scale_)


def _add_ranks_or_values(graph, scaler, X, dtype):
    """Add `RankOrValueScaler.transform`."""
    if scaler.value_scaler_ is None:
        return _add_rank_scores(graph, scaler, X, dtype)
    return _add_values(graph, scaler.value_scaler_, X, dtype)


def _add_pairs(graph, encoder, X, dtype):
    """Add `NumericalInteractionEncoder.transform`, with at least one interaction."""
    X, largest = graph.cast(X, np.float64), np.finfo(np.float64).max
    features = []
    for operator, i, j, *centres in encoder.interactions_:
        a, b = (graph.add("Gather", X, np.array([column]), axis=1) for column in (i, j))
        if operator == "*":
            a, b = (graph.add("Sub", *pair) for pair in zip((a, b), centres, strict=True))
        feature = graph.add({"==": "Equal", "-": "Sub", "/": "Div", "*": "Mul"}[operator], a, b)
        feature = graph.cast(feature, np.float64)
        if operator == "/":
            is_zero = graph.add("Equal", b, np.float64(0))
            feature = graph.add("Where", is_zero, np.float64(0), feature)
        features.append(feature)
    H = graph.add("Concat", *features, axis=1)
    H = graph.add("Max", graph.add("Min", H, largest), -largest)
    return _add_rank_scores(graph, encoder.scaler_, H, np.dtype(np.float64))


def _add_indicators(graph, encoder, X, dtype):
    """Add `ThresholdEncoder.transform`, with at least one threshold."""
    columns, values = (np.array(each) for each in zip(*encoder.thresholds_, strict=True))
    X = graph.cast(graph.add("Gather", X, columns, axis=1), np.float64)
    H = graph.cast(graph.add("Greater", X, values), np.float64)
    return _add_rank_scores(graph, encoder.scaler_, H, np.dtype(np.float64))


def _add_repeated_values(graph, encoder, X, dtype):
    """Add `RepeatedValueEncoder.transform`, with at least one column."""
    features = []
    for j, values, means in zip(encoder.columns_, encoder.values_, encoder.means_, strict=True):
        column = graph.cast(graph.add("Gather", X, np.array(j), axis=1), np.float64)
        cell = _add_cell(graph, values, column)
        features.append(graph.add("Gather", means.astype(np.float32), cell))
    return graph.add("Concat", *features, axis=1)


def _add_cell(graph, values, column):
    """Add the position of each element in sorted values, after them if missing or unknown."""
    n, table = len(values), values[:, None]
    position = add_search(graph, table, column)
    lookup = partial(_add_lookup, graph, position)
    cells, cell = np.arange(n)[:, None], int64(n + 1)
    for at, is_rounded in _add_rounded_matches(graph, table, column, position):
        cell = graph.add("Where", is_rounded, at(cells), cell)
    is_equal = graph.add("Equal", column, lookup(table))
    cell = graph.add("Where", is_equal, lookup(cells), cell)
    return graph.add("Where", graph.add("IsNaN", column), int64(n), cell)


# Type of a step -> function of the graph, the fitted step, the name of X and its dtype, which
# returns the name of the output.
_NUMERICAL_STEPS: dict[type, Callable[..., str]] = {
    MedianImputer: _add_imputation,
    NumericalInteractionEncoder: _add_pairs,
    RankOrValueScaler: _add_ranks_or_values,
    RankScaler: _add_rank_scores,
    RepeatedValueEncoder: _add_repeated_values,
    ThresholdEncoder: _add_indicators,
    ValueScaler: _add_values,
}
