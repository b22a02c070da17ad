"""The linear algebra of the readouts on the host, by SciPy, and on a GPU, by CuPy.

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

        That is, where its reciprocal condition is less than `margin` times the epsilon.
        """
        # At least the 1-norm of A and at most twice, for the upper triangle is 0.
        (lange,) = linalg.get_lapack_funcs(("lange",), (A,))
        norm = lange("1", A) + lange("I", A)
        potrf, pocon = linalg.get_lapack_funcs(("potrf", "pocon"), (A,))
        # To ask for limits looks at all loaded libraries: 1.5 ms that small ones need not pay.
        is_large = len(A) > _LARGEST_SHARED
        with threadpool_limits(1, user_api="blas") if is_large else nullcontext():
            L, info = potrf(A, lower=1, overwrite_a=1, clean=1)
        if info != 0:
            return None
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


class CuPyAlgebra:
    """cuBLAS and cuSOLVER through CuPy."""

    n_matrices = 4

    @property
    def xp(self):
        import cupy

        return cupy

    @staticmethod
    def gram_bytes(n_units, dtype):
        return 2 * n_units * n_units * (dtype.itemsize % 8)

    @staticmethod
    def cross(H, B):
        return H.T @ B

    @staticmethod
    def add_gram(total, H):
        import cupy
        from cupy import cublas

        if H.dtype == total.dtype:
            cublas.syrk("N", H.T, out=total, alpha=1.0, beta=1.0, lower=True)
        else:
            product = cupy.zeros(total.shape, H.dtype, order="F")
            total += cublas.syrk("N", H.T, out=product, lower=True)

    @staticmethod
    def add_outer(matrix, factor, v):
        from cupy import cublas

        cublas.ger(factor, v, v, matrix)

    @staticmethod
    def cholesky(A, margin=1.0):
        import cupy

        largest = float(A.diagonal().sum())  # at least the largest eigenvalue
        L = cupy.linalg.cholesky(A)
        # cuSOLVER estimates no condition: inverse iteration finds the smallest eigenvalue.
        v = cupy.asarray(np.random.RandomState(0).standard_normal((len(A), 1)))
        for _ in range(3):
            v /= cupy.linalg.norm(v)
            v = CuPyAlgebra.solve_lower(L, CuPyAlgebra.solve_lower(L, v), transposed=True)
        smallest = 1 / float(cupy.linalg.norm(v))
        # Or NaN: not positive at all.
        return L if smallest > margin * np.finfo(A.dtype).eps * largest else None

    @staticmethod
    def solve_lower(L, right, transposed=False):
        from cupyx.scipy.linalg import solve_triangular

        # The transpose is F-ordered, which the solver takes as it is.
        return solve_triangular(L.T, right, trans="N" if transposed else "T")

    @staticmethod
    def invert_lower(L):
        import cupy

        return CuPyAlgebra.solve_lower(L, cupy.eye(len(L)))

    @staticmethod
    def eigh(A):
        import cupy

        return cupy.linalg.eigh(A, UPLO="L")

    @staticmethod
    def solve_unit_lower(L, right):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, right, lower=True, unit_diagonal=True)
