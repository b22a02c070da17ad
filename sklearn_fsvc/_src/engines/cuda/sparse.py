"""Layers of products on sparse rows, on a GPU: cuSPARSE through CuPy multiplies."""

import numpy as np


class CudaSparsePlace:
    """The part of `CudaEngine` that sparse rows need: see `engines.sparse.SparsePlace`.

    The layer lies on the GPU as for dense rows.

    Parameters
    ----------
    engine : CudaEngine
    """

    def __init__(self, engine):
        self._engine = engine

    def prepare(self, layer):
        return self._engine.prepare(layer)

    def prepared_bytes(self, layer):
        return self._engine.prepared_bytes(layer)

    def row_bytes(self, layer):
        # cuSPARSE gives columns; they are beside H until they are its rows.
        return layer.n_units * layer.units.itemsize

    def hidden(self, prepared, X, out, units=None):
        return self._engine.hidden(prepared, self._engine.sparse_to_device(X), out)


def csr_on_device(X):
    """A ``csr_array`` of SciPy as CuPy's; cuSPARSE has numbers of 32 bits for places."""
    from cupy import asarray
    from cupyx.scipy.sparse import csr_matrix

    indices, indptr = (asarray(a.astype(np.int32, copy=False)) for a in (X.indices, X.indptr))
    return csr_matrix((asarray(X.data), indices, indptr), shape=X.shape)
