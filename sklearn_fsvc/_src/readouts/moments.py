"""Moments of H and of the targets: sums over tiles of H, where they are.

An engine brings the algebra for its arrays.
"""

import numpy as np

from ..engines.algebra import HOST
from ..engines.integers import exact_sums
from .packed_symmetric import PackedSymmetric

# Rows of H whose mean is its origin.
ORIGIN_ROWS = 1024
# Rows whose sum of integers of 8 bits is exact in any float.
EXACT_ROWS = 4096


class Moments:
    """What a ridge readout needs of the data: a commutative monoid.

    Sums over rows with weights w, in float64: n = sum w, sum w h, sum w y, sum w h h',
    sum w h y' and sum w y^2, where h is H less an origin, so that what is rounded is near the
    variance.
    Those of two sets of rows add up to those of their union, subtract, and cut down to
    those of the leading units.

    Parameters
    ----------
    algebra : HostAlgebra or its like
        What solves, and the namespace of the arrays.
    dtype : dtype, optional
        In which H, less its origin, is multiplied with itself; by default H's own.
    origin : array of shape (n_units,), optional
        By default that of the first rows that are added.
    gram : PackedSymmetric, optional
        All 0; some of the panels will do.
    steps : Steps, optional
        To which H is rounded. Then sums of rows without weights are exact: of the same H, the
        same bits in whatever order rows and parts of them are added, subtracted and put together;
        `data.streaming.is_row_exact` says where a row always has the same H. Rows with weights,
        and targets that are no whole numbers, are added in float64.

    Attributes
    ----------
    gram : PackedSymmetric of order n_units
    origin : (n_units,)
        What was taken from H: about its mean over the first rows that were added.
    rounding : float
        The coarsest machine epsilon among the tiles that were added.
    """

    # Whether all targets are 0 or 1, so that sums with few rows are exact in floats.
    are_whole = False

    def __init__(
        self, n_units, n_outputs, algebra=HOST, dtype=None, origin=None, gram=None, steps=None
    ):
        self.algebra, self.dtype = algebra, None if dtype is None else np.dtype(dtype)
        xp, self.steps = self.xp, steps
        if steps is not None and origin is None:
            origin = xp.zeros(n_units)
        self.n = 0.0
        self.rounding = np.finfo(np.float64).eps
        self._has_origin = origin is not None
        self.origin = algebra.here(origin).copy() if self._has_origin else xp.zeros(n_units)
        self.h = xp.zeros(n_units)
        self.y, self.yy = xp.zeros(n_outputs), xp.zeros(n_outputs)
        self.gram = gram or PackedSymmetric(n_units, algebra)
        self.hy = xp.zeros((n_units, n_outputs))

    @property
    def xp(self):
        """Namespace of the arrays."""
        return self.algebra.xp

    @staticmethod
    def nbytes(n_units):
        """Bytes of the moments."""
        return PackedSymmetric.nbytes(n_units)

    def update(self, H, Y, weight=None):
        """Add rows: H (rows, units), Y (rows, outputs), host weights (rows,) or None.

        H is overwritten.
        """
        xp = self.xp
        n = len(H) if weight is None else float(weight.sum())
        ones = xp.asarray(np.ones(len(H)))  # for which a GPU has nothing to compile
        is_exact = self.steps is not None and weight is None
        dtype = self.dtype or H.dtype
        if self.steps is not None:
            dtype = H.dtype if is_exact else np.dtype(np.float64)
        H = H.astype(max(H.dtype, dtype), copy=False)
        is_first = self.n == 0 and not self._has_origin
        origin = H[:ORIGIN_ROWS].mean(axis=0) if is_first else self.origin.astype(H.dtype)
        # That of steps is 0, and nobody waits for a GPU to say so.
        if is_first or (self.steps is None and self.algebra.any(origin)):
            H -= origin
        if weight is not None:
            ones = xp.sqrt(xp.asarray(weight))
            H *= ones[:, None].astype(H.dtype)
            Y = Y * ones[:, None]
        sums = self._cross(H, xp.column_stack([ones, Y]), is_exact)
        # Where there is no memory for all this, nothing has been added yet.
        self.gram.add_gram(H.astype(dtype, copy=False), self.steps if is_exact else None)
        if is_first:
            self.origin = origin.astype(np.float64)
        self.n += n
        if not is_exact:
            self.rounding = max(self.rounding, float(np.finfo(dtype).eps))
        squares = xp.asarray(np.ones(len(H))) @ (Y * Y)
        self._add(sums[:, 0], sums[:, 1:], ones @ Y, squares)
        return self

    def _add(self, h, hy, y, yy, sign=1):
        """Add sums to these, or subtract them."""
        for own, more in ((self.h, h), (self.hy, hy), (self.y, y), (self.yy, yy)):
            self.algebra.add(own, more, sign)

    def _cross(self, H, Y, is_exact):
        """H'Y in float64, by products in the dtype of H; of integers and whole numbers exactly."""
        if not is_exact:
            return self.algebra.cross(H, Y.astype(H.dtype)).astype(np.float64, copy=False)
        dtype, n_rows = H.dtype, min(EXACT_ROWS, exact_sums(self.steps, H.dtype))
        if n_rows < EXACT_ROWS and not self.are_whole:
            dtype, n_rows = np.dtype(np.float64), EXACT_ROWS
        sums, Y = self.xp.zeros((H.shape[1], Y.shape[1])), Y.astype(dtype)
        for start in range(0, len(H), n_rows):
            rows = slice(start, start + n_rows)
            sums += self.algebra.cross(H[rows].astype(dtype, copy=False), Y[rows])
        return sums

    def absorb(self, other):
        """Add the sums of other rows to these, in place."""
        if self.n == 0:
            self.origin = self.algebra.here(other.origin).copy()
        return self._take_in(other, 1)

    def _take_in(self, other, sign):
        """Add the other sums to these, or subtract them, seen from this origin.

        They may lie on another device of the same kind.
        """
        if other.n == 0:
            return self
        gram, other = other.gram, other._sums_on(self.algebra)
        step, n = other.origin - self.origin, sign * other.n
        h, hy = other.h, other.hy
        self.gram.add(gram, sign)
        if self.algebra.any(step):
            # n step step' + h step' + step h', by rank-one updates.
            self.gram.add_outer(n, step + h / other.n)
            self.gram.add_outer(-sign / other.n, h)
            h, hy = h + other.n * step, hy + self.xp.outer(step, other.y)
        self._add(h, hy, other.y, other.yy, sign)
        self.n += n
        self.rounding = max(self.rounding, other.rounding)
        return self

    def _alike(self):
        """Another one with the same attributes; `copy` of the library asks how it travels."""
        result = object.__new__(type(self))
        vars(result).update(vars(self))
        return result

    def copy(self):
        """Return the same moments, in arrays of their own."""
        result = self._alike()
        for name in ("origin", "h", "y", "yy", "gram", "hy"):
            setattr(result, name, getattr(self, name).copy())
        return result

    def on(self, algebra):
        """Return the same moments where another algebra has its arrays."""
        result = self._sums_on(algebra)
        result.gram = self.gram.on(algebra)
        return result

    def _sums_on(self, algebra):
        """Return the same where another algebra has its arrays, but for the gram."""
        result = self._alike()
        result.algebra = algebra
        for name in ("origin", "h", "y", "yy", "hy"):
            array = getattr(self, name)
            array = array if algebra is self.algebra else self.algebra.to_host(array)
            setattr(result, name, algebra.here(array))
        return result

    def scaled(self, factor):
        """The moments of the same rows, with all weights multiplied by a factor."""
        result = self.copy()
        result.n *= factor
        for sums in (result.h, result.y, result.yy, result.hy, *result.gram.blocks):
            sums *= factor
        return result

    def __getstate__(self):
        """Return the state in arrays of the host, wherever they are."""
        return vars(self if self.algebra is HOST else self.on(HOST))

    def seen_from(self, origin):
        """Return the same moments, of H less another origin."""
        empty = type(self)(len(self.h), len(self.y), self.algebra, self.dtype, steps=self.steps)
        empty.origin = origin
        return empty._take_in(self, 1)

    def __add__(self, other):
        return self.copy().absorb(other)

    def __sub__(self, other):
        return self.copy()._take_in(other, -1)

    def leading(self, n_units):
        """The moments of the first `n_units` units, as views."""
        result = self._alike()
        for name in ("origin", "h", "hy"):
            setattr(result, name, getattr(self, name)[:n_units])
        result.gram = self.gram.leading(n_units)
        return result

    @property
    def mean(self):
        """Mean of H, (n_units,)."""
        mean = self.origin.copy()
        self.algebra.add(mean, self.h, np.divide(1.0, self.n))
        return mean

    @property
    def right(self):
        """Right-hand side of the centred normal equations, (n_units, n_outputs)."""
        return self.algebra.less_outer(self.hy, self.h, self.y, self.n)
