"""The classifiers."""

from .mixture import MixtureClassifier
from .patches import PatchClassifier
from .rbf import RBFClassifier
from .tanh import TanhClassifier

__all__ = ["MixtureClassifier", "PatchClassifier", "RBFClassifier", "TanhClassifier"]
