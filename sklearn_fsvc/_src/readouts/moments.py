"""Moments of H and of the targets, summed over tiles of H where the tiles are.

The moments are all that a ridge readout needs of the data. Those of disjoint sets of samples can be
added and subtracted, so that out-of-core fits, `partial_fit`, several devices and cross-validation
use the same object.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..engines.algebra import HOST
from ..engines.integers import max_exact_terms
from .packed_symmetric import PackedSymmetric

# Leading rows of the first tile whose mean becomes the shift.
SHIFT_ROWS = 1024
# Columns of H that are converted to another dtype at a time.
_CAST_COLUMNS = 1024
# Rows whose sum of 8-bit integers is exact in any float.
EXACT_ROWS = 4096
# Rounding error of sums after a subtraction, relative to the sums before.
CANCELLATION_ERROR = 1e-9


@dataclass(eq=False)
class Moments:
    """Weighted sums over samples: n, sum h, sum y, sum h h', sum h y' and sum y^2, in float64.

    Here h is a row of H minus a shift near the mean. The variance is the difference of two
    large sums if the mean is far from 0; with the shift subtracted first, their rounding error is
    relative to the variance. `zeros` returns the moments of no samples.
    """

    algebra: Any  # an `Algebra`
    dtype: npt.DTypeLike | None  # in which H is multiplied with itself; None for that of H
    # `Quantizer` to which H is quantised. Then sums without sample weights are exact: they have the
    # same bits in any order of the samples and of additions and subtractions.
    # `data.streaming.is_batch_invariant` returns whether a row of H has the same bits in every
    # tile. With sample weights, or with real-valued targets, sums are accumulated in float64.
    quantizer: Any
    has_shift: bool  # False until the first tile defines the shift
    shift: Any  # (n_units,)
    h: Any  # (n_units,)
    y: Any  # (n_outputs,)
    yy: Any  # (n_outputs,)
    hy: Any  # (n_units, n_outputs)
    gram: Any  # PackedSymmetric; None after a solution has overwritten it
    n: float = 0.0  # sum of the weights
    rounding: float = float(np.finfo(np.float64).eps)  # largest machine epsilon among the tiles
    is_binary: bool = False  # whether targets are 0 or 1, so that sums of few are exact in floats
    # Whether activations in float32 may be rounded to 23 bits of the largest one of their tile.
    allows_fixed_point: bool = False
    has_weights: bool = False  # whether some samples had weights, so that sums were rounded

    @classmethod
    def zeros(
        cls,
        n_units: int,
        n_outputs: int,
        algebra: Any = HOST,
        dtype: npt.DTypeLike | None = None,
        shift: Any = None,
        gram: PackedSymmetric | None = None,
        quantizer: Any = None,
    ) -> Self:
        """Return the moments of no samples.

        Parameters
        ----------
        algebra : Algebra
            Owner of the arrays, and solver.
        dtype : dtype, optional
            In which H, minus the shift, is multiplied with itself; that of H by default.
        shift : array of shape (n_units,), optional
            The mean of the first rows by default; 0 for quantised activations.
        gram : PackedSymmetric, optional
            All 0; may hold a subset of the panels.
        quantizer : Quantizer, optional
            Quantisation of H.
        """
        xp = algebra.xp
        if quantizer is not None and shift is None:
            shift = xp.zeros(n_units)
        has_shift = shift is not None
        return cls(
            algebra=algebra,
            dtype=None if dtype is None else np.dtype(dtype),
            quantizer=quantizer,
            has_shift=has_shift,
            shift=algebra.to_device(shift).copy() if has_shift else xp.zeros(n_units),
            h=xp.zeros(n_units),
            y=xp.zeros(n_outputs),
            yy=xp.zeros(n_outputs),
            hy=xp.zeros((n_units, n_outputs)),
            gram=gram or PackedSymmetric(n_units, algebra),
        )

    @property
    def xp(self) -> Any:
        """Namespace of the arrays."""
        return self.algebra.xp

    @staticmethod
    def nbytes(n_units: int) -> int:
        """Return the bytes of the moments: those of the Gram matrix."""
        return PackedSymmetric.nbytes(n_units)

    def update(self, H: Any, Y: Any, weight: npt.NDArray | None = None) -> Self:
        """Add a tile: H (n_rows, n_units), Y (n_rows, n_outputs), host weights (n_rows,) or None.

        H is overwritten. A MemoryError leaves the moments as they were.
        """
        xp = self.xp
        n = len(H) if weight is None else float(weight.sum())
        is_exact = self.quantizer is not None and weight is None
        product_dtype = self._product_dtype(H.dtype, is_exact)
        if not self.allows_fixed_point:  # otherwise the products may need no other dtype
            H = H.astype(max(H.dtype, product_dtype), copy=False)
        # 1. Subtract the shift from the tile; the first tile defines it.
        is_first = self.n == 0 and not self.has_shift
        shift = H[:SHIFT_ROWS].mean(axis=0) if is_first else self.shift.astype(H.dtype)
        # Quantised activations have the shift 0: skip the test, which synchronises a GPU.
        if is_first or (self.quantizer is None and self.algebra.any(shift)):
            H -= shift
        # 2. Multiply rows by the roots of their weights: sums of products have the weights then.
        # A host array is copied, since xp.ones would compile a kernel on a GPU.
        root = xp.asarray(np.ones(len(H)))
        if weight is not None:
            root = xp.sqrt(xp.asarray(weight))
            H *= root[:, None].astype(H.dtype)
            Y = Y * root[:, None]
        # 3. Sum products. Only steps after `add_gram`, the last one that allocates, change self.
        sums = self._add_products(H, xp.column_stack([root, Y]), weight is not None)
        if is_first:
            self.shift = shift.astype(np.float64)
        self.n += n
        self.has_weights |= weight is not None
        if not is_exact:
            self.rounding = max(self.rounding, float(np.finfo(product_dtype).eps))
        squares = xp.asarray(np.ones(len(H))) @ (Y * Y)
        self._add_sums(sums[:, 0], sums[:, 1:], root @ Y, squares)
        return self

    def _add_products(self, H, targets, is_weighted):
        """Add H'H to the Gram matrix, and return H'targets in float64. H is overwritten."""
        is_exact = self.quantizer is not None and not is_weighted
        dtype = self._product_dtype(H.dtype, is_exact)
        wide, quantizer = max(H.dtype, dtype), self.quantizer if is_exact else None
        if self.allows_fixed_point:
            quantizer = self.algebra.round_to_fixed_point(H)
        sums = None
        if quantizer is not None and not is_weighted and self.is_binary:
            sums = self.algebra.add_integer_sums(list(self.gram), H, targets, quantizer)
        if sums is None:
            H = H.astype(wide, copy=False) if quantizer is None else H
            sums = self._cross(H, targets, is_exact, wide)
            self.gram.add_gram(H.astype(dtype, copy=False) if quantizer is None else H, quantizer)
        return sums

    def _product_dtype(self, hidden_dtype, is_exact):
        """Return the dtype in which H is multiplied with itself.

        Exact sums of integers are computed in any float. Weighted quantised activations are
        no integers any more and need float64.
        """
        if self.quantizer is None:
            return self.dtype or hidden_dtype
        return hidden_dtype if is_exact else np.dtype(np.float64)

    def _add_sums(self, h, hy, y, yy, sign=1):
        """Add sums to these, or subtract them, in place."""
        pairs = ((self.h, h), (self.hy, hy), (self.y, y), (self.yy, yy))
        for total, increment in pairs:
            self.algebra.add(total, increment, sign)

    def _cross(self, H, Y, is_exact, dtype):
        """Return H'Y in float64, multiplied in a dtype; exactly if both hold integers.

        Exact products are cut to so few rows that no partial sum exceeds the integers that the
        dtype represents. If these would be very few rows, float64 is faster.
        """
        if not is_exact:
            Y, step = Y.astype(dtype), H.shape[1] if H.dtype == dtype else _CAST_COLUMNS
            parts = (H[:, start : start + step] for start in range(0, H.shape[1], step))
            products = [
                self.algebra.multiply_transposed(part.astype(dtype, copy=False), Y)
                for part in parts
            ]
            product = products[0] if len(products) == 1 else self.xp.concatenate(products)
            return product.astype(np.float64, copy=False)
        n_rows = min(EXACT_ROWS, max_exact_terms(self.quantizer, dtype))
        if n_rows < EXACT_ROWS and not self.is_binary:
            dtype, n_rows = np.dtype(np.float64), EXACT_ROWS
        sums, Y = self.xp.zeros((H.shape[1], Y.shape[1])), Y.astype(dtype)
        for start in range(0, len(H), n_rows):
            rows = slice(start, start + n_rows)
            sums += self.algebra.multiply_transposed(H[rows].astype(dtype, copy=False), Y[rows])
        return sums

    def absorb(self, other: "Moments") -> Self:
        """Add the moments of other samples, in place."""
        if self.n == 0:
            self.shift = self.algebra.to_device(other.shift).copy()
        return self._combine(other, 1)

    def _combine(self, other, sign):
        """Add the other moments, or subtract them, in place, translated to this shift.

        They may be on another device of the same kind. With the step s between the shifts,
        ``sum (h + s)(h + s)' = sum h h' + n s s' + s (sum h)' + (sum h) s'``, which is two
        rank-one updates.
        """
        if other.n == 0:
            return self
        gram, other = other.gram, other._with_sums_on(self.algebra)
        step, n = other.shift - self.shift, sign * other.n
        h, hy = other.h, other.hy
        self.gram.add(gram, sign)
        if self.algebra.any(step):
            self.gram.add_outer(n, step + h / other.n)
            self.gram.add_outer(-sign / other.n, h)
            h, hy = h + other.n * step, hy + self.xp.outer(step, other.y)
        self._add_sums(h, hy, other.y, other.yy, sign)
        self.n += n
        self.rounding = max(self.rounding, other.rounding)
        self.has_weights |= other.has_weights
        return self

    def copy(self) -> Self:
        """Return the same moments in new arrays."""
        return replace(
            self, shift=self.shift.copy(), h=self.h.copy(), y=self.y.copy(), yy=self.yy.copy(),
            hy=self.hy.copy(), gram=self.gram.copy(),
        )  # fmt: skip

    def on(self, algebra: Any) -> Self:
        """Return the same moments in arrays of another algebra."""
        return replace(self._with_sums_on(algebra), gram=self.gram.on(algebra))

    def _with_sums_on(self, algebra):
        """Return the same moments in arrays of another algebra, except the Gram matrix."""

        def move(array):
            return algebra.to_device(
                array if algebra is self.algebra else self.algebra.to_host(array)
            )

        return replace(
            self, algebra=algebra, shift=move(self.shift), h=move(self.h), y=move(self.y),
            yy=move(self.yy), hy=move(self.hy),
        )  # fmt: skip

    def scaled(self, factor: float) -> Self:
        """Return the moments of the same samples with all weights multiplied by a factor."""
        result = self.copy()
        result.n *= factor
        result.has_weights = True
        for sums in (result.h, result.y, result.yy, result.hy, *result.gram.blocks):
            sums *= factor
        return result

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with host arrays, for pickle."""
        return vars(self if self.algebra is HOST else self.on(HOST))

    def __add__(self, other: "Moments") -> Self:
        return self.copy().absorb(other)

    def __sub__(self, other: "Moments") -> Self:
        return self.copy()._combine(other, -1)

    def leading(self, n_units: int) -> Self:
        """Return the moments of the first `n_units` units, as views."""
        return replace(
            self, shift=self.shift[:n_units], h=self.h[:n_units], hy=self.hy[:n_units],
            gram=self.gram.leading(n_units),
        )  # fmt: skip

    def leave_units_out(self, units: npt.NDArray[np.intp]) -> None:
        """Make units constant in all sums, in place, so that their ridge weights are 0."""
        self.gram.clear(units)
        units = self.algebra.to_device(units)
        self.h[units] = self.hy[units] = 0

    @property
    def is_exact(self) -> bool:
        """Whether no sum was rounded: of quantised activations and integer targets, unweighted."""
        if self.quantizer is None or self.has_weights or self.algebra.any(self.shift):
            return False
        to_host, scale = self.algebra.to_host, self.quantizer.scale
        sums = (to_host(self.y), to_host(self.hy) * scale)
        are_integers = all(np.array_equal(values, np.rint(values)) for values in sums)
        return are_integers and float(self.gram.diagonal().max()) * scale**2 <= 2.0**53

    @property
    def mean(self) -> Any:
        """Mean of H, (n_units,)."""
        mean = self.shift.copy()
        self.algebra.add(mean, self.h, np.divide(1.0, self.n))
        return mean

    @property
    def right(self) -> Any:
        """Right-hand side of the centred normal equations, (n_units, n_outputs)."""
        return self.algebra.subtract_outer(self.hy, self.h, self.y, self.n)
