"""Input that scikit-learn does not check: sources, and arrays on another device by DLPack."""

import re

import numpy as np
from scipy.sparse import issparse
from sklearn.externals import array_api_compat
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_n_features, validate_data

from ..columns import why_missing, why_no_numbers, why_no_table
from ..engines import Engine, known_engines
from ..engines.pool import share
from ..engines.threads import n_threads
from ..layers import DTYPES
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
            if (why := why_no_numbers(X)) is not None:
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
