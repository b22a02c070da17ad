"""Data augmentation for images."""

from ._src.images import augmented

__all__ = ["augmented"]
