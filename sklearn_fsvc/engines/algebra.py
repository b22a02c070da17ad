"""The linear algebra of the readouts on the host, by SciPy.

An engine says which one its arrays take. All matrices are symmetric and F-ordered, and
only their lower triangle is meaningful.
"""

from contextlib import nullcontext

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

# The largest matrix that OpenBLAS may factorise by several threads. With two, version 0.3.30
# does at order 14,336, and writes beyond its buffers at 16,256 (a segmentation fault).
_LARGEST_SHARED = 12_288


class HostAlgebra:
    """LAPACK and BLAS through SciPy.

    Attributes
    ----------
    xp : module
        The namespace of the arrays.
    """

    xp = np
    # Matrices that a solution holds at one time, the statistics among them.
    n_matrices = 2

    @staticmethod
    def gram_bytes(n_units, dtype):
        """Bytes that `add_gram` takes for H of that dtype, beside its arguments."""
        return n_units * n_units * (dtype.itemsize % 8)

    @staticmethod
    def cross(H, B):
        """H'B, for C-ordered H.

        By SciPy's BLAS, as all here: NumPy has another one, whose threads, for a while
        after each call, wait busily and take the cores from this one's.
        """
        gemm = linalg.get_blas_funcs("gemm", (H, B))
        return gemm(1.0, H.T, B)

    @staticmethod
    def add_gram(total, H):
        """total += H'H by syrk, half the work of a product. float64 is added in place."""
        syrk = linalg.get_blas_funcs("syrk", (H,))
        if H.dtype == total.dtype:
            syrk(1.0, H.T, beta=1.0, c=total, lower=1, overwrite_c=1)
        else:
            total += syrk(1.0, H.T, lower=1)

    @staticmethod
    def add_outer(matrix, factor, v):
        """matrix += factor v v', in place."""
        syr = linalg.get_blas_funcs("syr", (matrix,))
        syr(factor, v, lower=1, a=matrix, overwrite_a=1)

    @staticmethod
    def cholesky(A, margin=1.0):
        """The lower factor L of A = L L', in A's place; None where A is too ill-conditioned.

        That is, where its reciprocal condition is less than `margin` times the epsilon; with
        ``margin=None``, where there is no factor at all.
        """
        # At least the 1-norm of A and at most twice, for the upper triangle is 0.
        (lange,) = linalg.get_lapack_funcs(("lange",), (A,))
        norm = None if margin is None else lange("1", A) + lange("I", A)
        potrf, pocon = linalg.get_lapack_funcs(("potrf", "pocon"), (A,))
        # To ask for limits looks at all loaded libraries: 1.5 ms that small ones need not pay.
        is_large = len(A) > _LARGEST_SHARED
        with threadpool_limits(1, user_api="blas") if is_large else nullcontext():
            L, info = potrf(A, lower=1, overwrite_a=1, clean=1)
        if info != 0:
            return None
        if margin is None:
            return L
        reciprocal, _ = pocon(L, norm, uplo="L")
        return L if reciprocal > margin * np.finfo(A.dtype).eps else None

    @staticmethod
    def solve_lower(L, right, transposed=False):
        """L w = right, or L' w = right, of a lower triangular matrix."""
        (trtrs,) = linalg.get_lapack_funcs(("trtrs",), (L, right))
        return trtrs(L, right, lower=1, trans=int(transposed))[0]

    @staticmethod
    def invert_lower(L):
        """The inverse of a lower triangular matrix, in its place, with zeros above."""
        (trtri,) = linalg.get_lapack_funcs(("trtri",), (L,))
        return trtri(L, lower=1, overwrite_c=1)[0]

    @staticmethod
    def eigh(A):
        """Eigenvalues, ascending, and eigenvectors."""
        return linalg.eigh(A, lower=True, overwrite_a=True, check_finite=False)

    @staticmethod
    def solve_unit_lower(L, right):
        """L x = right, L lower triangular with a diagonal of ones that is not read."""
        return linalg.solve_triangular(L, right, lower=True, unit_diagonal=True, check_finite=False)


HOST = HostAlgebra()
