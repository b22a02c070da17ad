"""Explanations of predictions, and displays of fitted models.

The displays need matplotlib, which is imported when something is drawn.
"""

from ._src.estimators.explanation import Explanation
from ._src.inspection import (
    ExplanationDisplay,
    FeatureWeightsDisplay,
    HiddenSizeDisplay,
    explain,
)

__all__ = [
    "Explanation",
    "ExplanationDisplay",
    "FeatureWeightsDisplay",
    "HiddenSizeDisplay",
    "explain",
]
