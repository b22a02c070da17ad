"""Fitted models in files of skops."""

from .._src.export.skops import TRUSTED

__all__ = ["TRUSTED"]
