"""The classifiers."""

from .rbf import RBFClassifier
from .tanh import TanhClassifier

__all__ = ["RBFClassifier", "TanhClassifier"]
