"""The linear algebra of the readouts on a GPU, by CuPy: see `HostAlgebra` for what each does."""

import numpy as np


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
        if margin is None:
            return L if np.isfinite(float(L[-1, -1])) else None
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
