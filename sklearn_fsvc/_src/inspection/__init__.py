"""Pictures of fitted models, as scikit-learn makes them: ``SomeDisplay.from_estimator(...)``.

matplotlib is imported when something is drawn.
"""

from .explanations import ExplanationDisplay
from .feature_weights import FeatureWeightsDisplay
from .sizes import HiddenSizeDisplay

__all__ = ["ExplanationDisplay", "FeatureWeightsDisplay", "HiddenSizeDisplay"]
