"""Displays of fitted models, in the style of scikit-learn: ``SomeDisplay.from_estimator(...)``."""

from .displays import FeatureWeightsDisplay, HiddenSizeDisplay
from .explanations import ExplanationDisplay, explain

__all__ = ["ExplanationDisplay", "FeatureWeightsDisplay", "HiddenSizeDisplay", "explain"]
