"""The classifiers."""

from .patches import PatchClassifier
from .rbf import RBFClassifier
from .tanh import TanhClassifier

__all__ = ["PatchClassifier", "RBFClassifier", "TanhClassifier"]
