"""Fast shallow classifiers, regressors and transformers for scikit-learn."""

from .classifiers import RBFClassifier, TanhClassifier
from .pipelines import make_tabular_pipeline
from .projectors import RBFProjector, TanhProjector
from .regressors import RBFRegressor, TanhRegressor
from .search import HiddenSizeSearchCV
from .version import __version__ as __version__

__all__ = [
    "HiddenSizeSearchCV", "RBFClassifier", "RBFProjector", "RBFRegressor", "TanhClassifier",
    "TanhProjector", "TanhRegressor", "make_tabular_pipeline",
]  # fmt: skip
