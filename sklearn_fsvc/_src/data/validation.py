"""Validation of X that scikit-learn does not do, in three parts.

- Arrays on another device (DLPack), sources, sparse matrices, and errors with a remedy.
- The range of float32: whether float64 samples may be evaluated in float32, and NaN results of
  values that are too large.
- Arrays and files that results are written into (`out`).
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.externals import array_api_compat
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_n_features, validate_data

from ..engines import Engine, known_engines
from ..engines.threads import n_threads, parallel_for
from ..layers import DTYPES, LinearLayer, PatchLayer, RBFLayer
from .columns import (
    as_data_frame,
    check_unique_names,
    explain_dates,
    explain_missing_targets,
    explain_unsupported_container,
)
from .sources import ArraySource, Source, SparseSource

# Parts of the messages of scikit-learn and pandas for samples with missing values or text.
_NOT_NUMERIC = "X contains NaN", "convert string to float", "Cannot cast str", "Cannot cast object"
# The same for y, which some messages do not name.
_MISSING_TARGETS = re.compile("Input (y )?contains NaN|boolean value of NA")
# Dtypes that are converted to one of a layer.
_CONVERTIBLE: tuple[Any, ...] = (
    bool, *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), np.float16,
)  # fmt: skip
_ACCEPTED = list(dict.fromkeys(map(np.dtype, (*DTYPES, *_CONVERTIBLE))))
# Those of a table: see `supported_dtype`.
_ACCEPTED_IN_TABLES = [dtype for dtype in _ACCEPTED if dtype != np.uint8]
# Values up to which an array is converted at once, and validated without scikit-learn.
_SMALL_SIZE = 2**17
# Values from which a check for finite values uses all threads.
_PARALLEL_SIZE = 2**20


def validate_on_host(estimator: Any, X: Any, *y: Any, **checks: Any) -> Any:
    """Return X, and y if given, from scikit-learn's `validate_data`, with better errors.

    float32, float64 and arrays of uint8 stay as they are. Other dtypes become float64: at once if
    the array is small, else a few rows at a time as they are read. A sparse matrix becomes
    `SparseSource`, if the estimator supports it. Errors for missing values and text name a remedy.
    """
    if not checks.get("reset", True) and _is_valid(estimator, X) and _are_valid_targets(y, len(X)):
        return X, *y
    X = as_data_frame(X)
    check_unique_names(X)
    name, takes_sparse = type(estimator).__name__, get_tags(estimator).input_tags.sparse
    if issparse(X) and not takes_sparse:
        raise TypeError(
            f"X is a sparse matrix, and {name} needs dense rows. Use {_sparse_alternative(name)}, "
            "which accepts sparse ones, or fewer features that are dense: "
            f"make_pipeline(TruncatedSVD(100), {name}(...)); or X.toarray() if it fits in memory."
        )
    if isinstance(X, np.ndarray) and X.size >= _PARALLEL_SIZE and _is_finite(X):
        checks = {"ensure_all_finite": False} | checks
    if takes_sparse:
        checks = {"accept_sparse": "csr", "ensure_all_finite": not issparse(X)} | checks
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums X
            result = validate_data(estimator, X, *y, dtype=_dtypes_for(X), **checks)
    except (TypeError, ValueError) as error:
        _raise_with_remedy(error, estimator, X, y)
        raise
    return (_converted(result[0]), *result[1:]) if y else _converted(result)


def _sparse_alternative(name: str) -> str:
    """Return the name of the estimator for sparse X, for the same task as the named one."""
    kinds = ("Classifier", "Regressor", "Projector")
    return f"Tanh{next((kind for kind in kinds if name.endswith(kind)), kinds[0])}"


def _raise_with_remedy(error: Exception, estimator: Any, X: Any, y: tuple[Any, ...]) -> None:
    """Raise an error with a remedy from one of scikit-learn's, if there is one."""
    name, message = type(estimator).__name__, str(error).partition("\n")[0]
    if (explanation := _explain_dimensions(estimator, X)) is not None:
        raise ValueError(explanation) from error
    is_missing = _MISSING_TARGETS.match(message) and y and y[0] is not None
    if is_missing and (explanation := explain_missing_targets(y[0])) is not None:
        raise ValueError(explanation) from error
    if (explanation := explain_unsupported_container(X)) is not None:
        raise TypeError(explanation) from error
    if y and hasattr(y[0], "collect"):  # a LazyFrame; other tables are converted
        raise TypeError(explain_unsupported_container(y[0], "y") or message) from error
    if any(part in message for part in _NOT_NUMERIC):
        raise ValueError(
            f"{message.rstrip('.')}. {name} needs numbers; for missing values and categories use "
            f"make_tabular_pipeline({name}(...))."
        ) from error
    if (explanation := explain_dates(X)) is not None:
        raise ValueError(explanation) from error


def validate_samples(estimator: Any, engine: Engine, X: Any, *, reset: bool) -> Any:
    """Return validated X, on the engine's device if it is there already.

    For dtypes see `validate_on_host`. The values of a source are checked as they are read.
    """
    if isinstance(X, Source):
        _check_shape(estimator, X)
        names = X if X.names is None else X.names
        validate_data(estimator, names, skip_check_array=True, reset=reset)
        return X
    if not reset and _is_valid(estimator, X):
        return X
    if is_on_other_device(X):
        return _validate_on_device(estimator, engine, X, reset)
    return validate_on_host(estimator, to_host(X), reset=reset)


def _validate_on_device(estimator: Any, engine: Engine, X: Any, reset: bool) -> Any:
    """Return validated X as an array of the engine, whose device it is on; raise if it is not."""
    device_type = X.__dlpack_device__()[0]
    if device_type not in engine.dlpack_types:
        raise TypeError(
            f"X is on a GPU, and device={estimator.device!r} computes elsewhere. Use "
            f'device="{_engine_for(device_type)}", or copy X to the host.'
        )
    X = engine.xp.from_dlpack(X)
    if X.device.id != engine.index:  # type: ignore[attr-defined]
        raise ValueError(
            f"X is on GPU {X.device.id}, and device={estimator.device!r} is GPU "
            f"{engine.index}. "  # type: ignore[attr-defined]
            f'Use device="{_engine_for(device_type)}:{X.device.id}", or copy X there.'
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


def is_on_other_device(X: Any) -> bool:
    """Return whether X is an array on a device that an engine computes on, other than the host."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    device_type = X.__dlpack_device__()[0]
    return _engine_for(device_type) is not None


def to_host(X: Any) -> Any:
    """Return an array of any library as a NumPy array; anything else as it is.

    scikit-learn does so too, but not with ``array_api_dispatch=True``. Nullable integers of pandas
    stay integers: scikit-learn converts them to float64, where class labels may become equal. NumPy
    strings of variable length become objects: scikit-learn does not accept their dtype.
    """
    if _is_nullable_integer(X):
        return X.to_numpy(X.dtype.numpy_dtype)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _with_numpy_integers(X)
    if is_on_other_device(X):
        X = array_api_compat.to_device(X, "cpu")
    is_numpy = isinstance(X, (np.ndarray, np.generic))
    if is_numpy and X.dtype.kind == "T":  # StringDType
        return X.astype(object)
    return np.asarray(X) if hasattr(X, "__dlpack_device__") and not is_numpy else X


def to_dense(y: Any) -> npt.NDArray:
    """Return a sparse matrix or an array-like as a dense array."""
    return y.toarray() if issparse(y) else np.asarray(y)


def _is_nullable_integer(X: Any) -> bool:
    """Return whether X is a Series or array of pandas with integers of an extension type."""
    dtype: Any = getattr(X, "dtype", None)
    return hasattr(dtype, "numpy_dtype") and dtype.kind in "iu" and not X.isna().any()


def _with_numpy_integers(X: Any) -> Any:
    """Return a DataFrame of pandas with the columns of nullable integers as those of NumPy."""
    columns = {j: X.iloc[:, j] for j, dtype in enumerate(X.dtypes) if hasattr(dtype, "numpy_dtype")}
    columns = {j: column for j, column in columns.items() if _is_nullable_integer(column)}
    if columns:
        X = X.copy(deep=False)  # it belongs to the user
    for j, column in columns.items():
        X.isetitem(j, to_host(column))
    return X


def _engine_for(dlpack_type: int) -> str | None:
    """Return the name of the engine for arrays of a DLPack device type, None without one."""
    names = (e.name for e in known_engines().values() if dlpack_type in e.dlpack_types)
    return next(names, None)


def _is_valid(estimator: Any, X: Any) -> bool:
    """Return whether `validate_data` would return a small X unchanged.

    For few samples it takes longer than their prediction. False for any X that needs it: the
    warning about feature names, too.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and 0 < X.size <= _SMALL_SIZE
        and X.dtype in DTYPES
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and (X.dtype.kind != "f" or bool(np.isfinite(X).all()))
    )


def _are_valid_targets(targets: tuple[Any, ...], n_rows: int) -> bool:
    """Return whether `validate_data` would return targets, of one column each, unchanged."""
    return bool(targets) and all(
        type(y) is np.ndarray
        and y.shape == (n_rows,)
        and y.dtype.kind in "biuf"
        and (y.dtype.kind != "f" or bool(np.isfinite(y).all()))
        for y in targets
    )


def _is_finite(X: npt.NDArray[Any]) -> bool:
    """Return whether the sums of X are finite, as scikit-learn tests it, with all threads."""
    if X.dtype.kind != "f" or X.ndim != 2:
        return False
    sums: list[Any] = []
    step = max(1, _PARALLEL_SIZE // X.shape[1])

    def add(start: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the state belongs to the thread
            sums.append(X[start : start + step].sum())

    parallel_for(add, range(0, len(X), step), n_threads())
    return bool(np.isfinite(sums).all())


def _converted(X: Any) -> Any:
    """Return X in a dtype of a layer, or as a source that converts its rows to one."""
    if issparse(X):
        rows = SparseSource(X)
        rows.check_finite()
        return rows
    if X.dtype in DTYPES:
        return X
    return X.astype(np.float64) if X.size <= _SMALL_SIZE else ArraySource(X)


def _dtypes_for(X: Any) -> Any:
    """Return the `dtype` of `validate_data`, which would convert every polars table to float64."""
    is_table = hasattr(X, "head")
    is_polars = is_table and not hasattr(X, "iloc")
    dtype = np.asarray(X.head(1)).dtype if is_polars else np.dtype(object)
    accepted = _ACCEPTED_IN_TABLES if is_table else _ACCEPTED
    return dtype if dtype in accepted else accepted


def _explain_dimensions(estimator: Any, X: Any) -> str | None:
    """Return the message for samples that are matrices or images, and not rows."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) < 3:
        return None
    message = (
        f"X has shape {shape}, and {type(estimator).__name__} needs a row for each sample: pass "
        "X.reshape(len(X), -1)"
    )
    has_images = hasattr(estimator, "pool") or getattr(estimator, "image_shape", None) is not None
    if not has_images:
        return f"{message}."
    channels = ", where the channels are the last axis" if len(shape) > 3 else ""
    return f"{message}, with image_shape={shape[1:]}{channels}."


def _check_shape(estimator: Any, X: Any) -> None:
    name = type(estimator).__name__
    if len(X.shape) != 2:
        raise ValueError(
            _explain_dimensions(estimator, X)
            or f"Expected 2D array, got {len(X.shape)}D array instead: X.shape={X.shape}."
        )
    for size, what in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is "
                f"required by {name}."
            )


# Whether a layer in float64 may be evaluated in float32, which takes half the time.
#
# A float32 has 24 significant bits. The distances of samples that are far from 0 and close to one
# another are in the bits that it lacks, and very large or small values are outside its range.

# The largest acceptable rounding error of an activation, and that of a feature relative to its
# standard deviation.
_ACTIVATION_ERROR, _FEATURE_ERROR = 1e-5, 1e-4
# Magnitudes whose squares and reciprocals are float32 numbers, too.
_MAX_MAGNITUDE = 2.0**60
_EPS = float(np.finfo(np.float32).eps)


def is_float64_array(X: Any) -> bool:
    """Return whether X is a dense float64 array in host memory."""
    return isinstance(X, np.ndarray) and not isinstance(X, np.memmap) and X.dtype == np.float64


def is_float32_resolved(X: npt.NDArray[np.float64]) -> bool:
    """Return whether float32 resolves the spread of every feature of X that varies."""
    peaks, spread = _max_abs(X), np.zeros(X.shape[1])
    if peaks.max(initial=0) < _MAX_MAGNITUDE:
        spread = X.std(axis=0)
    varies = X.min(axis=0) < X.max(axis=0)
    is_resolved = (_EPS * peaks <= _FEATURE_ERROR * spread) & (spread > 1 / _MAX_MAGNITUDE)
    return bool(is_resolved[varies].all())


def cast_to_float32_if_safe(layer: Any, X: Any) -> Any:
    """Return the layer in float32 if its activations of X stay within `_ACTIVATION_ERROR`."""
    if not is_float64_array(X) or layer.hidden_dtype != np.float64 or isinstance(layer, PatchLayer):
        return layer
    return layer.astype(np.float32) if _is_float32_accurate(layer, X) else layer


def _is_float32_accurate(layer: Any, X: npt.NDArray[np.float64]) -> bool:
    """Return whether a bound of the rounding error of the layer's activations is small enough.

    Each value is rounded by up to eps times its magnitude. A dot product moves by up to eps times
    the sum of |w| |x|; a Manhattan or Euclidean distance by up to eps times the sum of the largest
    magnitudes, and the activation by that divided by the radius, since no kernel is steeper.
    """
    peaks, units = _max_abs(X), _max_abs(layer.units)
    largest = max(peaks.max(initial=0), units.max(initial=0))
    if layer.reduction == "product":
        error = _EPS * (np.abs(layer.units) @ peaks).max()
        return bool(largest < _MAX_MAGNITUDE and error <= _ACTIVATION_ERROR)
    weights = np.ones(len(peaks)) if layer.weights is None else np.abs(layer.weights)
    scales = weights.max(axis=1) if layer.is_mapped else weights
    factors = np.append(scales[scales > 0], layer.radius)
    low, high = factors.min(), factors.max()
    is_in_range = largest < _MAX_MAGNITUDE and 1 / _MAX_MAGNITUDE < low <= high < _MAX_MAGNITUDE
    if not is_in_range or layer.metric == "sqeuclidean":  # its radius is a squared distance
        return False
    weighted = peaks @ weights if layer.is_mapped else peaks * weights
    return bool(_EPS * np.maximum(weighted, units).sum() <= _ACTIVATION_ERROR * layer.radius)


def _max_abs(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the largest magnitude of each feature, without a copy of X."""
    return np.maximum(X.max(axis=0, initial=0), -X.min(axis=0, initial=0))


# NaN activations or scores of values that are too large.
#
# A distance that overflows is infinite, and every kernel has a limit there. A sum of products may
# be inf - inf, which is NaN: such samples are refused.

TARGETS_OVERFLOW = (
    "Predictions of so large a y overflow float64; divide y by a constant, such as 1e300."
)


class NaNOutputError(Exception):
    """Some activations or scores of a tile are NaN."""


def check_no_nan(values: Any, xp: Any = np) -> None:
    """Raise `NaNOutputError` if a contiguous array of `xp` contains NaN.

    The dot product with itself is one fast pass; it is NaN only if a value is.
    """
    values = values.T if values.flags.f_contiguous else values
    total = float(xp.vdot(values, values))
    if total != total:
        raise NaNOutputError


def check_hidden(layer: Any, H: Any, xp: Any) -> None:
    """Do `check_no_nan` of H of a tile, unless the engine cannot return NaN for the layer."""
    is_nan_free = xp is np and isinstance(layer, LinearLayer) and layer.has_finish
    if not (is_nan_free or isinstance(layer, RBFLayer)):
        check_no_nan(H, xp)


def find_largest(block: npt.NDArray[Any], numbers: Any) -> tuple[float, int, int]:
    """Return (the largest magnitude of some rows, its row, its column).

    `numbers` is the number of the first row, or those of all.
    """
    row, column = np.unravel_index(np.abs(block).argmax(), block.shape)
    number = numbers + row if np.ndim(numbers) == 0 else numbers[row]
    return float(abs(block[row, column])), int(number), int(column)


def explain_overflow(layer: Any, size: float, row: int, column: int) -> str:
    """Return the error message for samples whose activations or scores are NaN."""
    if np.isnan(size):  # with `assume_finite` of scikit-learn, which has not checked X
        return f"Input X contains NaN in row {row}, column {column}; remove or impute such values."
    if isinstance(layer, RBFLayer):  # activations are between 0 and 1, whatever X is
        return TARGETS_OVERFLOW
    return (
        f"X holds {size:.3g} in row {row}, column {column}: weighted sums of such values overflow "
        f"in {layer.units.dtype}. Scale the features of X (StandardScaler, fitted with the model), "
        "or pass float64."
    )


# Arrays and files that results are written into.


def check_out(out: Any, shape: tuple[int, ...], dtype: npt.DTypeLike | None = None) -> None:
    """Raise if a result of a shape, and of a floating dtype if one is given, cannot be written."""
    if not hasattr(out, "shape") or not hasattr(out, "__setitem__"):
        raise TypeError(
            f"out is a {type(out).__name__}; pass an array, a numpy.memmap, or a dataset of h5py "
            "or zarr."
        )
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"out has shape {tuple(out.shape)}, and the result has {tuple(shape)}.")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out cannot be written to: it is read-only.")
    if dtype is not None and out.dtype.kind != "f":
        raise ValueError(
            f"out has dtype {out.dtype}, and the result is {np.dtype(dtype)}; use floats."
        )


def check_no_overlap(out: Any, X: Any) -> None:
    """Raise ValueError if `out` shares memory with X: it is written while X is read."""
    if not (isinstance(out, np.ndarray) and isinstance(X, (np.ndarray, Source))):
        return
    if X.shares_memory(out) if isinstance(X, Source) else np.shares_memory(X, out):
        raise ValueError("out shares memory with X, which is read meanwhile; pass another array.")


def check_holds(out: Any, values: npt.NDArray[Any]) -> None:
    """Raise ValueError if the dtype of `out` cannot represent all of the values."""
    try:
        is_exact = np.array_equal(values.astype(out.dtype), values)
    except (TypeError, ValueError):
        is_exact = False
    if not is_exact:
        raise ValueError(f"out has dtype {out.dtype}, which cannot hold all of {values}.")
