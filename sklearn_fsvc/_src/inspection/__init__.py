"""Displays of fitted models, in the style of scikit-learn: ``SomeDisplay.from_estimator(...)``."""
