"""Fast shallow classifiers, regressors and transformers for scikit-learn.

Public is what `__all__` names, here and in `engines`, `kernels`, `parts`, `images`, `inspection`,
`tuning`, `export.c`, `export.onnx` and `export.skops`. All else, in `_src`, may change with every
version.
"""

from ._src.classifiers.patches import PatchClassifier
from ._src.classifiers.rbf import RBFClassifier
from ._src.classifiers.stacked import StackedClassifier
from ._src.classifiers.tanh import TanhClassifier
from ._src.pipelines import make_tabular_pipeline
from ._src.projectors.patches import PatchProjector
from ._src.projectors.rbf import RBFProjector
from ._src.projectors.tanh import TanhProjector
from ._src.regressors.patches import PatchRegressor
from ._src.regressors.rbf import RBFRegressor
from ._src.regressors.stacked import StackedRegressor
from ._src.regressors.tanh import TanhRegressor
from ._src.search.search_cv import HiddenSizeSearchCV
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
