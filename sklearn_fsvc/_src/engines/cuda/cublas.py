"""Calls of cuBLAS, and products in half precision, through CuPy's low-level bindings.

CuPy's functions of arrays would copy submatrices, and compile kernels of their own at first use.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..lapack import REALS, layout
from .launch import round_up

# Constants of cuBLAS for which CuPy has no names: CUDA_R_32F, CUDA_R_16F, CUDA_R_8I, CUDA_R_32I,
# CUBLAS_GEMM_DEFAULT and CUBLAS_TF32_TENSOR_OP_MATH.
_FLOAT32, _FLOAT16, _INT8, _INT32, _DEFAULT, _TF32_MATH = 0, 2, 3, 10, -1, 3
# Columns are padded to multiples of this, with which tensor cores are fastest.
_COLUMNS = 8
# Bits of the significand of float16.
_SIGNIFICAND = 11


def call(name, dtype, *args):
    """Call a routine of cuBLAS with integers, arrays, and floats, which it takes by reference."""
    letter, real = REALS[dtype]
    # The list keeps the scalars alive until the call returns.
    scalars = [real(arg) for arg in args if isinstance(arg, float)]
    remaining = iter(scalars)
    pointers = [_pointer(next(remaining) if isinstance(a, float) else a) for a in args]
    with _cublas() as (cublas, handle):
        getattr(cublas, letter + name)(handle, *pointers)


def multiply_bytes(A, B, sums, accumulate):
    """Write ``B A'`` to `sums`, or add it, for lines of signed bytes, four per word."""
    n_bytes, factors = 4 * A.shape[1], [ctypes.c_int32(1), ctypes.c_int32(accumulate)]
    alpha, beta = map(ctypes.addressof, factors)
    with _cublas() as (cublas, handle):
        cublas.gemmEx(
            handle, cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, len(A), len(B), n_bytes, alpha,
            A.data.ptr, _INT8, n_bytes, B.data.ptr, _INT8, n_bytes, beta,
            sums.data.ptr, _INT32, len(A), cublas.CUBLAS_COMPUTE_32I, _DEFAULT,
        )  # fmt: skip


def _multiply_halves(C: Any, A: Any, B: Any) -> None:
    """Compute ``C = A B`` for float16 factors, in float32; B and C have contiguous columns."""
    (trans_A, lda), (_, ldb), (_, ldc) = map(layout, (A, B, C))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    with _cublas() as (cublas, handle):
        cublas.gemmEx(
            handle, int(trans_A), cublas.CUBLAS_OP_N, *C.shape, A.shape[1], ctypes.addressof(one),
            A.data.ptr, _FLOAT16, lda, B.data.ptr, _FLOAT16, ldb, ctypes.addressof(zero),
            C.data.ptr, _FLOAT32, ldc, cublas.CUBLAS_COMPUTE_32F, _DEFAULT,
        )  # fmt: skip


@contextmanager
def tf32_products() -> Iterator[None]:
    """Let cuBLAS multiply float32 matrices by its TF32 units, in this thread."""
    from cupy.cuda import cublas, device

    handle = device.get_cublas_handle()
    mode = cublas.getMathMode(handle)
    cublas.setMathMode(handle, _TF32_MATH)
    try:
        yield
    finally:
        cublas.setMathMode(handle, mode)


class HalfMatrix:
    """A float16 matrix times a scale, for products with few columns of float32.

    Such a product takes as long as reading the matrix. Each column is split into two float16 terms,
    so that only the matrix is rounded: products with it and with its transpose are those of one
    matrix.

    Parameters
    ----------
    values : array of float16
        Of which rows or columns are contiguous.
    scale : float

    Attributes
    ----------
    dtype : dtype
        Of the products: float32.
    T : HalfMatrix
        The transpose.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, values: Any, scale: float) -> None:
        self._values, self._scale = values, scale

    @classmethod
    def rounded(cls, A: Any) -> "HalfMatrix":
        """Return a matrix of any float dtype, rounded to half precision."""
        import cupy

        # Scaled to at most 1: activations may exceed the range of float16.
        scale = max(-float(A.min()), float(A.max())) or 1.0
        values = cupy.empty((len(A), round_up(A.shape[1], _COLUMNS)), np.float16)
        values = values[:, : A.shape[1]]
        cupy.multiply(A, A.dtype.type(1 / scale), out=values, casting="same_kind")
        return cls(values, scale)

    @property
    def rounding_variance(self) -> float:
        """An upper estimate of the variance of the rounding errors of the elements."""
        return float((self._scale * 2.0**-_SIGNIFICAND) ** 2 / 12)

    @property
    def T(self) -> "HalfMatrix":
        return HalfMatrix(self._values.T, self._scale)

    def __matmul__(self, B: Any) -> Any:
        """Return the product with a float32 matrix, in float32."""
        import cupy

        n = B.shape[1]
        # One scale for all columns: CuPy's maximum of each takes long compared with the product.
        largest = cupy.maximum(cupy.abs(B).max(), np.finfo(np.float32).tiny)
        scaled = B / largest
        terms = cupy.zeros((len(B), round_up(2 * n, _COLUMNS)), np.float16, order="F")
        terms[:, :n] = scaled
        terms[:, n : 2 * n] = (scaled - terms[:, :n]) * 2.0**_SIGNIFICAND
        products = cupy.empty((self._values.shape[0], terms.shape[1]), np.float32, order="F")
        _multiply_halves(products, self._values, terms)
        products[:, :n] += products[:, n : 2 * n] * 2.0**-_SIGNIFICAND
        return products[:, :n] * (largest * np.float32(self._scale))


@contextmanager
def _cublas():
    """Yield cuBLAS and its handle, on the current stream, with scalars on the host."""
    import cupy
    from cupy.cuda import cublas, device

    handle = device.get_cublas_handle()
    cublas.setStream(handle, cupy.cuda.get_current_stream().ptr)
    mode = cublas.getPointerMode(handle)
    cublas.setPointerMode(handle, cublas.CUBLAS_POINTER_MODE_HOST)
    try:
        yield cublas, handle
    finally:
        cublas.setPointerMode(handle, mode)


def _pointer(arg: Any) -> Any:
    if isinstance(arg, ctypes._SimpleCData):
        return ctypes.addressof(arg)
    return arg.data.ptr if hasattr(arg, "data") else arg
