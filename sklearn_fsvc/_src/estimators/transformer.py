"""A hidden layer as a transformer: rows of X to rows of H."""

from functools import wraps
from threading import Lock

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..data.dask_blocks import is_dask, lazy_on_dask
from ..data.map_reduce import part_of, run_parallel, shares_of
from ..data.sources.base import as_taken
from ..data.streaming import Consumer, cast_layer, check_out, stream, stream_into, write
from ..parts import layer_of
from .network import Network
from .state import on_snapshot


class NetworkTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Network):
    """A network of units alone, whose outputs are the answer."""

    def fit(self, X, y=None):
        """Choose the hidden layer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
            Tanh units alone take sparse matrices. A source is, as for `RBFClassifier`, a
            data set of h5py or zarr, or a function that returns a fresh iterable of chunks.
        y : array-like of shape (n_samples,), or str, optional
            Class labels, where the choice of the layer uses them. None where the chunks of X
            hold them; of tables, the name of a column, which is no feature.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _empty_output(self, method, dtype, **options):
        layer = cast_layer(layer_of(self), np.empty((0, 0), as_taken(dtype, "X")))
        return np.empty((0, layer.n_units), layer.hidden_dtype)

    @on_snapshot
    @lazy_on_dask
    def transform(self, X, out=None):
        """Compute the outputs of the hidden layer for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As of `fit`; y in chunks of a function is not looked at.
        out : array-like of shape (n_samples, n_components), optional
            Where H goes: an array, a ``numpy.memmap``, or a data set of h5py or zarr. It is
            returned as it is, whatever ``set_output`` says. After an error it may hold
            some of H.

        Returns
        -------
        H : array of shape (n_samples, n_components), or `out`
            float64 if X or the layer is, else float32. A CuPy array where X is on a GPU,
            else a NumPy array. Beside H itself, `max_memory` bounds what is allocated
            where H is computed.
        """
        with self._open_prediction(X, "transform") as run:
            job, layer, X = run.job, run.layer, run.X
            shape, dtype = (len(X), layer.n_units), layer.hidden_dtype
            if out is None:
                out = job.engine.algebra_of(X).xp.empty(shape, dtype)
            check_out(out, shape, dtype)
            is_direct, lock = _is_written_to_directly(out, dtype), Lock()

            def transform(job, share):
                rows, to_host = part_of(X, share), job.engine.to_host
                if is_direct:
                    return stream_into(job, layer, rows, out[share])

                def put(part, H):
                    with lock:  # a file takes from one thread at a time
                        write(
                            out,
                            slice(share.start + part.start, share.start + part.stop),
                            to_host(H),
                        )

                stream(job, layer, rows, Consumer(put, keeps_hidden=True))

            # Rows that lie on a device are met there.
            is_on_one = isinstance(X, job.engine.xp.ndarray) and not isinstance(X, np.ndarray)
            team = None if is_on_one else job.engine.team
            run_parallel(job, shares_of(team, len(X)), transform)
        return out

    @property
    def _n_features_out(self):
        return layer_of(self).n_units

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return self._parts().units.tagged(tags)


def _is_written_to_directly(out, dtype):
    """Whether an engine can leave H in `out`: a plain array, here or on its device."""
    if not hasattr(out, "flags"):
        return False
    is_aligned = not isinstance(out, np.ndarray) or out.flags.aligned
    return out.dtype == dtype and out.flags.c_contiguous and is_aligned


def _bare_with_out(wrapped):
    """`transform` in the container of ``set_output``; but what the user gives stays bare."""

    @wraps(wrapped)
    def transform(self, X, out=None):
        if out is None and not is_dask(X):
            return wrapped(self, X)
        return wrapped.__wrapped__(self, X, out=out)

    return transform


# scikit-learn wraps methods as their class is made; it would read all of a file into a table.
NetworkTransformer.transform = _bare_with_out(  # type: ignore[method-assign]
    NetworkTransformer.transform
)
