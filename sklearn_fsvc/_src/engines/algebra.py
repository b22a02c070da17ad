"""The linear algebra of the readouts on the host.

An engine says which one its arrays take. Matrices are views that BLAS can take as they lie,
with contiguous columns or contiguous rows.

What is large is cut into parts, each for one thread. How it is cut depends on its shape alone:
no number of threads changes a bit of a result.
"""

import ctypes
from contextlib import nullcontext
from itertools import product

import numpy as np

from . import lapack
from .integers import add_gram, has_bytes, has_integers
from .lapack import call, layout
from .threads import at_most, n_threads, share

# Multiplications that are worth a second thread, by routine and by bytes of a number: from there on
# two threads save a tenth or more, measured on two idle cores of Zen 4 (benchmarks/blas.py), to the
# nearest power of two. "sums" is syrk of many rows; in float64 it is taken to be like gemm.
WORTH = {
    "gemm": {4: 2**25, 8: 2**26},
    "syrk": {4: 2**25, 8: 2**25},
    "sums": {4: 2**24, 8: 2**26},
    "trsm": {4: 2**24, 8: 2**24},
}
# Rows and columns of a part: those of the result, or columns that are solved for; at most, about,
# and at least.
EDGE, _LEAST_EDGE = 512, 128
# Multiplications that no BLAS gives to a second thread, by whoever it is called.
_TINY = 2**13
# Such products that take less time than to see to the threads of the libraries.
_FEW_TINY, _FEW_ROWS = 8, 8
# Columns for which a matrix is read once for each, which takes less time than to copy it for all.
_FEW_COLUMNS = 4
# Order up to which a factor is one call.
_WHOLE = 512
# Multiplications from which compiled loops for bytes are worth their way from the disk.
_MANY_BYTES = 2**28
# Numbers that are worth a thread where a matrix is added to another, and where rows are hashed.
_ADDED, _HASHED = 2**18, 2**16
# Into how many parts the sum over many rows is cut, and the rows of a part at least.
_SUMS, _ROWS = 4, 256


def _cut(n, n_parts):
    """Slices of about the same length, of multiples of 8."""
    step = max(8, -(-n // (8 * n_parts)) * 8)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _cut_edge(n, is_large):
    """Slices of an edge of the result: two or more where that is worth it."""
    return _cut(n, min(max(2, -(-n // EDGE)), max(1, n // _LEAST_EDGE)) if is_large else 1)


def is_worth(routine, work, dtype):
    """Whether so many multiplications by a routine gain by a second thread."""
    return work >= WORTH[routine][dtype.itemsize]


def _share(function, parts):
    """Call ``function(part)`` for each, by as many threads as this process may take."""
    if len(parts) == 1:
        return function(parts[0])
    with at_most(1) as kept:
        share(function, parts, min(kept.allowed, n_threads()))


class HostAlgebra:
    """LAPACK and BLAS of SciPy, whose calls let the other threads of the process go on."""

    xp = np  # the namespace of the arrays
    n_matrices = 2  # full matrices that eigenvectors take, with the matrix itself
    n_parts = 1  # into which `split` may split an array
    inverts = False  # whether to multiply a few columns by an inverse, again and again

    @staticmethod
    def multiply(A, B):
        """A B, a new array."""
        n_tiny = -(-A.size * B.shape[1] // _TINY)
        if n_tiny <= (min(_FEW_TINY, len(B)) if len(A) <= _FEW_ROWS else 1):
            with np.errstate(over="ignore", invalid="ignore"):  # no BLAS warns of infinity, either
                return _by_tiny(A, B, n_tiny)
        dtype = np.result_type(A, B)
        A, B = (_contiguous(array, dtype) for array in (A, B))
        C = np.zeros((len(A), B.shape[1]), dtype)
        HostAlgebra.gemm(C.T, B.T, A.T)
        return C

    @staticmethod
    def cross(H, B):
        """H'B, a new array."""
        return HostAlgebra.multiply(H.T, B)

    @staticmethod
    def gemm(C, A, B, factor=1.0, keep=1.0):
        """C = keep C + factor A B, in place; C has contiguous columns."""
        if not A.size or not B.size:
            return
        is_large = is_worth("gemm", A.size * B.shape[1], C.dtype)
        parts = product(*(_cut_edge(n, is_large) for n in C.shape))
        _share(lambda part: _gemm(C[part], A[part[0]], B[:, part[1]], factor, keep), list(parts))

    @staticmethod
    def add_lower(C, A):
        """Add A to C, in place, at least on and below its diagonal. Columns are contiguous."""

        def add(columns):
            below = slice(columns.start, None), columns
            part = C[below]
            part += A[below]

        _share(add, _cut(C.shape[1], 1 + A.size // _ADDED))

    @staticmethod
    def split(A):
        """An array as the sum of parts that `gemm_split` takes."""
        return (A,)

    @staticmethod
    def gemm_split(C, A, B):
        """C = A B, in place, for matrices in parts; C has contiguous columns."""
        HostAlgebra.gemm(C, *A, *B, keep=0.0)

    @staticmethod
    def syrk(C, A, factor=1.0, keep=1.0, has_room=False):
        """Add factor A A' to keep C, in place on the lower triangle of C.

        With `has_room` it may take `syrk_bytes`, and is faster.
        """
        work, n_sums = A.size * len(C) // 2, min(_SUMS, A.shape[1] // max(_ROWS, len(C) // 4))
        if has_room and n_sums > 1 and is_worth("sums", work, C.dtype):
            _syrk_by_sums(C, A, factor, keep, n_sums)
        else:
            cuts = _cut_edge(len(C), is_worth("syrk", work, C.dtype))
            _syrk_by_blocks(C, A, factor, keep, cuts)

    @staticmethod
    def fast_bits():
        """Bits of activations with which `add_gram_of_bytes` is faster than floats, by far."""
        return (8,) if has_bytes() else ()

    @staticmethod
    def add_gram_of_bytes(blocks, H, steps):
        """Add H'H to panels of a lower triangle, by integers; whether that was worth it."""
        is_large = len(H) * H.shape[1] ** 2 >= _MANY_BYTES
        is_taken = is_large and has_integers(steps)
        if is_taken:
            add_gram(blocks, H, steps)
        return is_taken

    @staticmethod
    def syrk_bytes(order, dtype):
        """Bytes that `syrk` may take beside its arguments."""
        return (_SUMS - 1) * order**2 * np.dtype(dtype).itemsize

    @staticmethod
    def symmetric_product(A, B):
        """A B for the symmetric matrix of which A has the lower triangle, a new array."""
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

    @staticmethod
    def add(C, A, factor=1.0):
        """Add an array of the same shape, times a factor, in place: of one axis or two."""
        if factor == 1:
            C += A
        elif factor == -1:
            C -= A
        else:
            C += factor * A

    @staticmethod
    def inner(A, B):
        """Return the sum of the products of the numbers of two matrices."""
        return float((A * B).sum())

    @staticmethod
    def add_to_diagonal(A, number):
        """Add a number to the diagonal of the square that A begins with, in place."""
        # A view that may be written to.
        diagonal = np.lib.stride_tricks.as_strided(A, (A.shape[1],), (sum(A.strides),))
        diagonal += number

    @staticmethod
    def less_outer(A, u, v, n):
        """``A - u v' / n``, a new array."""
        return A - np.outer(u, v) / n

    @staticmethod
    def factorise(A):
        """The lower factor of A = L L' in its place; False where there is none.

        Only the lower triangle is read and written.
        """
        n = len(A)
        if n <= _WHOLE:
            info = ctypes.c_int()
            call("potrf", A.dtype, "L", n, A, layout(A)[1], info)
            return info.value == 0
        half = -(-n // 16) * 8
        first, below, rest = A[:half, :half], A[half:, :half], A[half:, half:]
        if not HostAlgebra.factorise(first):
            return False
        HostAlgebra.solve_lower(first, below.T)
        HostAlgebra.syrk(rest, below, -1.0)
        return HostAlgebra.factorise(rest)

    @staticmethod
    def solve_lower(L, B, transposed=False, unit=False):
        """Solve L x = B, or L' x = B, in the place of B.

        Only the lower triangle of L is read; with `unit` its diagonal is of ones, and not read.
        """
        cuts = _cut_edge(B.shape[1], is_worth("trsm", B.size * len(L) // 2, B.dtype))
        _share(lambda part: _trsm(L, B[:, part], transposed, unit), cuts)

    @staticmethod
    def eigh(A):
        """Eigenvalues, ascending, and eigenvectors of the lower triangle of A.

        A has contiguous columns, and is overwritten.
        """
        return lapack.eigh(A)

    @staticmethod
    def median(A):
        """Over the rows of A, which are some, and numbers all of them."""
        return np.median(A, axis=0)

    @staticmethod
    def any(A, axis=None):
        """Whether A, or each of its rows (``axis=1``), holds a number other than 0: of the host."""
        return A.any(axis=axis)

    @staticmethod
    def sum_bits(X, factors):
        """Sums over each row of X of `bits_of` its numbers times factors: uint64, of the host."""
        sums, n_parts = np.empty(len(X), np.uint64), 1 + X.size // _HASHED

        def add(part):
            sums[part] = (bits_of(X[part]) * factors).sum(axis=1)

        _share(add, _cut(len(X), n_parts))
        return sums

    @staticmethod
    def is_finite(A):
        """Return whether all numbers of A are."""
        return bool(np.isfinite(A).all())

    @staticmethod
    def to_host(array):
        """An array of `xp` as a NumPy array."""
        return array

    @staticmethod
    def here(array):
        """An array of the host, or of `xp` on any device, where this thread computes."""
        return np.asarray(array)

    @staticmethod
    def at(array):
        """A context in which the thread computes where an array is."""
        return nullcontext()

    @staticmethod
    def finish():
        """Wait until all that was begun in this thread is done."""

    def __reduce__(self):
        return "HOST"  # there is one


def bits_of(values):
    """The bits of numbers in float64, the upper half in the lower one, too, which counts most."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    return bits


HOST = HostAlgebra()


def _by_tiny(A, B, n):
    """A B as the sum of about `n` products, each of some columns of A."""
    step = max(1, len(B) // max(1, n))
    C = np.matmul(A[:, :step], B[:step])
    for start in range(step, len(B), step):
        C += np.matmul(A[:, start : start + step], B[start : start + step])
    return C


def _contiguous(A, dtype):
    """The matrix in a dtype, as it lies if BLAS can take it."""
    is_apart = A.itemsize not in A.strides or min(A.strides) < A.itemsize
    return np.ascontiguousarray(A, dtype) if is_apart else A.astype(dtype, copy=False)


def _gemm(C, A, B, factor, keep):
    (of_A, lda), (of_B, ldb), (_, ldc) = map(layout, (A, B, C))
    call(
        "gemm", C.dtype, "NT"[of_A], "NT"[of_B], *C.shape, A.shape[1], float(factor), A, lda, B,
        ldb, float(keep), C, ldc,
    )  # fmt: skip


def _syrk(C, A, factor, keep):
    (of_A, lda), (_, ldc) = map(layout, (A, C))
    call(
        "syrk", C.dtype, "L", "NT"[of_A], len(C), A.shape[1], float(factor), A, lda, float(keep),
        C, ldc,
    )  # fmt: skip


def _syrk_by_blocks(C, A, factor, keep, cuts):
    def add(part):
        i, j = part
        if i == j:
            _syrk(C[i, i], A[i], factor, keep)
        else:
            _gemm(C[i, j], A[i], A[j].T, factor, keep)

    # What is on the diagonal is half the work, and fills the gaps in the end.
    below = [(i, j) for i, j in product(cuts, cuts) if i.start > j.start]
    _share(add, below + [(i, i) for i in cuts])


def _syrk_by_sums(C, A, factor, keep, n_sums):
    """Each part sums over some of the columns of A: no number is read more often than it must."""
    columns = _cut(A.shape[1], n_sums)
    sums = [C, *(np.zeros(C.shape, C.dtype, order="F") for _ in columns[1:])]

    def multiply(i):
        _syrk(sums[i], A[:, columns[i]], factor, keep if i == 0 else 0.0)

    def add(part):
        for more in sums[1:]:
            C[:, part] += more[:, part]

    _share(multiply, range(len(columns)))
    _share(add, _cut(len(C), n_sums))


def _trsm(L, B, transposed, unit):
    (of_B, ldb), (of_L, ldl) = layout(B), layout(L)
    if B.shape[1] == 1:  # in a fifth of the time: nothing is copied
        is_transposed, step = transposed ^ of_L, max(1, B.strides[0] // B.itemsize)
        call("trsv", B.dtype, "LU"[of_L], "NT"[is_transposed], "NU"[unit], len(L), L, ldl, B, step)
        return
    # From the right, where the rows of B are contiguous: x' L' = B'.
    side, shape = "LR"[of_B], B.T.shape if of_B else B.shape
    is_transposed = transposed ^ of_B ^ of_L
    call(
        "trsm", B.dtype, side, "LU"[of_L], "NT"[is_transposed], "NU"[unit], *shape, 1.0, L, ldl,
        B, ldb,
    )  # fmt: skip
