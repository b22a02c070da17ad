"""Displays of fitted models, in the style of scikit-learn: ``SomeDisplay.from_estimator(...)``."""

from .displays import FeatureWeightsDisplay, HiddenSizeDisplay
from .explanations import ExplanationDisplay, explain
from .shapley import ShapleyValues, shapley_values
from .shapley_display import ShapleyDisplay

__all__ = [
    "ExplanationDisplay",
    "FeatureWeightsDisplay",
    "HiddenSizeDisplay",
    "ShapleyDisplay",
    "ShapleyValues",
    "explain",
    "shapley_values",
]
