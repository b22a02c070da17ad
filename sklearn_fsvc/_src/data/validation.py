"""Input that scikit-learn does not check: sources, and arrays on another device by DLPack."""

import re

import numpy as np
from scipy.sparse import issparse
from sklearn.externals import array_api_compat
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_n_features, validate_data

from ..engines import Engine, known_engines
from ..engines.threads import n_threads, share
from ..layers import DTYPES, LinearLayer, PatchLayer, RBFLayer
from .columns import explain_dates, why_missing, why_no_table
from .sources import InMemory, Source, SparseRows

# What scikit-learn and pandas say of rows with missing values or text.
_NO_NUMBERS = "X contains NaN", "convert string to float", "Cannot cast str"
# The same of y, at times without its name.
_NO_TARGETS = re.compile("Input (y )?contains NaN|boolean value of NA")
# Numbers that layers take once they are converted, and how many are converted at once.
_OTHER_NUMBERS = (bool, *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), np.float16)
_FEW = 2**17
# Numbers that are worth a thread of their own to be looked at.
_MANY = 2**20
_ACCEPTED = list(dict.fromkeys(map(np.dtype, (*DTYPES, *_OTHER_NUMBERS))))


def validated(estimator, X, *y, **checks):
    """scikit-learn's `validate_data`, whose error for what is missing or a word has a remedy.

    float32, float64 and uint8 stay as they are. Other numbers become float64: at once where they
    are few, else as they are read. A sparse matrix becomes `SparseRows`, where the estimator
    takes one.
    """
    if not checks.get("reset", True) and _is_plain(estimator, X) and _are_plain(y, len(X)):
        return X, *y
    name, takes_sparse = type(estimator).__name__, get_tags(estimator).input_tags.sparse
    if issparse(X) and not takes_sparse:
        raise TypeError(
            f"X is a sparse matrix, and {name} needs dense rows. TanhClassifier, TanhRegressor and "
            "TanhProjector take sparse ones; else give X.toarray() if it fits in memory, or fewer "
            f"features that are dense: make_pipeline(TruncatedSVD(100), {name}(...))."
        )
    if isinstance(X, np.ndarray) and X.size >= _MANY and _is_finite(X):
        checks = {"ensure_all_finite": False} | checks
    if takes_sparse:
        checks = {"accept_sparse": "csr", "ensure_all_finite": not issparse(X)} | checks
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # sums of what is huge
            found = validate_data(estimator, X, *y, dtype=_dtypes_for(X), **checks)
    except (TypeError, ValueError) as error:
        what = str(error).partition("\n")[0]
        if _NO_TARGETS.match(what) and y and y[0] is not None and (why := why_missing(y[0])):
            raise ValueError(why) from error
        if (why := why_no_table(X)) is not None:
            raise TypeError(why) from error
        if not any(reason in what for reason in _NO_NUMBERS):
            if (why := explain_dates(X)) is not None:
                raise ValueError(why) from error
            raise
        raise ValueError(
            f"{what.rstrip('.')}. {name} needs numbers; for missing values and categories use "
            f"make_tabular_pipeline({name}(...))."
        ) from error
    return (_converted(found[0]), *found[1:]) if y else _converted(found)


def _is_finite(X):
    """Whether all numbers are, as scikit-learn finds out, by all threads."""
    if X.dtype.kind != "f" or X.ndim != 2:
        return False
    sums, step = [], max(1, _MANY // X.shape[1])

    def add(start):
        with np.errstate(over="ignore", invalid="ignore"):  # which each thread has its own
            sums.append(X[start : start + step].sum())

    share(add, range(0, len(X), step), n_threads())
    return bool(np.isfinite(sums).all())


def _converted(X):
    """X in a dtype that layers take, or as a source of such rows."""
    if issparse(X):
        rows = SparseRows(X)
        rows.check_finite()
        return rows
    if X.dtype in DTYPES:
        return X
    return X.astype(np.float64) if X.size <= _FEW else InMemory(X)


def _dtypes_for(X):
    """What X may be; scikit-learn would take every table of polars for float64."""
    is_table = hasattr(X, "head") and not hasattr(X, "iloc")
    dtype = np.asarray(X.head(1)).dtype if is_table else np.dtype(object)
    return dtype if dtype in _ACCEPTED else _ACCEPTED


def is_elsewhere(X):
    """Whether X is an array in the memory of a device that some engine computes on."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    device = X.__dlpack_device__()[0]
    return device != Engine.dlpack_type and _name_of(device) is not None


def _name_of(dlpack_type):
    """The device that takes arrays of this type, None where none does."""
    names = (e.name for e in known_engines().values() if e.dlpack_type == dlpack_type)
    return next(names, None)


def check_rows(estimator, engine, X, *, reset):
    """X as scikit-learn's validate_data leaves it, or on the engine's device if it is there.

    For dtypes see `validated`. The numbers of a source are looked at as they are read.
    """
    if isinstance(X, Source):
        _check_shape(estimator, X)
        names = X if X.names is None else X.names
        validate_data(estimator, names, skip_check_array=True, reset=reset)
        return X
    if not reset and _is_plain(estimator, X):
        return X
    if not is_elsewhere(X):
        return validated(estimator, to_host(X), reset=reset)
    there = X.__dlpack_device__()[0]
    if there != engine.dlpack_type:
        raise TypeError(
            f"X is on a GPU, and device={estimator.device!r} computes elsewhere. Use "
            f'device="{_name_of(there)}", or copy X to the host.'
        )
    X = engine.xp.from_dlpack(X)
    if X.device.id != engine.index:
        raise ValueError(
            f"X is on GPU {X.device.id}, and device={estimator.device!r} is GPU {engine.index}. "
            f'Use device="{_name_of(there)}:{X.device.id}", or copy X there.'
        )
    _check_shape(estimator, X)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}; it must be of real numbers.")
    if X.dtype not in DTYPES:
        X = X.astype(np.float64)
    if X.dtype.kind == "f" and not engine.algebra.is_finite(X):
        raise ValueError("Input X contains NaN or infinity; remove or impute such values.")
    _check_n_features(estimator, X, reset=reset)
    return X


def _is_plain(estimator, X):
    """Whether few rows are as scikit-learn would leave them: its look takes longer than an answer.

    What is anything else, it is asked.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and 0 < X.size <= _FEW
        and X.dtype in DTYPES
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and (X.dtype.kind != "f" or bool(np.isfinite(X).all()))
    )


def _are_plain(targets, n_rows):
    """Return whether targets, of one column each, are as scikit-learn would leave them."""
    return bool(targets) and all(
        type(y) is np.ndarray
        and y.shape == (n_rows,)
        and y.dtype.kind in "biuf"
        and (y.dtype.kind != "f" or bool(np.isfinite(y).all()))
        for y in targets
    )


def _check_shape(estimator, X):
    name = type(estimator).__name__
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(X.shape)}D array instead: X.shape={X.shape}."
        )
    for size, what in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is "
                f"required by {name}."
            )


def to_host(X):
    """A NumPy array of an array of any library and device; what is no array as it is.

    scikit-learn does so, too, but not with ``array_api_dispatch=True``.
    """
    if is_elsewhere(X):
        X = array_api_compat.to_device(X, "cpu")
    is_numpy = isinstance(X, (np.ndarray, np.generic))
    return np.asarray(X) if hasattr(X, "__dlpack_device__") and not is_numpy else X


# Whether rows in float64 may meet a layer in float32, which takes half the time.
#
# A number of float32 has 24 bits. Where rows lie far from 0 and near to one another, their
# distances are in the bits that it lacks; and numbers that are huge or tiny are none of it.

# What rounding may change an output by; and a feature, as a part of its spread.
_OF_OUTPUT, _OF_SPREAD = 1e-5, 1e-4
# Numbers that are among those of float32, and so are their squares, and one over them.
_MOST = 2.0**60
_EPS = float(np.finfo(np.float32).eps)


def is_wide(X):
    """Whether they are rows in float64, in memory, dense and on the host."""
    return isinstance(X, np.ndarray) and not isinstance(X, np.memmap) and X.dtype == np.float64


def keeps_distances(X):
    """Whether all features of rows in float64 differ in float32 by as much as they do."""
    peaks, spread = _peaks(X), np.zeros(X.shape[1])
    if peaks.max(initial=0) < _MOST:
        spread = X.std(axis=0)
    varies = X.min(axis=0) < X.max(axis=0)
    return bool(((_EPS * peaks <= _OF_SPREAD * spread) & (spread > 1 / _MOST))[varies].all())


def cast_if_safe(layer, X):
    """The layer in float32 where it answers rows X alike, to `_OF_OUTPUT`; else the layer."""
    if not is_wide(X) or layer.hidden_dtype != np.float64 or isinstance(layer, PatchLayer):
        return layer
    return layer.astype(np.float32) if _does(layer, X) else layer


def _does(layer, X):
    peaks, units = _peaks(X), _peaks(layer.units)
    largest = max(peaks.max(initial=0), units.max(initial=0))
    if layer.accumulation == "product":
        return bool(largest < _MOST and _EPS * (np.abs(layer.units) @ peaks).max() <= _OF_OUTPUT)
    weights = np.ones(len(peaks)) if layer.weights is None else np.abs(layer.weights)
    of_features = weights.max(axis=1) if layer.is_mapped else weights
    factors = np.append(of_features[of_features > 0], layer.radius)
    are_numbers = largest < _MOST and 1 / _MOST < factors.min() <= factors.max() < _MOST
    if not are_numbers or layer.metric == "sqeuclidean":  # whose radius is a square, too
        return False
    arriving = peaks @ weights if layer.is_mapped else peaks * weights
    most = np.maximum(arriving, units).sum()
    return bool(_EPS * most <= _OF_OUTPUT * layer.radius)


def _peaks(X):
    """The largest size of the numbers of each feature."""
    return np.maximum(X.max(axis=0, initial=0), -X.min(axis=0, initial=0))


# Rows so large that sums of their products with weights are no numbers: refused.
#
# A distance that overflows is infinite, and kernels know what to answer. A sum of products may come
# to infinity less infinity, which is NaN.


class NotNumbers(Exception):
    """Some of the answers to a tile of rows are NaN."""


def check_numbers(values, xp=np):
    """Raise `NotNumbers` if there is a NaN in an array of `xp` that is in one piece."""
    values = values.T if values.flags.f_contiguous else values
    total = float(xp.vdot(values, values))
    if total != total:
        raise NotNumbers


def check_hidden(layer, H, xp):
    """`check_numbers` of H of a tile of rows, where engines do not see to it themselves."""
    is_mended = xp is np and isinstance(layer, LinearLayer) and layer.has_finish
    if not (is_mended or isinstance(layer, RBFLayer)):
        check_numbers(H, xp)


def largest_of(block, numbers):
    """(size of the largest number in some rows of the host, its row, its column).

    `numbers` is the number of the first row, or those of all.
    """
    row, column = np.unravel_index(np.abs(block).argmax(), block.shape)
    number = numbers + row if np.ndim(numbers) == 0 else numbers[row]
    return float(abs(block[row, column])), int(number), int(column)


def explain_overflow(layer, size, row, column):
    """The sentence for rows some of whose outputs are no numbers, and what is largest in them."""
    return (
        f"X holds {size:.3g} in row {row}, column {column}: sums of such "
        f"numbers with weights of the hidden units are no numbers of {layer.units.dtype}. Scale "
        "the features of X (StandardScaler, fitted with the model), or give float64."
    )
