"""Input that lives on a GPU already: arrays of CuPy, torch and others, by DLPack."""

import numpy as np
from sklearn.utils.validation import _check_n_features, validate_data

from ..layers import DTYPES

# DLDeviceType of CUDA memory (DLPack specification).
_DL_CUDA = 2


def on_gpu(X):
    """Whether X is an array in the memory of an NVIDIA GPU."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    return X.__dlpack_device__()[0] == _DL_CUDA


def check_rows(estimator, engine, X, *, reset):
    """X as scikit-learn's validate_data leaves it, or on the GPU if it is there.

    float32, float64 and uint8 stay as they are, other numbers become float64.
    """
    if not on_gpu(X):
        return validate_data(estimator, X, dtype=list(DTYPES), reset=reset)
    if engine.xp is np:
        raise TypeError(
            f"X is on a GPU, and device={estimator.device!r} computes on the host. Use "
            'device="cuda", or copy X to the host.'
        )
    X = engine.xp.from_dlpack(X)
    if X.device.id != engine.index:
        raise ValueError(
            f"X is on GPU {X.device.id}, and device={estimator.device!r} is GPU {engine.index}. "
            f'Use device="cuda:{X.device.id}", or copy X there.'
        )
    _check_shape(estimator, X)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}; it must be of real numbers.")
    if X.dtype not in DTYPES:
        X = X.astype(np.float64)
    if X.dtype.kind == "f" and not bool(engine.xp.isfinite(X).all()):
        raise ValueError("Input X contains NaN or infinity; remove or impute such values.")
    _check_n_features(estimator, X, reset=reset)
    return X


def _check_shape(estimator, X):
    name = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X.shape={X.shape}.")
    for size, what in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is "
                f"required by {name}."
            )


def to_host(X):
    """A host array, also from a GPU."""
    if not on_gpu(X):
        return X
    import cupy

    return cupy.asnumpy(cupy.from_dlpack(X))
