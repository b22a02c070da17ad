"""Kernels of RBF units, and the steps of which they are composed."""

from ._src.formulas import EXP, IDENTITY, TANH, Affine, Function
from ._src.kernels import Distance, Gaussian, Kernel, Laplacian, PoweredExponential, Triangular

__all__ = [
    "EXP", "IDENTITY", "TANH", "Affine", "Distance", "Function", "Gaussian", "Kernel", "Laplacian",
    "PoweredExponential", "Triangular",
]  # fmt: skip
