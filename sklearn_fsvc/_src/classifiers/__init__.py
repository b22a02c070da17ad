"""The classifiers."""

from .patches import PatchClassifier
from .rbf import RBFClassifier
from .stacked import StackedClassifier
from .tanh import TanhClassifier

__all__ = ["PatchClassifier", "RBFClassifier", "StackedClassifier", "TanhClassifier"]
