"""Kernels: what an RBF unit answers at a distance, and the pieces they are made of."""

from ._src.formulas import EXP, IDENTITY, TANH, Affine, Function
from ._src.kernels import Distance, Gaussian, Kernel, Laplacian, PoweredExponential, Triangular

__all__ = [
    "EXP", "IDENTITY", "TANH", "Affine", "Distance", "Function", "Gaussian", "Kernel", "Laplacian",
    "PoweredExponential", "Triangular",
]  # fmt: skip
