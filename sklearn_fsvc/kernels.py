"""Kernels: what an RBF unit answers at a distance, and the pieces they are made of."""

from ._src.formulas import Affine, Function
from ._src.kernels import Distance, Gaussian, Kernel, Laplacian, Triangular

__all__ = ["Affine", "Distance", "Function", "Gaussian", "Kernel", "Laplacian", "Triangular"]
