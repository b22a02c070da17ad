"""Fast shallow classifiers, regressors and transformers for scikit-learn."""

from .classifiers import MixtureClassifier, PatchClassifier, RBFClassifier, TanhClassifier
from .pipelines import make_tabular_pipeline
from .projectors import PatchProjector, RBFProjector, TanhProjector
from .regressors import MixtureRegressor, PatchRegressor, RBFRegressor, TanhRegressor
from .search import HiddenSizeSearchCV
from .version import __version__ as __version__

__all__ = [
    "HiddenSizeSearchCV", "MixtureClassifier", "MixtureRegressor", "PatchClassifier",
    "PatchProjector", "PatchRegressor", "RBFClassifier", "RBFProjector", "RBFRegressor",
    "TanhClassifier", "TanhProjector", "TanhRegressor", "make_tabular_pipeline",
]  # fmt: skip
