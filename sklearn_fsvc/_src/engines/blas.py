"""Matrix products on the CPU: by NumPy's BLAS, or by Intel MKL.

Euclidean distances come from the expanded product |x|^2 + |c|^2 - 2 x.c; pairs so close
that the expansion cancels are computed again from their differences. A Manhattan
distance is no product: SciPy computes it, in float64.
"""

import os
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from . import mkl
from .base import CANCELLATION
from .host import HostEngine, far_away, host_identity, map_rows, may_overflow, mend
from .sparse import SparsePlace
from .threads import at_most, n_threads

# Bytes of the temporary arrays of one thread, small enough for its cache.
_BLOCK_BYTES = 2**18
# Elements of H finished while they are still in cache.
_FINISH = 2**15


@dataclass(frozen=True)
class _PreparedProducts:
    layer: object
    unit_norms: np.ndarray | None = None
    wide_units: np.ndarray | None = None  # in float64, for Manhattan distances


class ProductEngine(HostEngine):
    """A layer by products: all but the library that multiplies."""

    functions = np

    @abstractmethod
    def multiply(self, X, W, out):
        """out = X W' for C-ordered float32 or float64 arrays."""

    def prepared_bytes(self, layer):
        # Beside units and norms, what each thread computes with; of differences more, for it
        # compares and recomputes where products cancel.
        per_thread = 8 * _FINISH
        if layer.accumulation != "product":
            per_thread = 24 * _FINISH + 2 * _BLOCK_BYTES
        wide = 8 * layer.units.size if layer.accumulation == "manhattan" else 0
        return layer.nbytes + wide + layer.n_units * 8 + n_threads() * per_thread

    def tunables(self, layer):
        # The library cuts its products itself.
        return {"M": (4096, 1024, 2048), "asymmetry": (1, 2, 4)}

    def is_tile_exact(self, layer):
        # Only SciPy's distances take pair by pair; a product is cut by its shape.
        return layer.accumulation == "manhattan"

    def prepare(self, layer):
        units = layer.units
        if layer.accumulation == "sqeuclidean":
            return _PreparedProducts(layer, unit_norms=np.einsum("ij,ij->i", units, units))
        if layer.accumulation == "manhattan":
            return _PreparedProducts(layer, wide_units=units.astype(np.float64, copy=False))
        return _PreparedProducts(layer)

    def hidden(self, prepared, X, out=None, units=None):
        layer, norms = prepared.layer, prepared.unit_norms
        if out is None:
            out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
        H = out
        if units is not None:
            H, layer = out[:, units], layer.part(units)
            norms = norms if norms is None else norms[units]
        if layer.accumulation == "manhattan":
            wide = prepared.wide_units[units or slice(None)]
            self._by_rows(lambda rows: _manhattan(X[rows], wide, H[rows]), H)
        else:
            with far_away():
                self.multiply(X, layer.units, H)
        self._by_rows(lambda rows: self._activate(layer, norms, X[rows], H[rows]), H)
        return out

    def sparse_evaluator(self):
        return SparsePlace(self.functions)

    def _by_rows(self, function, out):
        def quietly(rows):  # each thread has a state of errors of its own
            with far_away():
                function(rows)

        map_rows(quietly, len(out), n_threads() if out.size > _FINISH else 1)

    def _activate(self, layer, unit_norms, X, out):
        step = max(1, _FINISH // out.shape[1])
        is_watched = may_overflow(layer, X, out.size)
        for start in range(0, len(out), step):
            rows = slice(start, start + step)
            if layer.accumulation == "sqeuclidean":
                _expand(X[rows], layer.units, unit_norms, out[rows])
            layer.on_sums.apply(out[rows], np)
            if is_watched:
                mend(layer, X[rows], out[rows])
            layer.finish(out[rows], self.functions)


class BlasEngine(ProductEngine):
    """Products by the BLAS that NumPy was built with."""

    name = "blas"

    def why_unavailable(self):
        return None

    def details(self):
        return blas_name()

    def identity(self):
        return host_identity(self.name, blas_name())

    def multiply(self, X, W, out):
        with at_most(1):
            self._by_rows(lambda rows: np.matmul(X[rows], W.T, out=out[rows]), out)


class MklEngine(ProductEngine):
    """Products and tanh by Intel MKL, called in process."""

    name = "mkl"
    packages = ("mkl",)
    functions = mkl.Functions()

    def why_unavailable(self):
        return mkl.why_unavailable()

    def details(self):
        return mkl.version()

    def identity(self):
        return host_identity(self.name, mkl.version())

    def multiply(self, X, W, out):
        mkl.multiply(X, W, out)


def _manhattan(X, units, out):
    """Sum |x - c| by blocks of rows and of units, whose float64 stay in cache."""
    fitting = _BLOCK_BYTES // (8 * max(1, X.shape[1]))
    n_units = max(8, fitting)
    n_rows = max(1, min(fitting, _FINISH // min(n_units, len(units))))
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        block = X[rows].astype(np.float64, copy=False)
        for first in range(0, len(units), n_units):
            some = slice(first, first + n_units)
            out[rows, some] = cdist(block, units[some], "cityblock")


def _expand(X, units, unit_norms, out):
    """out: x.c -> |x - c|^2, in place."""
    norms = np.einsum("ij,ij->i", X, X)[:, None]
    out *= -2
    out += norms
    out += unit_norms
    limit = out.dtype.type(CANCELLATION[out.dtype])
    # Written so that NaN, from infinite norms, counts as cancelled.
    rows, columns = np.nonzero(~(out >= limit * (norms + unit_norms)))
    step = max(1, _BLOCK_BYTES // (X.itemsize * X.shape[1]))
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        difference = X[i] - units[j]
        out[i, j] = np.einsum("ij,ij->i", difference, difference)


def blas_name():
    """The BLAS that NumPy calls, for people to read."""
    info = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    forced = os.environ.get("OPENBLAS_CORETYPE")
    note = f", OPENBLAS_CORETYPE={forced} forces its kernels" if forced else ""
    return f"{info['name']} {info['version']}{note}"
