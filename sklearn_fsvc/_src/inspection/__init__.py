"""Pictures of fitted models, as scikit-learn makes them: ``SomeDisplay.from_estimator(...)``.

matplotlib is imported when something is drawn.
"""

from .displays import FeatureWeightsDisplay, HiddenSizeDisplay
from .explanations import ExplanationDisplay

__all__ = ["ExplanationDisplay", "FeatureWeightsDisplay", "HiddenSizeDisplay"]
