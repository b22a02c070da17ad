"""Regressors: a hidden layer with a linear readout for each output."""

from .patches import PatchRegressor
from .rbf import RBFRegressor
from .tanh import TanhRegressor

__all__ = ["PatchRegressor", "RBFRegressor", "TanhRegressor"]
