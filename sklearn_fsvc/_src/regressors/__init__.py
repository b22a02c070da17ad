"""Regressors: a hidden layer with a linear readout for each output."""

from .mixture import MixtureRegressor
from .patches import PatchRegressor
from .rbf import RBFRegressor
from .tanh import TanhRegressor

__all__ = ["MixtureRegressor", "PatchRegressor", "RBFRegressor", "TanhRegressor"]
