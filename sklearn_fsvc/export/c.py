"""Export to C99 headers."""

from .._src.export.c import to_c

__all__ = ["to_c"]
