"""Linear algebra of the readouts on the host: BLAS and LAPACK in parts, on several threads.

Each engine has the algebra of its arrays; `HostAlgebra` is the reference for the others. Matrices
are views that BLAS accepts without a copy, with contiguous columns or contiguous rows.

Large operations are cut into parts, one BLAS call in one thread each. The cut depends on the shape
alone, so the number of threads does not change a bit of a result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from . import integers, lapack
from .lapack import call, layout
from .threads import limit_blas_threads, n_threads, parallel_for

# Multiplications from which a second thread gains, by routine and bytes of a number: two threads
# save a tenth or more, measured on two idle cores of Zen 4 (benchmarks/blas.py), to the nearest
# power of two. "sums" is syrk with many columns of A; its value for float64 is that of gemm.
MIN_PARALLEL_WORK: Mapping[str, Mapping[int, int]] = {
    "gemm": {4: 2**25, 8: 2**26},
    "syrk": {4: 2**25, 8: 2**25},
    "sums": {4: 2**24, 8: 2**26},
    "trsm": {4: 2**24, 8: 2**24},
}


@dataclass(frozen=True)
class Blocking:
    """When operations are cut into parts, and into which.

    Attributes
    ----------
    min_work : dict
        As `MIN_PARALLEL_WORK`.
    edge, min_edge : int
        About the largest, and the smallest number of rows and columns of a part of the result.
    n_sums, sum_length : int
        Into how many terms a sum over many columns is cut, and the length of one at least.
    cholesky_order : int
        Order up to which a Cholesky factor is one call.
    tiny_work : int
        Multiplications of a product that every BLAS computes in one thread.
    byte_work : float
        Multiplications from which the integer loops repay being loaded from disk.
    added, hashed : int
        Elements for a thread where matrices are added, and where rows are hashed.
    """

    min_work: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MIN_PARALLEL_WORK)
    edge: int = 512
    min_edge: int = 128
    n_sums: int = 4
    sum_length: int = 256
    cholesky_order: int = 512
    tiny_work: int = 2**13
    byte_work: float = 2**28
    added: int = 2**18
    hashed: int = 2**16

    def gains_by_threads(self, routine: str, work: int, dtype: np.dtype) -> bool:
        """Return whether so many multiplications by a routine gain by a second thread."""
        return work >= self.min_work[routine][dtype.itemsize]

    def cut_edge(self, n: int) -> list[slice]:
        """Return slices of an edge of a large result: two or more if it has many elements."""
        return _cut(n, min(max(2, -(-n // self.edge)), max(1, n // self.min_edge)))


# Copies of the factors that `gemm_split` may allocate.
SPLIT_COPIES = 3
# Tiny products whose calls take less time than limiting the threads of BLAS would, and rows of the
# result up to which they are used.
_MAX_TINY, _TINY_ROWS = 8, 8
# Right-hand sides up to which a symmetric matrix is read once for each, instead of once for all.
_FEW_COLUMNS = 4


class Algebra(ABC):
    """Linear algebra for the arrays of an engine: the operations that are alike on most devices.

    `HostAlgebra` documents all others, which each algebra has too.

    Attributes
    ----------
    xp : module
        Namespace of the arrays.
    n_eigh_matrices : int
        Full matrices that `eigh` allocates, including its argument.
    n_split_terms : int
        Number of parts into which `split` splits an array.
    prefers_inverse : bool
        Whether repeated solves for a few columns are better multiplied by an inverse.
    half_bytes : int
        Bytes of each element of a matrix that `half_precision` allocates.
    """

    xp: Any
    n_eigh_matrices: int = 2
    n_split_terms: int = 1
    prefers_inverse: bool = False
    half_bytes: int = 0

    # Products.

    @abstractmethod
    def multiply(self, A: Any, B: Any) -> Any:
        """Return A B, a new array."""

    def multiply_transposed(self, H: Any, B: Any) -> Any:
        """Return H'B, a new array."""
        return self.multiply(H.T, B)

    def half_precision(self, A: Any) -> tuple[Any, float]:
        """Return A in half precision, and an estimate of the variance of its rounding errors.

        For `multiply` and `multiply_transposed`; A itself, and 0, unless they are faster then.
        """
        return A, 0.0

    def reduced_precision(self) -> AbstractContextManager[None]:
        """Return a context in which products of float32 may be rounded to fewer bits."""
        return nullcontext()

    @abstractmethod
    def gemm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
        """C = beta C + alpha A B, in place; C has contiguous columns."""

    def split(self, A: Any) -> tuple[Any, ...]:
        """Return arrays whose sum is A, as `gemm_split` takes them; by default A alone."""
        return (A,)

    def gemm_split(
        self, C: Any, A: tuple[Any, ...], B: tuple[Any, ...], allow_workspace: bool = False
    ) -> None:
        """C = A B, in place, for matrices that were split; C has contiguous columns.

        With `allow_workspace` it may allocate `SPLIT_COPIES` of each, and is faster.
        """
        self.gemm(C, A[0], B[0], beta=0.0)

    def syrk_workspace_bytes(self, order: int, dtype: npt.DTypeLike) -> int:
        """Return the workspace that `syrk` may allocate, in bytes."""
        return 0

    def fast_bits(self) -> tuple[int, ...]:
        """Return the bits of activations for which `add_integer_gram` is much faster than syrk."""
        return ()

    def add_integer_gram(self, blocks: Any, H: Any, quantizer: Any) -> bool:
        """Add H'H to panels of a lower triangle by integers; return whether that was faster."""
        return False

    def add_integer_sums(self, blocks: Any, H: Any, Y: Any, quantizer: Any) -> Any:
        """Add H'H as `add_integer_gram` does, and return H'Y for a binary Y, exact in float64.

        Return None, and add nothing, if two separate products are as fast.
        """
        return None

    def round_to_fixed_point(self, H: Any) -> Any:
        """Round H to 23 bits of its largest element, in place, and return the quantiser.

        For `add_integer_gram`; None, and nothing is rounded, unless that is faster than in float64.
        """
        return None

    # Sums.

    def subtract_outer(self, A: Any, u: Any, v: Any, n: float) -> Any:
        """Return ``A - u v' / n``, a new array."""
        return A - self.xp.outer(u, v) / n

    def inner(self, A: Any, B: Any) -> float:
        """Return the sum of the products of corresponding elements."""
        return float((A * B).sum())

    # Devices.

    def device_of(self, array: Any) -> AbstractContextManager:
        """Return a context in which the device of an array is the current one."""
        return nullcontext()

    def synchronize(self) -> None:
        """Block until all work that this thread has started on the device is done."""
        return None


class HostAlgebra(Algebra):
    """BLAS and LAPACK of SciPy, called without the GIL: the reference for other algebras.

    Attributes
    ----------
    blocking : Blocking
        How operations are cut into parts.
    """

    xp: Any = np
    blocking = Blocking()

    @staticmethod
    def n_threads() -> int:
        """Return the number of threads for large operations."""
        return n_threads()

    def __reduce__(self) -> str:
        return "HOST"  # pickled by reference

    # Products.

    def multiply(self, A: Any, B: Any) -> Any:
        n_tiny = -(-A.size * B.shape[1] // self.blocking.tiny_work)
        if n_tiny <= (min(_MAX_TINY, len(B)) if len(A) <= _TINY_ROWS else 1):
            with np.errstate(over="ignore", invalid="ignore"):  # as BLAS, which does not warn
                return _sum_of_tiny_products(A, B, n_tiny)
        dtype = np.result_type(A, B)
        A, B = (_as_blas_layout(array, dtype) for array in (A, B))
        C = np.zeros((len(A), B.shape[1]), dtype)
        self.gemm(C.T, B.T, A.T)  # C' = B' A', as BLAS requires contiguous columns
        return C

    def gemm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
        if not A.size or not B.size:
            return

        def multiply(rows, columns):
            lapack.gemm(C[rows, columns], A[rows], B[:, columns], alpha, beta)

        self.map_blocks(multiply, C.shape, A.shape[1], C.dtype)

    def map_blocks(
        self, multiply: Callable, shape: tuple[int, int], length: int, dtype: np.dtype
    ) -> None:
        """Call ``multiply(rows, columns)`` for each block of a product, on several threads.

        Parameters
        ----------
        multiply : callable
            Computes a block, which is given by two slices, in the calling thread.
        shape : (int, int)
            Of the product.
        length : int
            Of the sum that is an element of the product.
        dtype : dtype
        """
        if self.blocking.gains_by_threads("gemm", length * shape[0] * shape[1], dtype):
            blocks = product(*(self.blocking.cut_edge(n) for n in shape))
            self._share(lambda block: multiply(*block), blocks)
        else:
            multiply(slice(0, shape[0]), slice(0, shape[1]))

    def syrk(
        self, C: Any, A: Any, alpha: float = 1.0, beta: float = 1.0, allow_workspace: bool = False
    ) -> None:
        """C = beta C + alpha A A', in place, in the lower triangle of C.

        With `allow_workspace` it may allocate `syrk_workspace_bytes` of workspace, and is faster.
        """
        blocking, work = self.blocking, A.size * len(C) // 2
        n_sums = min(blocking.n_sums, A.shape[1] // max(blocking.sum_length, len(C) // 4))
        if allow_workspace and n_sums > 1 and blocking.gains_by_threads("sums", work, C.dtype):
            self._syrk_by_sums(C, A, alpha, beta, n_sums)
        elif blocking.gains_by_threads("syrk", work, C.dtype):
            self._syrk_by_blocks(C, A, alpha, beta, blocking.cut_edge(len(C)))
        else:
            lapack.syrk(C, A, alpha, beta)

    def syrk_workspace_bytes(self, order: int, dtype: npt.DTypeLike) -> int:
        return (self.blocking.n_sums - 1) * order**2 * np.dtype(dtype).itemsize

    def fast_bits(self) -> tuple[int, ...]:
        return integers.fast_bits(integers.compiled_target())

    def add_integer_gram(self, blocks: Any, H: Any, quantizer: Any) -> bool:
        is_large = len(H) * H.shape[1] ** 2 >= self.blocking.byte_work
        is_faster = is_large and integers.has_integer_loop(quantizer, integers.compiled_target())
        if is_faster:
            integers.add_gram(blocks, H, quantizer)
        return is_faster

    def symm(self, A: Any, B: Any) -> Any:
        """Return A B, a new array, for a symmetric A of which the lower triangle is read."""
        B = np.asfortranarray(B)
        C = np.zeros(B.shape, B.dtype, order="F")
        if B.shape[1] <= _FEW_COLUMNS:
            for b, c in zip(B.T, C.T, strict=True):
                call("symv", A.dtype, "L", len(A), 1.0, A, layout(A)[1], b, 1, 0.0, c, 1)
            return C
        call(
            "symm", A.dtype, "L", "L", *B.shape, 1.0, A, layout(A)[1], B, layout(B)[1], 0.0, C,
            layout(C)[1],
        )  # fmt: skip
        return C

    # Sums.

    def add(self, C: Any, A: Any, alpha: float = 1.0) -> None:
        """C += alpha A, in place, for arrays of one or two axes."""
        if alpha == 1:
            C += A
        elif alpha == -1:
            C -= A
        else:
            C += alpha * A

    def add_lower(self, C: Any, A: Any) -> None:
        """Add A to C, in place, at least in the lower triangle. Columns are contiguous."""

        def add(columns):
            below = slice(columns.start, None), columns
            part = C[below]
            part += A[below]

        self._share(add, _cut(C.shape[1], 1 + A.size // self.blocking.added))

    def add_to_diagonal(self, A: Any, number: float) -> None:
        """Add a number to the diagonal of the leading square of A, in place."""
        diagonal = np.einsum("ii->i", A[: A.shape[1]])  # a view; np.diagonal is read-only
        diagonal += number

    # Factors.

    def factorise(self, A: Any) -> bool:
        """Overwrite A with its lower Cholesky factor, A = L L'; return whether it exists.

        Only the lower triangle is read and written. Larger matrices are halved recursively, so
        that most of the work is in `solve_lower` and `syrk`, which use threads.
        """
        n = len(A)
        if n <= self.blocking.cholesky_order:
            info = np.zeros(1, np.int32)
            call("potrf", A.dtype, "L", n, A, layout(A)[1], info)
            return not info[0]
        half = -(-n // 16) * 8
        A11, A21, A22 = A[:half, :half], A[half:, :half], A[half:, half:]
        if not self.factorise(A11):
            return False
        self.solve_lower(A11, A21.T)
        self.syrk(A22, A21, -1.0)
        return self.factorise(A22)

    def solve_lower(self, L: Any, B: Any, transposed: bool = False, unit: bool = False) -> None:
        """Overwrite B with the solution of L X = B, or L' X = B.

        Only the lower triangle of L is read; with `unit` its diagonal is taken to be 1.
        """
        if self.blocking.gains_by_threads("trsm", B.size * len(L) // 2, B.dtype):
            parts = self.blocking.cut_edge(B.shape[1])
            self._share(lambda part: lapack.trsm(L, B[:, part], transposed, unit), parts)
        else:
            lapack.trsm(L, B, transposed, unit)

    def invert_lower(self, L: Any) -> Any:
        """Return the inverse of the lower triangle of L, a new array with contiguous columns.

        Columns of the inverse begin with zeros, which are not computed: a third of the work of
        solving for the columns of the identity matrix.
        """
        n = len(L)
        inverse = self.xp.zeros((n, n), L.dtype, order="F")
        self.add_to_diagonal(inverse, 1.0)

        def solve(part):
            after = slice(part.start, None)
            lapack.trsm(L[after, after], inverse[after, part], False, False)

        self._share(solve, _cut(n, -(-n // self.blocking.min_edge)))
        return inverse

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """Return the eigenvalues, ascending, and eigenvectors of the lower triangle of A.

        A has contiguous columns, and is overwritten.
        """
        return lapack.eigh(A)

    # Reductions.

    def median(self, A: Any) -> Any:
        """Return the medians of the columns of A, which has rows and no NaN."""
        return np.median(A, axis=0)

    def any(self, A: Any, axis: int | None = None) -> Any:
        """Return, on the host, whether A or each of its rows (``axis=1``) has a nonzero."""
        return A.any(axis=axis)

    def is_finite(self, A: Any) -> bool:
        """Return whether all elements of A are finite."""
        return bool(np.isfinite(A).all())

    def hash_rows(self, X: Any, factors: Any) -> np.ndarray:
        """Return hashes of the rows of X, uint64, on the host: sums of `float_bits` * factors."""
        hashes, n_parts = np.empty(len(X), np.uint64), 1 + X.size // self.blocking.hashed

        def add(part):
            hashes[part] = (float_bits(X[part]) * factors).sum(axis=1)

        self._share(add, _cut(len(X), n_parts))
        return hashes

    # Devices.

    def to_host(self, array: Any) -> np.ndarray:
        """Return an array of `xp` as a NumPy array."""
        return array

    def to_device(self, array: Any) -> Any:
        """Return an array of the host or of any device as one of the current device of `xp`."""
        return np.asarray(array)

    # Parts.

    def _share(self, function: Callable, parts: Iterable) -> None:
        """Call ``function(part)`` for each part, on as many threads as this process may use."""
        parts = list(parts)
        if len(parts) == 1:
            return function(parts[0])
        with limit_blas_threads(1) as limit:
            return parallel_for(function, parts, min(limit.allowed, self.n_threads()))

    def _syrk_by_blocks(self, C, A, alpha, beta, cuts):
        """Cut the result into blocks: products, and symmetric ones on the diagonal."""

        def add(part):
            i, j = part
            if i == j:
                lapack.syrk(C[i, i], A[i], alpha, beta)
            else:
                lapack.gemm(C[i, j], A[i], A[j].T, alpha, beta)

        # Blocks on the diagonal have half the work: as the last ones they balance the threads.
        below = [(i, j) for i, j in product(cuts, cuts) if i.start > j.start]
        self._share(add, below + [(i, i) for i in cuts])

    def _syrk_by_sums(self, C, A, alpha, beta, n_sums):
        """Cut the sum over the columns of A, so that no element is read more often than needed."""
        columns = _cut(A.shape[1], n_sums)
        terms = [C, *(np.zeros(C.shape, C.dtype, order="F") for _ in columns[1:])]

        def multiply(i):
            lapack.syrk(terms[i], A[:, columns[i]], alpha, beta if i == 0 else 0.0)

        def add(part):
            for term in terms[1:]:
                C[:, part] += term[:, part]

        self._share(multiply, range(len(columns)))
        self._share(add, _cut(len(C), n_sums))


HOST = HostAlgebra()


def float_bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of values in float64 as uint64, the upper half XORed into the lower one.

    Small integers as floats differ in the upper bits only, and a product modulo 2^64 ignores the
    upper bits of its result. Adding 0.0 makes -0.0 equal to 0.0.
    """
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    return bits


def _cut(n, n_parts):
    """Return slices of about the same length, which begin at multiples of 8."""
    step = max(8, -(-n // (8 * n_parts)) * 8)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _sum_of_tiny_products(A, B, n):
    """Return A B as the sum of about `n` products of some columns of A with rows of B."""
    step = max(1, len(B) // max(1, n))
    C = np.matmul(A[:, :step], B[:step])
    for start in range(step, len(B), step):
        C += np.matmul(A[:, start : start + step], B[start : start + step])
    return C


def _as_blas_layout(A, dtype):
    """Return the matrix in a dtype, copied only if neither rows nor columns are contiguous."""
    is_strided = A.itemsize not in A.strides or min(A.strides) < A.itemsize
    return np.ascontiguousarray(A, dtype) if is_strided else A.astype(dtype, copy=False)
