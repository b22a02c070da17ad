"""Fitted models as headers of C99."""

from .._src.export.c import to_c

__all__ = ["to_c"]
