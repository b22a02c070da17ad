"""The linear algebra of the readouts on the host.

An engine says which one its arrays take. Matrices are views that BLAS can take as they lie,
with contiguous columns or contiguous rows.
"""

import ctypes
from contextlib import nullcontext

import numpy as np

from . import lapack
from .lapack import call, layout


class HostAlgebra:
    """LAPACK and BLAS of SciPy.

    NumPy has another BLAS, whose threads, for a while after each call, wait busily and take
    the cores from this one's.

    Attributes
    ----------
    xp : module
        The namespace of the arrays.
    n_matrices : int
        How many full matrices eigenvectors take, with the matrix itself.
    """

    xp = np
    n_matrices = 2

    @staticmethod
    def cross(H, B):
        """H'B, a new array."""
        dtype = np.result_type(H, B)
        H, B = (np.ascontiguousarray(A, dtype) for A in (H, B))
        C = np.zeros((H.shape[1], B.shape[1]), dtype, order="F")
        HostAlgebra.gemm(C, H.T, B)
        return C

    @staticmethod
    def gemm(C, A, B, factor=1.0, keep=1.0):
        """C = keep C + factor A B, in place; C has contiguous columns."""
        if not A.size or not B.size:
            return
        (of_A, lda), (of_B, ldb), (_, ldc) = map(layout, (A, B, C))
        call(
            "gemm", C.dtype, "NT"[of_A], "NT"[of_B], *C.shape, A.shape[1], float(factor), A, lda,
            B, ldb, float(keep), C, ldc,
        )  # fmt: skip

    @staticmethod
    def syrk(C, A, factor=1.0, keep=1.0):
        """The lower triangle of C = keep C + factor A A', in place."""
        (of_A, lda), (_, ldc) = map(layout, (A, C))
        call(
            "syrk", C.dtype, "L", "NT"[of_A], len(C), A.shape[1], float(factor), A, lda,
            float(keep), C, ldc,
        )  # fmt: skip

    @staticmethod
    def factorise(A):
        """The lower factor of A = L L' in its place; False where there is none.

        Only the lower triangle is read and written.
        """
        info = ctypes.c_int()
        call("potrf", A.dtype, "L", len(A), A, layout(A)[1], info)
        return info.value == 0

    @staticmethod
    def solve_lower(L, B, transposed=False, unit=False):
        """L x = B, or L' x = B, in the place of B.

        Parameters
        ----------
        L : array
            Only its lower triangle is read.
        unit : bool
            Whether the diagonal of L is of ones, and not read.
        """
        (of_B, ldb), (of_L, ldl) = layout(B), layout(L)
        # From the right, where the rows of B are contiguous: x' L' = B'.
        side, shape = "LR"[of_B], B.T.shape if of_B else B.shape
        is_transposed = transposed ^ of_B ^ of_L
        call(
            "trsm", B.dtype, side, "LU"[of_L], "NT"[is_transposed], "NU"[unit], *shape, 1.0, L,
            ldl, B, ldb,
        )  # fmt: skip

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


HOST = HostAlgebra()
