"""Fast shallow classifiers, regressors and transformers for scikit-learn.

The public API is `__all__` of this module and of `engines`, `kernels`, `parts`, `images`,
`inspection`, `tuning`, `export.c`, `export.onnx` and `export.skops`. Modules of `_src` are private,
and may change in any release.
"""

from ._src.estimators.patches import PatchClassifier, PatchProjector, PatchRegressor
from ._src.estimators.rbf import RBFClassifier, RBFProjector, RBFRegressor
from ._src.estimators.tanh import TanhClassifier, TanhProjector, TanhRegressor
from ._src.search.search_cv import HiddenSizeSearchCV
from ._src.stacking.estimators import StackedClassifier, StackedRegressor
from ._src.tabular.pipelines import make_tabular_pipeline
from ._src.version import __version__ as __version__

__all__ = [
    "HiddenSizeSearchCV",
    "PatchClassifier",
    "PatchProjector",
    "PatchRegressor",
    "RBFClassifier",
    "RBFProjector",
    "RBFRegressor",
    "StackedClassifier",
    "StackedRegressor",
    "TanhClassifier",
    "TanhProjector",
    "TanhRegressor",
    "make_tabular_pipeline",
]
