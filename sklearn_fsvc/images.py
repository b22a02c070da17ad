"""Images that are shifted and mirrored."""

from ._src.images import augmented

__all__ = ["augmented"]
