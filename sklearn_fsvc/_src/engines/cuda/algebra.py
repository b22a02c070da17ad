"""Linear algebra of the readouts on a GPU: see `HostAlgebra` for the contract of each method.

It calls cuBLAS and cuSOLVER through CuPy's low-level bindings: see `cublas.py`.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algebra import Algebra
from ..kernels.cuda import elementwise, selection
from ..kernels.cuda.kernel import BlockSizes
from ..lapack import REALS, layout
from . import cublas, integers, launch, transfer
from .launch import ceil_div, grid_over_rows, round_up

# Compute capability of the first GPUs with TF32, and the bits of a float32 that it keeps.
_TF32, _TF32_BITS = 80, 0xFFFFE000
# Terms of a sum up to which the products of split matrices are one product of longer sums.
_MAX_JOINED = 1024
# Rows and columns of H from which products of bytes take less time than those in float64.
_MIN_FIXED_POINT = 1024


class CuPyAlgebra(Algebra):
    """cuBLAS and cuSOLVER through CuPy."""

    n_eigh_matrices, n_split_terms, prefers_inverse, half_bytes = 3, 2, True, 2

    @property
    def xp(self) -> ModuleType:
        import cupy

        return cupy

    @staticmethod
    def multiply(A: Any, B: Any) -> Any:
        return A @ B

    @staticmethod
    def half_precision(A: Any) -> tuple[Any, float]:
        half = cublas.HalfMatrix.rounded(A)
        return half, half.rounding_variance

    @staticmethod
    def reduced_precision() -> AbstractContextManager[None]:
        return cublas.tf32_products()

    @staticmethod
    def symm(A: Any, B: Any) -> Any:
        import cupy

        # With L the lower triangle of A and half of its diagonal, A B = L B + L' B. Packing the
        # triangle and unpacking it again copies it without the rest of A.
        n, dtype = len(A), A.dtype
        packed, lower = cupy.empty(n * (n + 1) // 2, dtype), cupy.zeros((n, n), dtype, order="F")
        cublas.call("trttp", dtype, 0, n, A, layout(A)[1], packed)
        cublas.call("tpttr", dtype, 0, n, packed, lower, n)
        CuPyAlgebra.add(lower.diagonal(), A.diagonal(), -0.5)
        product = cupy.zeros(B.shape, dtype, order="F")
        CuPyAlgebra.gemm(product, lower, B)
        CuPyAlgebra.gemm(product, lower.T, B)
        return product

    @staticmethod
    def gemm(C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
        if not A.size or not B.size:
            return
        (of_A, lda), (of_B, ldb), (_, ldc) = map(layout, (A, B, C))
        cublas.call(
            "gemm", C.dtype, int(of_A), int(of_B), *C.shape, A.shape[1], alpha, A, lda, B, ldb,
            beta, C, ldc,
        )  # fmt: skip

    @staticmethod
    def split(A: Any) -> tuple[Any, ...]:
        """Return float32 as two terms with the 11-bit significand of TF32, if the GPU has it.

        Three products of such terms take half the time of one in float32, with about five times
        its rounding error (Ootomo and Yokota, 2022).
        """
        import cupy

        if A.dtype != np.float32 or int(cupy.cuda.Device().compute_capability) < _TF32:
            return (A,)
        return tf32_parts(A)

    @staticmethod
    def gemm_split(
        C: Any, A: Sequence[Any], B: Sequence[Any], allow_workspace: bool = False
    ) -> None:
        """Write ``A B`` to C; B may be one term, of numbers that are the same in TF32."""
        if len(A) == 1:
            return CuPyAlgebra.gemm(C, A[0], B[0], beta=0.0)
        (large_A, small_A), (large_B, *small_B) = A, B
        # The product of the small terms is below the rounding error.
        left = [small_A, *([large_A] if small_B else []), large_A]
        right = [large_B, *small_B, large_B]
        if allow_workspace and large_A.shape[1] <= _MAX_JOINED:
            # One product, which writes C once.
            left, right = [_side_by_side(left)], [_side_by_side([part.T for part in right]).T]
        with cublas.tf32_products():
            for i, factors in enumerate(zip(left, right, strict=True)):
                CuPyAlgebra.gemm(C, *factors, beta=float(i > 0))

    @staticmethod
    def syrk(
        C: Any, A: Any, alpha: float = 1.0, beta: float = 1.0, allow_workspace: bool = False
    ) -> None:
        (of_A, lda), (_, ldc) = map(layout, (A, C))
        cublas.call("syrk", C.dtype, 0, int(of_A), len(C), A.shape[1], alpha, A, lda, beta, C, ldc)

    @staticmethod
    def add_lower(C: Any, A: Any) -> None:
        # CuPy's kernels iterate in C order; the rows of C' are contiguous, those of C are not.
        C, A = C.T, A.T
        C += A

    @staticmethod
    def fast_bits() -> tuple[int, ...]:
        return 8, 15

    @staticmethod
    def add_integer_gram(blocks: Any, H: Any, quantizer: Any) -> bool:
        CuPyAlgebra._add_integer_gram(blocks, H, None, quantizer)
        return True

    @staticmethod
    def add_integer_sums(blocks: Any, H: Any, Y: Any, quantizer: Any) -> Any:
        import cupy

        sums = CuPyAlgebra._add_integer_gram(blocks, H, Y.astype(H.dtype), quantizer)
        # Copied from the host, because CuPy would compile a kernel to create it.
        ones = cupy.asarray(np.ones((max(H.shape), 1)))
        shift = integers.shift_of(quantizer) / quantizer.scale
        CuPyAlgebra.gemm(sums, ones[: len(sums)], ones[: len(Y)].T @ Y, shift)
        return sums

    @staticmethod
    def round_to_fixed_point(H: Any) -> Any:
        import cupy

        if H.dtype != np.float32 or min(H.shape) < _MIN_FIXED_POINT:
            return None
        largest = max(-float(H.min()), float(H.max()))
        if not 0 < largest < np.inf:  # also NaN: float64 sums keep it
            return None
        quantizer, threads = integers.FixedPoint.of_range(largest), BlockSizes().threads
        launch.launch(
            cupy.cuda.Device().id, elementwise.quantise(H.dtype, threads),
            grid_over_rows(H.shape[1], len(H), threads), threads,
            H, 0, H.shape[1], np.float32(quantizer.scale), np.float32(quantizer.max_code),
        )  # fmt: skip
        return quantizer

    @staticmethod
    def _add_integer_gram(blocks, H, Y, quantizer):
        import cupy

        launch_here = partial(launch.launch, cupy.cuda.Device().id)
        return integers.add_gram(
            blocks, H, Y, quantizer, cupy, launch_here, cublas.multiply_bytes, BlockSizes()
        )

    # By cuBLAS, since CuPy would compile a kernel for each memory layout.
    @staticmethod
    def add(C: Any, A: Any, alpha: float = 1.0) -> None:
        if C.dtype != A.dtype:
            C += alpha * A
        elif C.ndim == 1:
            steps = (array.strides[0] // array.itemsize for array in (A, C))
            cublas.call("axpy", C.dtype, len(C), float(alpha), A, next(steps), C, next(steps))
        elif C.size:
            (of_A, lda), (of_C, ldc) = map(layout, (A, C))
            shape, flags = C.T.shape if of_C else C.shape, (int(of_A ^ of_C), 0)
            cublas.call("geam", C.dtype, *flags, *shape, float(alpha), A, lda, 1.0, C, ldc, C, ldc)

    @staticmethod
    def inner(A: Any, B: Any) -> float:
        import cupy

        lines, result = cupy.zeros((2, A.size), A.dtype), REALS[A.dtype][1]()
        for line, array in zip(lines, (A, B), strict=True):
            CuPyAlgebra.add(line.reshape(A.shape), array)
        cublas.call("dot", A.dtype, A.size, lines[0], 1, lines[1], 1, result)
        return result.value

    @staticmethod
    def add_to_diagonal(A: Any, number: float) -> None:
        import cupy

        numbers, step = cupy.asarray(np.full(A.shape[1], number, A.dtype)), sum(A.strides)
        cublas.call("axpy", A.dtype, len(numbers), 1.0, numbers, 1, A, step // A.itemsize)

    @staticmethod
    def subtract_outer(A: Any, u: Any, v: Any, n: float) -> Any:
        result = A.copy()
        CuPyAlgebra.gemm(result.T, v[:, None], u[None], -1.0 / n)
        return result

    @staticmethod
    def factorise(A: Any) -> bool:
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
    def solve_lower(L: Any, B: Any, transposed: bool = False, unit: bool = False) -> None:
        (of_B, ldb), (of_L, ldl) = layout(B), layout(L)
        shape = B.T.shape if of_B else B.shape
        is_transposed = transposed ^ of_B ^ of_L
        flags = of_B, of_L, is_transposed, unit  # from the right, upper, transposed, of ones
        cublas.call("trsm", B.dtype, *map(int, flags), *shape, 1.0, L, ldl, B, ldb)

    @staticmethod
    def eigh(A: Any) -> tuple[Any, Any]:
        import cupy

        return cupy.linalg.eigh(A, UPLO="L")

    @staticmethod
    def median(A: Any) -> Any:
        # cupy.median checks for NaN, by kernels that take seconds to compile.
        import cupy

        A, n = cupy.sort(A, axis=0), len(A)
        return cupy.asarray(0.5 * A[(n - 1) // 2].get() + 0.5 * A[n // 2].get())

    # On a new machine CuPy takes more than a second to compile `any` and `all`, for each layout and
    # dtype. Its minimum and maximum are compiled in advance, and propagate NaN.
    @staticmethod
    def any(A: Any, axis: int | None = None) -> Any:
        minima, maxima = A.min(axis=axis).get(), A.max(axis=axis).get()
        return (minima != 0) | (maxima != 0)

    @staticmethod
    def hash_rows(X: Any, factors: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        import cupy

        bits = cupy.ascontiguousarray(X, np.float64).view(np.uint64)
        sums = cupy.empty(len(X), np.uint64)
        grid, block = ceil_div(len(X), selection.LINES), (selection.LANES, selection.LINES)
        kernel = selection.sum_row_bits()
        launch.launch(cupy.cuda.Device().id, kernel, grid, block, bits, cupy.asarray(factors), sums)
        return sums.get()

    @staticmethod
    def is_finite(A: Any) -> bool:
        return math.isfinite(float(A.min())) and math.isfinite(float(A.max()))

    @staticmethod
    def to_host(array: Any) -> npt.NDArray[Any]:
        import cupy

        return transfer.to_host(cupy, array)

    @staticmethod
    def to_device(array: Any) -> Any:
        import cupy

        if not isinstance(array, cupy.ndarray):
            return transfer.to_device(cupy, array)
        if array.device == cupy.cuda.Device():
            return array
        is_whole = array.flags.c_contiguous or array.flags.f_contiguous
        array = array if is_whole else _contiguous(array)
        copied = cupy.empty_like(array)
        # On the default stream, a copy would wait for all queued work of both devices.
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(cupy.cuda.get_current_stream().record())
        copied.data.copy_from_device_async(array.data, array.nbytes, stream)
        stream.synchronize()  # so that the caller may overwrite the source
        return copied

    @staticmethod
    def device_of(array: Any) -> Any:
        return array.device

    @staticmethod
    def synchronize() -> None:
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def _side_by_side(parts):
    """Return matrices (n, k) as one, where each begins at an address that cuBLAS prefers."""
    import cupy

    n, k = parts[0].shape
    width = round_up(k, 16 // parts[0].itemsize)
    joined = cupy.zeros((n, len(parts) * width), parts[0].dtype)
    for i, part in enumerate(parts):
        joined[:, i * width : i * width + k] = part
    return joined


def tf32_parts(A: Any) -> tuple[Any, Any]:
    """Return float32 numbers truncated to TF32, and the remainders."""
    large = (A.view(np.uint32) & np.uint32(_TF32_BITS)).view(np.float32)
    return large, A - large


def _contiguous(array):
    """Return a contiguous copy of an array on its own device."""
    import cupy

    with array.device:
        array = cupy.asfortranarray(array)
        cupy.cuda.get_current_stream().synchronize()
    return array
