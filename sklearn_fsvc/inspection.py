"""Explanations of predictions, and pictures of fitted models.

The pictures need matplotlib, which is imported when something is drawn.
"""

from ._src.estimators.explanation import Explanation
from ._src.inspection import ExplanationDisplay, FeatureWeightsDisplay, HiddenSizeDisplay

__all__ = ["Explanation", "ExplanationDisplay", "FeatureWeightsDisplay", "HiddenSizeDisplay"]
