"""Layers by matrix products on the CPU: what BLAS engines share, and the engine of NumPy's BLAS.

Squared Euclidean distances are computed as |x|^2 + |c|^2 - 2 x.c; those that have cancelled, since
a sample is close to a centre, are computed again from the differences. A Manhattan distance is not
a product: SciPy computes it, in float64.
"""

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from .algebra import HOST
from .base import SQUARE_CANCELLATION
from .host import (
    HostEngine,
    SparseEvaluator,
    host_identity,
    ignore_overflow,
    map_rows,
    may_overflow,
    repair_overflow,
)
from .threads import limit_blas_threads, n_threads

# Bytes of the temporary arrays of a thread, which fit into its cache.
_BLOCK_BYTES = 2**18
# Elements of H that a thread finishes while they are still in the cache.
_FINISH = 2**15


@dataclass(frozen=True)
class _PreparedProducts:
    layer: Any
    unit_norms: np.ndarray | None = None  # |c|^2, for squared Euclidean distances
    float64_units: np.ndarray | None = None  # for Manhattan distances


class ProductEngine(HostEngine):
    """Evaluates layers by products; a subclass provides the library that multiplies."""

    functions: Any = np  # elementwise functions

    @abstractmethod
    def multiply(self, X: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
        """Write X W' to `out` in the calling thread alone, for float32 or float64.

        X and W are C-ordered; rows of `out` are contiguous.
        """

    def prepared_bytes(self, layer):
        per_thread = 8 * _FINISH
        if layer.reduction != "product":
            # Masks of cancelled distances, and the differences that replace them.
            per_thread = 24 * _FINISH + 2 * _BLOCK_BYTES
        float64_units = 8 * layer.units.size if layer.reduction == "manhattan" else 0
        return layer.nbytes + float64_units + layer.n_units * 8 + n_threads() * per_thread

    def tunables(self, layer):
        # The library chooses its own blocks.
        return {"M": (4096, 1024, 2048), "asymmetry": (1, 2, 4)}

    def is_tile_invariant(self, layer):
        # SciPy computes each distance by itself; a BLAS cuts a product by its shape.
        return layer.reduction == "manhattan"

    def prepare(self, layer):
        units = layer.units
        if layer.reduction == "sqeuclidean":
            return _PreparedProducts(layer, unit_norms=np.einsum("ij,ij->i", units, units))
        if layer.reduction == "manhattan":
            return _PreparedProducts(layer, float64_units=units.astype(np.float64, copy=False))
        return _PreparedProducts(layer)

    def hidden(self, prepared, X, out=None, units=None):
        layer, norms = prepared.layer, prepared.unit_norms
        if out is None:
            out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
        H = out
        if units is not None:
            H, layer = out[:, units], layer.part(units)
            norms = norms if norms is None else norms[units]
        if layer.reduction == "manhattan":
            centers = prepared.float64_units[units or slice(None)]
            self._map_rows(lambda rows: _manhattan(X[rows], centers, H[rows]), H)
        else:
            # Blocks depend on the shape alone, as those of `HostAlgebra`: a BLAS rounds sums by
            # the shape of the product, which must not depend on the number of threads.
            W = layer.units
            HOST.map_blocks(
                lambda rows, columns: self.multiply(X[rows], W[columns], H[rows, columns]),
                H.shape, X.shape[1], H.dtype,
            )  # fmt: skip
        self._map_rows(lambda rows: self._activate(layer, norms, X[rows], H[rows]), H)
        return out

    def sparse_evaluator(self):
        return SparseEvaluator(self.functions)

    def _map_rows(self, function, out):
        """Call ``function(rows)`` on slices of the rows, by threads if `out` is large."""

        def call(rows):
            with ignore_overflow():  # NumPy's error state belongs to a thread
                function(rows)

        map_rows(call, len(out), n_threads() if out.size > _FINISH else 1)

    def _activate(self, layer, unit_norms, X, out):
        """Turn products, or Manhattan distances, into activations, in place."""
        step = max(1, _FINISH // out.shape[1])
        is_checked = may_overflow(layer, X, out.size)
        for start in range(0, len(out), step):
            rows = slice(start, start + step)
            if layer.reduction == "sqeuclidean":
                _expand(X[rows], layer.units, unit_norms, out[rows])
            layer.affine_of_sum.apply(out[rows], np)
            if is_checked:
                repair_overflow(layer, X[rows], out[rows])
            layer.finish(out[rows], self.functions)


class BlasEngine(ProductEngine):
    """Products by the BLAS that NumPy was built with."""

    name = "blas"

    def why_unavailable(self):
        return None

    def describe(self):
        return blas_name()

    def identity(self):
        return host_identity(self.name, blas_name())

    def multiply(self, X, W, out):
        with limit_blas_threads(1), ignore_overflow():
            np.matmul(X, W.T, out=out)


def blas_name() -> str:
    """Return the name and version of NumPy's BLAS, and whether its kernels are overridden."""
    info = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    forced = os.environ.get("OPENBLAS_CORETYPE")
    note = f", OPENBLAS_CORETYPE={forced} forces its kernels" if forced else ""
    return f"{info['name']} {info['version']}{note}"


def _manhattan(X, units, out):
    """Write sum |x - c| to `out`, in blocks whose float64 copies fit into the cache."""
    block_size = _BLOCK_BYTES // (8 * max(1, X.shape[1]))
    n_units = max(8, block_size)
    n_rows = max(1, min(block_size, _FINISH // min(n_units, len(units))))
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        block = X[rows].astype(np.float64, copy=False)
        for first in range(0, len(units), n_units):
            columns = slice(first, first + n_units)
            out[rows, columns] = cdist(block, units[columns], "cityblock")


def _expand(X, units, unit_norms, out):
    """Replace x.c by |x - c|^2, in place."""
    norms = np.einsum("ij,ij->i", X, X)[:, None]
    out *= -2
    out += norms
    out += unit_norms
    limit = out.dtype.type(SQUARE_CANCELLATION[out.dtype])
    # "not >=" rather than "<": NaN, from infinite norms, counts as cancelled.
    rows, columns = np.nonzero(~(out >= limit * (norms + unit_norms)))
    step = max(1, _BLOCK_BYTES // (X.itemsize * X.shape[1]))
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        difference = X[i] - units[j]
        out[i, j] = np.einsum("ij,ij->i", difference, difference)
