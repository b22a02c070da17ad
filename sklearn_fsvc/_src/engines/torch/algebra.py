"""Linear algebra of the readouts on PyTorch's tensors: see `HostAlgebra` for the contract.

Matrices have contiguous columns or rows, with which PyTorch multiplies without a copy, also into a
part of a matrix.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..algebra import Algebra
from .arrays import Array, allocating, on_device_of
from .namespace import Namespace

# Columns of a part of a symmetric product: PyTorch has products of two matrices only, and what they
# compute above the diagonal is wasted.
_STRIP = 512
# Elements of the right-hand sides that are solved at a time, which PyTorch copies.
_SOLVED = 2**24
# Devices on which PyTorch lacks some of LAPACK: there it runs on the host.
_WITHOUT_LAPACK = ("mps",)


class TorchAlgebra(Algebra):
    """Products and factors by the libraries that PyTorch calls on a device.

    Parameters
    ----------
    xp : Namespace
    """

    n_eigh_matrices = 4

    def __init__(self, xp: Namespace) -> None:
        self.xp = xp
        # On the host, a triangular solve of few columns is as fast as a product.
        self.prefers_inverse = xp.device.type != "cpu"

    # Products.

    def multiply(self, A: Array, B: Array) -> Any:
        return A @ B  # type: ignore[operator]

    def gemm(self, C: Array, A: Array, B: Array, alpha: float = 1.0, beta: float = 1.0) -> None:
        if A.size and B.size:
            allocating(C.tensor.addmm_, A.tensor, B.tensor, alpha=alpha, beta=beta)

    def syrk(
        self,
        C: Array,
        A: Array,
        alpha: float = 1.0,
        beta: float = 1.0,
        allow_workspace: bool = False,
    ) -> None:
        for start in range(0, len(C), _STRIP):
            rows, columns = slice(start, None), slice(start, start + _STRIP)
            self.gemm(C[rows, columns], A[rows], A[columns].T, alpha, beta)

    def symm(self, A: Array, B: Array) -> Any:
        lower = torch.tril(A.tensor)
        return A._like(lower + torch.tril(A.tensor, -1).T) @ B  # type: ignore[operator]

    # Sums.

    def add(self, C: Array, A: Array, alpha: float = 1.0) -> None:
        C.tensor.add_(on_device_of(A.tensor, C.tensor), alpha=alpha)

    def add_lower(self, C: Array, A: Array) -> None:
        C.tensor.add_(on_device_of(A.tensor, C.tensor))

    def add_to_diagonal(self, A: Array, number: float) -> None:
        A.tensor.diagonal().add_(number)

    # Factors.

    def factorise(self, A: Array) -> bool:
        factor, info = allocating(torch.linalg.cholesky_ex, _for_lapack(A.tensor))
        # Not every library reports NaN.
        if int(info) or not bool(torch.isfinite(factor.diagonal()).all()):
            return False
        A.tensor.copy_(factor)
        return True

    def solve_lower(self, L: Array, B: Array, transposed: bool = False, unit: bool = False) -> None:
        factor = _for_lapack(L.tensor.T if transposed else L.tensor)
        step = max(1, _SOLVED // max(1, len(B)))
        for start in range(0, B.shape[1], step):
            right = B.tensor[:, start : start + step]
            solve = torch.linalg.solve_triangular
            solved = allocating(
                solve, factor, right.to(factor.device), upper=transposed, unitriangular=unit
            )
            right.copy_(solved)

    def eigh(self, A: Array) -> tuple[Any, Any]:
        values, vectors = allocating(torch.linalg.eigh, _for_lapack(A.tensor), UPLO="L")
        return tuple(A._like(array.to(A.tensor.device)) for array in (values, vectors))

    # Reductions.

    def median(self, A: Array) -> Any:
        rows, n = allocating(torch.sort, A.tensor, dim=0).values, len(A)
        return A._like(0.5 * rows[(n - 1) // 2] + 0.5 * rows[n // 2])

    def any(self, A: Array, axis: int | None = None) -> Any:
        return self.to_host(A.any(axis=axis))

    def is_finite(self, A: Array) -> bool:
        return bool(torch.isfinite(A.tensor).all())

    def hash_rows(self, X: Array, factors: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """As `float_bits`, in signed integers, whose products and sums have the same bits."""
        bits = (X.astype(np.float64).tensor + 0.0).view(torch.int64)
        bits = bits ^ ((bits >> 32) & 0xFFFFFFFF)
        factors_there = torch.from_numpy(factors.view(np.int64)).to(bits.device)
        return (bits * factors_there).sum(dim=1).cpu().numpy().view(np.uint64)

    # Devices.

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        return array.tensor.cpu().numpy() if isinstance(array, Array) else array

    def to_device(self, array: Any) -> Any:
        return self.xp.asarray(array)

    def synchronize(self) -> None:
        if self.xp.device.type != "cpu":
            getattr(torch, self.xp.device.type).synchronize()


def _for_lapack(tensor):
    """Return a tensor on a device on which PyTorch has LAPACK."""
    return tensor.cpu() if tensor.device.type in _WITHOUT_LAPACK else tensor
