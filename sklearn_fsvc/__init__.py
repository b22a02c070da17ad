"""Fast shallow classifiers and transformers for scikit-learn."""

from .classifiers import RBFClassifier, TanhClassifier
from .projectors import RBFProjector, TanhProjector
from .version import __version__ as __version__

__all__ = ["RBFClassifier", "RBFProjector", "TanhClassifier", "TanhProjector"]
