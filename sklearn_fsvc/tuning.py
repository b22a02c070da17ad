"""Measurement of the fastest settings of a machine."""

from ._src.tuning import Tuned, tune

__all__ = ["Tuned", "tune"]
