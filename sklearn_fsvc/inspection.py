"""Explanations of predictions, and displays of fitted models.

The displays need matplotlib, which is imported when something is drawn.
"""

from ._src.estimators.explanation import Explanation
from ._src.inspection.displays import FeatureWeightsDisplay, HiddenSizeDisplay
from ._src.inspection.explanations import ExplanationDisplay, explain
from ._src.inspection.shapley import ShapleyValues, shapley_values
from ._src.inspection.shapley_display import ShapleyDisplay

__all__ = [
    "Explanation",
    "ExplanationDisplay",
    "FeatureWeightsDisplay",
    "HiddenSizeDisplay",
    "ShapleyDisplay",
    "ShapleyValues",
    "explain",
    "shapley_values",
]
