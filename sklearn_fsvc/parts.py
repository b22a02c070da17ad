"""The contracts of the parts of estimators, and base classes for new estimators.

CONTRIBUTING.md explains how to add hidden units or a readout.
"""

from ._src.estimators.classifier import NetworkClassifier
from ._src.estimators.linear_readout import Linear
from ._src.estimators.readouts import Ridge
from ._src.estimators.regressor import NetworkRegressor
from ._src.estimators.transformer import NetworkTransformer
from ._src.layers import LinearLayer
from ._src.parts.base import UNSET, Part
from ._src.parts.composition import Parts
from ._src.parts.readout import Readout, ReadoutTraining
from ._src.parts.target import TargetSpec
from ._src.parts.units import Sharing, Units
from ._src.targets.classes import ClassTarget
from ._src.targets.numeric import NumericTarget

__all__ = [
    "UNSET",
    "ClassTarget",
    "Linear",
    "LinearLayer",
    "NetworkClassifier",
    "NetworkRegressor",
    "NetworkTransformer",
    "NumericTarget",
    "Part",
    "Parts",
    "Readout",
    "ReadoutTraining",
    "Ridge",
    "Sharing",
    "TargetSpec",
    "Units",
]
