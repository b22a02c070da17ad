"""Explanations of predictions, and displays of fitted models.

The displays need matplotlib, which is imported when something is drawn.
"""

from ._src.estimators.explanation import Explanation
from ._src.inspection import (
    ExplanationDisplay,
    FeatureWeightsDisplay,
    HiddenSizeDisplay,
    ShapleyDisplay,
    ShapleyValues,
    explain,
    shapley_values,
)

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
