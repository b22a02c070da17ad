"""Matrices in half precision on a GPU, whose products with few columns take less time.

Such a product is bounded by the time of reading the matrix. The columns are two float16 terms each,
so that only the matrix is rounded: a product and one with the transpose are of the same matrix.
"""

from typing import Any

import numpy as np

from . import cublas
from .launch import round_up

# Multiple of the columns of the matrix, and of its products: as tensor cores multiply them.
_COLUMNS = 8
# Bits of the significand of float16.
_SIGNIFICAND = 11


class HalfMatrix:
    """A float16 matrix times a number, for products with float32 matrices.

    Parameters
    ----------
    values : array of float16
        Of which rows or columns are contiguous.
    unit : float
        The number.

    Attributes
    ----------
    dtype : dtype
        Of the products: float32.
    T : HalfMatrix
        The transpose.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, values: Any, unit: float) -> None:
        self._values, self._unit = values, unit

    @classmethod
    def rounded(cls, A: Any) -> "HalfMatrix":
        """Return a matrix of any dtype, of which rows are contiguous, rounded to half precision."""
        import cupy

        # Scaled to at most 1: activations may exceed the range of float16.
        unit = max(-float(A.min()), float(A.max())) or 1.0
        values = cupy.empty((len(A), round_up(A.shape[1], _COLUMNS)), np.float16)
        values = values[:, : A.shape[1]]
        cupy.multiply(A, A.dtype.type(1 / unit), out=values, casting="same_kind")
        return cls(values, unit)

    @property
    def rounding_variance(self) -> float:
        """An upper estimate of the variance of the rounding errors of the elements."""
        return float((self._unit * 2.0**-_SIGNIFICAND) ** 2 / 12)

    @property
    def T(self) -> "HalfMatrix":
        return HalfMatrix(self._values.T, self._unit)

    def __matmul__(self, B: Any) -> Any:
        """Return the product with a float32 matrix, in float32."""
        import cupy

        n = B.shape[1]
        # One number for all columns: CuPy's maximum of each takes long compared with the product.
        largest = cupy.maximum(cupy.abs(B).max(), np.finfo(np.float32).tiny)
        scaled = B / largest
        terms = cupy.zeros((len(B), round_up(2 * n, _COLUMNS)), np.float16, order="F")
        terms[:, :n] = scaled
        terms[:, n : 2 * n] = (scaled - terms[:, :n]) * 2.0**_SIGNIFICAND
        products = cupy.empty((self._values.shape[0], terms.shape[1]), np.float32, order="F")
        cublas.multiply_halves(products, self._values, terms)
        products[:, :n] += products[:, n : 2 * n] * 2.0**-_SIGNIFICAND
        return products[:, :n] * (largest * np.float32(self._unit))
