"""The linear algebra of the readouts on a GPU: see `HostAlgebra` for what each does.

cuBLAS and cuSOLVER as CuPy binds them, for its own functions of arrays copy what is a part of
a matrix.
"""

import ctypes
import math
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..kernels.cuda import selection
from ..kernels.cuda.kernel import BlockSizes
from ..lapack import REALS, layout
from . import integers, launch, transfer
from .launch import ceil_div

# What cuBLAS calls bytes and integers of 32 bits, for which CuPy has no names, and its own choice.
_BYTES, _INTEGERS, _ANY = 3, 10, -1
# Compute capability from which there is TF32, the bits of a float32 that it keeps, and what
# cuBLAS calls CUBLAS_TF32_TENSOR_OP_MATH, for which CuPy has no name.
_TF32, _DIGITS, _TF32_MATH = 80, 0xFFFFE000, 3


class CuPyAlgebra:
    """cuBLAS and cuSOLVER through CuPy."""

    n_matrices, n_parts, inverts = 3, 2, True

    @property
    def xp(self):
        import cupy

        return cupy

    @staticmethod
    def multiply(A, B):
        return A @ B

    @staticmethod
    def cross(H, B):
        return H.T @ B

    @staticmethod
    def symmetric_product(A, B):
        import cupy

        # The lower triangle alone, by way of a packed one, with half of the diagonal.
        n, dtype = len(A), A.dtype
        packed, lower = cupy.empty(n * (n + 1) // 2, dtype), cupy.zeros((n, n), dtype, order="F")
        _blas("trttp", dtype, 0, n, A, layout(A)[1], packed)
        _blas("tpttr", dtype, 0, n, packed, lower, n)
        CuPyAlgebra.add(lower.diagonal(), A.diagonal(), -0.5)
        product = cupy.zeros(B.shape, dtype, order="F")
        CuPyAlgebra.gemm(product, lower, B)
        CuPyAlgebra.gemm(product, lower.T, B)
        return product

    @staticmethod
    def gemm(C, A, B, factor=1.0, keep=1.0):
        if not A.size or not B.size:
            return
        (of_A, lda), (of_B, ldb), (_, ldc) = map(layout, (A, B, C))
        _blas(
            "gemm", C.dtype, int(of_A), int(of_B), *C.shape, A.shape[1], factor, A, lda, B, ldb,
            keep, C, ldc,
        )  # fmt: skip

    @staticmethod
    def split(A):
        """float32 as the sum of two numbers with the 11 binary digits of TF32, where there is it.

        Three products of such parts take half the time of one of float32, and round about five
        times as coarsely.
        """
        import cupy

        if A.dtype != np.float32 or int(cupy.cuda.Device().compute_capability) < _TF32:
            return (A,)
        return tf32_parts(A)

    @staticmethod
    def gemm_split(C, A, B):
        if len(A) == 1:
            return CuPyAlgebra.gemm(C, *A, *B, keep=0.0)
        (large_A, small_A), (large_B, small_B) = A, B
        with _tf32():
            CuPyAlgebra.gemm(C, small_A, large_B, keep=0.0)
            CuPyAlgebra.gemm(C, large_A, small_B)
            CuPyAlgebra.gemm(C, large_A, large_B)

    @staticmethod
    def syrk(C, A, factor=1.0, keep=1.0, has_room=False):
        (of_A, lda), (_, ldc) = map(layout, (A, C))
        _blas("syrk", C.dtype, 0, int(of_A), len(C), A.shape[1], factor, A, lda, keep, C, ldc)

    @staticmethod
    def add_lower(C, A):
        C += A

    @staticmethod
    def fast_bits():
        return 8, 15

    @staticmethod
    def add_gram_of_bytes(blocks, H, steps):
        import cupy

        launch_here = partial(launch.launch, cupy.cuda.Device().id)
        integers.add_gram(blocks, H, steps, cupy, launch_here, _multiply_bytes, BlockSizes())
        return True

    @staticmethod
    def syrk_bytes(order, dtype):
        return 0

    # By cuBLAS, for which nothing has to be compiled: CuPy compiles a kernel for each layout.
    @staticmethod
    def add(C, A, factor=1.0):
        if C.dtype != A.dtype:
            C += factor * A
        elif C.ndim == 1:
            steps = (array.strides[0] // array.itemsize for array in (A, C))
            _blas("axpy", C.dtype, len(C), float(factor), A, next(steps), C, next(steps))
        elif C.size:
            (of_A, lda), (of_C, ldc) = map(layout, (A, C))
            shape, flags = C.T.shape if of_C else C.shape, (int(of_A ^ of_C), 0)
            _blas("geam", C.dtype, *flags, *shape, float(factor), A, lda, 1.0, C, ldc, C, ldc)

    @staticmethod
    def inner(A, B):
        import cupy

        lines, result = cupy.zeros((2, A.size), A.dtype), REALS[A.dtype][1]()
        for line, array in zip(lines, (A, B), strict=True):
            CuPyAlgebra.add(line.reshape(A.shape), array)
        _blas("dot", A.dtype, A.size, lines[0], 1, lines[1], 1, result)
        return result.value

    @staticmethod
    def add_to_diagonal(A, number):
        import cupy

        numbers, step = cupy.asarray(np.full(A.shape[1], number, A.dtype)), sum(A.strides)
        _blas("axpy", A.dtype, len(numbers), 1.0, numbers, 1, A, step // A.itemsize)

    @staticmethod
    def less_outer(A, u, v, n):
        result = A.copy()
        CuPyAlgebra.gemm(result.T, v[:, None], u[None], -1.0 / n)
        return result

    @staticmethod
    def factorise(A):
        import cupy
        from cupy.cuda import cusolver, device

        handle, letter = device.get_cusolver_handle(), REALS[A.dtype][0]
        cusolver.setStream(handle, cupy.cuda.get_current_stream().ptr)
        matrix = 0, len(A), A.data.ptr, layout(A)[1]  # 0: the lower triangle
        n_work = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, *matrix)
        work, info = cupy.empty(n_work, A.dtype), cupy.empty(1, np.int32)
        potrf = getattr(cusolver, f"{letter}potrf")
        potrf(handle, *matrix, work.data.ptr, n_work, info.data.ptr)
        return int(info[0]) == 0

    @staticmethod
    def solve_lower(L, B, transposed=False, unit=False):
        (of_B, ldb), (of_L, ldl) = layout(B), layout(L)
        shape = B.T.shape if of_B else B.shape
        is_transposed = transposed ^ of_B ^ of_L
        flags = of_B, of_L, is_transposed, unit  # from the right, upper, transposed, of ones
        _blas("trsm", B.dtype, *map(int, flags), *shape, 1.0, L, ldl, B, ldb)

    @staticmethod
    def eigh(A):
        import cupy

        return cupy.linalg.eigh(A, UPLO="L")

    @staticmethod
    def median(A):
        # CuPy's own looks for NaN, with kernels that take it seconds to compile.
        import cupy

        A, n = cupy.sort(A, axis=0), len(A)
        return cupy.asarray(0.5 * A[(n - 1) // 2].get() + 0.5 * A[n // 2].get())

    # CuPy compiles its own `any` and `all` for more than a second on a new machine, anew for each
    # kind of array. Its least and largest number come compiled, and are NaN if one is.
    @staticmethod
    def any(A, axis=None):
        least, most = A.min(axis=axis).get(), A.max(axis=axis).get()
        return (least != 0) | (most != 0)

    @staticmethod
    def sum_bits(X, factors):
        import cupy

        bits = cupy.ascontiguousarray(X, np.float64).view(np.uint64)
        sums = cupy.empty(len(X), np.uint64)
        grid, block = ceil_div(len(X), selection.LINES), (selection.LANES, selection.LINES)
        kernel = selection.sum_row_bits()
        launch.launch(cupy.cuda.Device().id, kernel, grid, block, bits, cupy.asarray(factors), sums)
        return sums.get()

    @staticmethod
    def is_finite(A):
        return math.isfinite(float(A.min())) and math.isfinite(float(A.max()))

    @staticmethod
    def to_host(array):
        import cupy

        return transfer.to_host(cupy, array)

    @staticmethod
    def here(array):
        import cupy

        if not isinstance(array, cupy.ndarray):
            return transfer.to_device(cupy, array)
        if array.device == cupy.cuda.Device():
            return array
        is_whole = array.flags.c_contiguous or array.flags.f_contiguous
        array = array if is_whole else _contiguous(array)
        copied = cupy.empty_like(array)
        # In the default stream, a copy would wait for all that either device is to do.
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(cupy.cuda.get_current_stream().record())
        copied.data.copy_from_device_async(array.data, array.nbytes, stream)
        stream.synchronize()  # the other one may be overwritten
        return copied

    @staticmethod
    def at(array):
        return array.device

    @staticmethod
    def finish():
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def tf32_parts(A):
    """What TF32 holds of each float32, and the rest, of which it holds as many digits."""
    large = (A.view(np.uint32) & np.uint32(_DIGITS)).view(np.float32)
    return large, A - large


@contextmanager
def _tf32():
    """cuBLAS multiplies float32 by its units for TF32, in this thread."""
    from cupy.cuda import cublas, device

    handle = device.get_cublas_handle()
    mode = cublas.getMathMode(handle)
    cublas.setMathMode(handle, _TF32_MATH)
    try:
        yield
    finally:
        cublas.setMathMode(handle, mode)


def _contiguous(array):
    """A part of an array that lies on another device, in one piece there."""
    import cupy

    with array.device:
        array = cupy.asfortranarray(array)
        cupy.cuda.get_current_stream().synchronize()
    return array


@contextmanager
def _cublas():
    """Its handle, on the stream of the moment; factors lie on the host."""
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


def _blas(name, dtype, *args):
    """Call a routine of cuBLAS."""
    letter, real = REALS[dtype]
    factors = [real(arg) for arg in args if isinstance(arg, float)]
    waiting = iter(factors)
    args = [_pointer(next(waiting) if isinstance(a, float) else a) for a in args]
    with _cublas() as (cublas, handle):
        getattr(cublas, letter + name)(handle, *args)


def _multiply_bytes(A, B, sums, keep):
    """``sums = B A'``, or added to it, of lines of bytes with a sign, four a word."""
    n_bytes, factors = 4 * A.shape[1], [ctypes.c_int32(1), ctypes.c_int32(keep)]
    one, kept = map(ctypes.addressof, factors)
    with _cublas() as (cublas, handle):
        cublas.gemmEx(
            handle, cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, len(A), len(B), n_bytes, one,
            A.data.ptr, _BYTES, n_bytes, B.data.ptr, _BYTES, n_bytes, kept,
            sums.data.ptr, _INTEGERS, len(A), cublas.CUBLAS_COMPUTE_32I, _ANY,
        )  # fmt: skip


def _pointer(arg):
    if isinstance(arg, ctypes._SimpleCData):
        return ctypes.addressof(arg)
    return arg.data.ptr if hasattr(arg, "data") else arg
