"""Trusted types of skops files."""

from .._src.export.skops import TRUSTED

__all__ = ["TRUSTED"]
