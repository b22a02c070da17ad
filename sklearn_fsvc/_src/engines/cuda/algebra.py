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

    def multiply(self, A: Any, B: Any) -> Any:
        return A @ B

    def half_precision(self, A: Any) -> tuple[Any, float]:
        half = cublas.HalfMatrix.rounded(A)
        return half, half.rounding_variance

    def reduced_precision(self) -> AbstractContextManager[None]:
        return cublas.tf32_products()

    def symm(self, A: Any, B: Any) -> Any:
        # With L the lower triangle of A and half of its diagonal, A B = L B + L' B. Packing the
        # triangle and unpacking it again copies it without the rest of A.
        xp, n, dtype = self.xp, len(A), A.dtype
        packed, lower = xp.empty(n * (n + 1) // 2, dtype), xp.zeros((n, n), dtype, order="F")
        cublas.call("trttp", dtype, 0, n, A, layout(A)[1], packed)
        cublas.call("tpttr", dtype, 0, n, packed, lower, n)
        self.add(lower.diagonal(), A.diagonal(), -0.5)
        product = xp.zeros(B.shape, dtype, order="F")
        self.gemm(product, lower, B)
        self.gemm(product, lower.T, B)
        return product

    def gemm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
        if not A.size or not B.size:
            return
        (trans_A, lda), (trans_B, ldb), (_, ldc) = map(layout, (A, B, C))
        cublas.call(
            "gemm", C.dtype, int(trans_A), int(trans_B), *C.shape, A.shape[1], alpha, A, lda, B,
            ldb, beta, C, ldc,
        )  # fmt: skip

    def split(self, A: Any) -> tuple[Any, ...]:
        """Return float32 as two terms with the 11-bit significand of TF32, if the GPU has it.

        Three products of such terms take half the time of one in float32, with about five times
        its rounding error (Ootomo and Yokota, 2022).
        """
        if A.dtype != np.float32 or int(self.xp.cuda.Device().compute_capability) < _TF32:
            return (A,)
        return tf32_parts(A)

    def gemm_split(
        self, C: Any, A: Sequence[Any], B: Sequence[Any], allow_workspace: bool = False
    ) -> None:
        """Write ``A B`` to C; B may be one term, of numbers that are the same in TF32."""
        if len(A) == 1:
            return self.gemm(C, A[0], B[0], beta=0.0)
        (large_A, small_A), (large_B, *small_B) = A, B
        # The product of the small terms is below the rounding error.
        left = [small_A, *([large_A] if small_B else []), large_A]
        right = [large_B, *small_B, large_B]
        if allow_workspace and large_A.shape[1] <= _MAX_JOINED:
            # One product, which writes C once.
            left, right = [_hstack_aligned(left)], [_hstack_aligned([part.T for part in right]).T]
        with cublas.tf32_products():
            for i, factors in enumerate(zip(left, right, strict=True)):
                self.gemm(C, *factors, beta=float(i > 0))

    def syrk(
        self, C: Any, A: Any, alpha: float = 1.0, beta: float = 1.0, allow_workspace: bool = False
    ) -> None:
        (trans_A, lda), (_, ldc) = map(layout, (A, C))
        cublas.call(
            "syrk", C.dtype, 0, int(trans_A), len(C), A.shape[1], alpha, A, lda, beta, C, ldc
        )

    def add_lower(self, C: Any, A: Any) -> None:
        # CuPy's kernels iterate in C order; the rows of C' are contiguous, those of C are not.
        C, A = C.T, A.T
        C += A

    def fast_bits(self) -> tuple[int, ...]:
        return 8, 15

    def add_integer_gram(self, blocks: Any, H: Any, quantizer: Any) -> bool:
        self._add_integer_gram(blocks, H, None, quantizer)
        return True

    def add_integer_sums(self, blocks: Any, H: Any, Y: Any, quantizer: Any) -> Any:
        sums = self._add_integer_gram(blocks, H, Y.astype(H.dtype), quantizer)
        # Copied from the host, because CuPy would compile a kernel to create it.
        ones = self.xp.asarray(np.ones((max(H.shape), 1)))
        shift = integers.shift_of(quantizer) / quantizer.scale
        self.gemm(sums, ones[: len(sums)], ones[: len(Y)].T @ Y, shift)
        return sums

    def round_to_fixed_point(self, H: Any) -> Any:
        if H.dtype != np.float32 or min(H.shape) < _MIN_FIXED_POINT:
            return None
        largest = max(-float(H.min()), float(H.max()))
        if not 0 < largest < np.inf:  # also NaN: float64 sums keep it
            return None
        quantizer, threads = integers.FixedPoint.of_range(largest), BlockSizes().threads
        launch.launch(
            self.xp.cuda.Device().id, elementwise.quantise(H.dtype, threads),
            grid_over_rows(H.shape[1], len(H), threads), threads,
            H, 0, H.shape[1], np.float32(quantizer.scale), np.float32(quantizer.max_code),
        )  # fmt: skip
        return quantizer

    def _add_integer_gram(self, blocks, H, Y, quantizer):
        launch_here = partial(launch.launch, self.xp.cuda.Device().id)
        return integers.add_gram(
            blocks, H, Y, quantizer, self.xp, launch_here, cublas.multiply_bytes, BlockSizes()
        )

    # By cuBLAS, since CuPy would compile a kernel for each memory layout.
    def add(self, C: Any, A: Any, alpha: float = 1.0) -> None:
        if C.dtype != A.dtype:
            C += alpha * A
        elif C.ndim == 1:
            steps = (array.strides[0] // array.itemsize for array in (A, C))
            cublas.call("axpy", C.dtype, len(C), float(alpha), A, next(steps), C, next(steps))
        elif C.size:
            (trans_A, lda), (trans_C, ldc) = map(layout, (A, C))
            shape, flags = C.T.shape if trans_C else C.shape, (int(trans_A ^ trans_C), 0)
            cublas.call("geam", C.dtype, *flags, *shape, float(alpha), A, lda, 1.0, C, ldc, C, ldc)

    def inner(self, A: Any, B: Any) -> float:
        lines, result = self.xp.zeros((2, A.size), A.dtype), REALS[A.dtype][1]()
        for line, array in zip(lines, (A, B), strict=True):
            self.add(line.reshape(A.shape), array)
        cublas.call("dot", A.dtype, A.size, lines[0], 1, lines[1], 1, result)
        return result.value

    def add_to_diagonal(self, A: Any, number: float) -> None:
        numbers, step = self.xp.asarray(np.full(A.shape[1], number, A.dtype)), sum(A.strides)
        cublas.call("axpy", A.dtype, len(numbers), 1.0, numbers, 1, A, step // A.itemsize)

    def subtract_outer(self, A: Any, u: Any, v: Any, n: float) -> Any:
        result = A.copy()
        self.gemm(result.T, v[:, None], u[None], -1.0 / n)
        return result

    def factorise(self, A: Any) -> bool:
        from cupy.cuda import cusolver, device

        handle, letter = device.get_cusolver_handle(), REALS[A.dtype][0]
        cusolver.setStream(handle, self.xp.cuda.get_current_stream().ptr)
        matrix = 0, len(A), A.data.ptr, layout(A)[1]  # 0: the lower triangle
        n_work = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, *matrix)
        work, info = self.xp.empty(n_work, A.dtype), self.xp.empty(1, np.int32)
        potrf = getattr(cusolver, f"{letter}potrf")
        potrf(handle, *matrix, work.data.ptr, n_work, info.data.ptr)
        return int(info[0]) == 0

    def solve_lower(self, L: Any, B: Any, transposed: bool = False, unit: bool = False) -> None:
        (trans_B, ldb), (trans_L, ldl) = layout(B), layout(L)
        shape = B.T.shape if trans_B else B.shape
        is_transposed = transposed ^ trans_B ^ trans_L
        flags = trans_B, trans_L, is_transposed, unit  # right, upper, transposed, unit diagonal
        cublas.call("trsm", B.dtype, *map(int, flags), *shape, 1.0, L, ldl, B, ldb)

    def eigh(self, A: Any) -> tuple[Any, Any]:
        return self.xp.linalg.eigh(A, UPLO="L")

    def median(self, A: Any) -> Any:
        # CuPy's median checks for NaN, by kernels that take seconds to compile.
        A, n = self.xp.sort(A, axis=0), len(A)
        return self.xp.asarray(0.5 * A[(n - 1) // 2].get() + 0.5 * A[n // 2].get())

    # On a new machine CuPy takes more than a second to compile `any` and `all`, for each layout and
    # dtype. Its minimum and maximum are compiled in advance, and propagate NaN.
    def any(self, A: Any, axis: int | None = None) -> Any:
        minima, maxima = A.min(axis=axis).get(), A.max(axis=axis).get()
        return (minima != 0) | (maxima != 0)

    def hash_rows(self, X: Any, factors: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        bits = self.xp.ascontiguousarray(X, np.float64).view(np.uint64)
        sums = self.xp.empty(len(X), np.uint64)
        grid, block = ceil_div(len(X), selection.LINES), (selection.LANES, selection.LINES)
        kernel = selection.sum_row_bits()
        launch.launch(
            self.xp.cuda.Device().id, kernel, grid, block, bits, self.xp.asarray(factors), sums
        )
        return sums.get()

    def is_finite(self, A: Any) -> bool:
        return math.isfinite(float(A.min())) and math.isfinite(float(A.max()))

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        return transfer.to_host(self.xp, array)

    def to_device(self, array: Any) -> Any:
        if not isinstance(array, self.xp.ndarray):
            return transfer.to_device(self.xp, array)
        if array.device == self.xp.cuda.Device():
            return array
        is_whole = array.flags.c_contiguous or array.flags.f_contiguous
        array = array if is_whole else _contiguous(array)
        copied = self.xp.empty_like(array)
        # On the default stream, a copy would wait for all queued work of both devices.
        stream = self.xp.cuda.Stream(non_blocking=True)
        stream.wait_event(self.xp.cuda.get_current_stream().record())
        copied.data.copy_from_device_async(array.data, array.nbytes, stream)
        stream.synchronize()  # so that the caller may overwrite the source
        return copied

    def device_of(self, array: Any) -> Any:
        return array.device

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()


def _hstack_aligned(parts):
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
