"""Fast shallow classifiers and transformers for scikit-learn."""

from .classifiers import RBFClassifier, TanhClassifier
from .projectors import RBFProjector, TanhProjector

__all__ = ["RBFClassifier", "RBFProjector", "TanhClassifier", "TanhProjector"]
__version__ = "0.1.0"
