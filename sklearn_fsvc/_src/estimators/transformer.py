"""The public methods of transformers, which compute the activations of a hidden layer."""

from functools import wraps
from threading import Lock
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..data.dask_blocks import is_dask_collection
from ..data.map_reduce import run_parallel
from ..data.rows import slice_rows, split_into_shares, write_rows
from ..data.sources.base import supported_dtype
from ..data.streaming import Consumer, cast_layer, stream, stream_into
from ..data.validation import check_no_overlap, check_out
from ..parts.composition import layer_of
from .network import Network
from .prediction import lazy_on_dask
from .state import on_snapshot


class NetworkTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Network):
    """Base of transformers: a network without a readout."""

    def fit(self, X, y=None):
        """Choose the hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            float32, float64 and arrays of uint8 are not converted, other dtypes and tables of
            uint8 are converted to float64. Only tanh units accept sparse matrices. A source is, as
            in `RBFClassifier`, a dataset of h5py or zarr, or a function that returns a new iterable
            of chunks.
        y : array-like of shape (n_samples,), or str, optional
            Class labels, if the choice of the layer uses them. None if the chunks of X contain
            them; for tables, the name of their column, which is not a feature.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _empty_output(self, method, dtype, **options):
        layer = cast_layer(layer_of(self), np.empty((0, 0), supported_dtype(dtype, "X")))
        return np.empty((0, layer.n_units), layer.hidden_dtype)

    @on_snapshot
    @lazy_on_dask
    def transform(self, X, out=None):
        """Compute the activations of the hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `fit`; y in the chunks of a function is ignored.
        out : array-like of shape (n_samples, n_components), optional
            Where H is written: an array, a ``numpy.memmap``, or a dataset of h5py or zarr. It is
            returned without conversion, even if ``set_output`` asks for one. After an error it may
            contain a part of H.

        Returns
        -------
        H : array of shape (n_samples, n_components), or `out`
            float64 if X or the layer is, else float32. If X is on a GPU, a CuPy array, or a tensor
            with ``device="torch"``; else a NumPy array. If X is a Dask array or DataFrame, a Dask
            array, even if ``set_output`` asks for a DataFrame. `max_memory` limits the temporary
            memory, excluding H.
        """
        with self._open_prediction(X, "transform") as run:
            job, layer, X = run.job, run.layer, run.X
            shape, dtype = (len(X), layer.n_units), layer.hidden_dtype
            if out is None:
                out = job.engine.algebra_of(X).xp.empty(shape, dtype)
            check_out(out, shape, dtype)
            check_no_overlap(out, X)
            is_direct, lock = _is_direct_output(out, dtype), Lock()

            def transform_share(job, share):
                rows, to_host = slice_rows(X, share), job.engine.to_host
                if is_direct:
                    return stream_into(job, layer, rows, out[share])

                def copy_to_out(part, H):
                    rows = slice(share.start + part.start, share.start + part.stop)
                    with lock:  # files are written by one thread at a time
                        write_rows(out, rows, to_host(H))

                stream(job, layer, rows, Consumer(copy_to_out, keeps_hidden=True))

            # An array on a device is transformed by this device.
            is_on_device = isinstance(X, job.engine.xp.ndarray) and not isinstance(X, np.ndarray)
            device_group = None if is_on_device else job.engine.device_group
            run_parallel(job, split_into_shares(device_group, len(X)), transform_share)
            return job.engine.to_user(out)

    @property
    def _n_features_out(self):
        return layer_of(self).n_units

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return self._parts().units.with_tags(tags)


def _is_direct_output(out: Any, dtype: Any) -> bool:
    """Return whether an engine can write to `out`: a contiguous array of the right dtype."""
    if not hasattr(out, "flags"):
        return False
    is_aligned = not isinstance(out, np.ndarray) or out.flags.aligned
    return out.dtype == dtype and out.flags.c_contiguous and is_aligned


def _convert_unless_out(wrapped: Any) -> Any:
    """Return `transform`, which converts to the container of ``set_output`` only new arrays."""

    @wraps(wrapped)
    def transform(self, X, out=None):
        if out is None and not is_dask_collection(X):
            return wrapped(self, X)
        return wrapped.__wrapped__(self, X, out=out)

    return transform


# scikit-learn wraps `transform` when the class is created. Its wrapper would read all of an output
# file into a DataFrame.
NetworkTransformer.transform = _convert_unless_out(  # type: ignore[method-assign]
    NetworkTransformer.transform
)
