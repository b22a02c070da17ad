"""Regressors: a hidden layer with a linear readout for each output."""

from .patches import PatchRegressor
from .rbf import RBFRegressor
from .stacked import StackedRegressor
from .tanh import TanhRegressor

__all__ = ["PatchRegressor", "RBFRegressor", "StackedRegressor", "TanhRegressor"]
