"""Regressors: a hidden layer with a linear readout for each output."""

from .rbf import RBFRegressor
from .tanh import TanhRegressor

__all__ = ["RBFRegressor", "TanhRegressor"]
