"""The faces that are transformers; all that they do is in `estimators`."""

from .patches import PatchProjector
from .rbf import RBFProjector
from .tanh import TanhProjector

__all__ = ["PatchProjector", "RBFProjector", "TanhProjector"]
