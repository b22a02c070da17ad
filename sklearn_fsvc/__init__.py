"""Fast shallow classifiers, regressors and transformers for scikit-learn.

Public is what `__all__` names, here and in `engines`, `kernels`, `parts`, `images`, `inspection`,
`tuning`, `export.c`, `export.onnx` and `export.skops`. All else, in `_src`, may change with every
version.
"""

from ._src.classifiers import PatchClassifier, RBFClassifier, StackedClassifier, TanhClassifier
from ._src.pipelines import make_tabular_pipeline
from ._src.projectors import PatchProjector, RBFProjector, TanhProjector
from ._src.regressors import PatchRegressor, RBFRegressor, StackedRegressor, TanhRegressor
from ._src.search import HiddenSizeSearchCV
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
]  # fmt: skip
