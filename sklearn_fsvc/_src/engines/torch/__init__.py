"""An engine on PyTorch: see `engine`. Importing this folder does not import PyTorch."""

from .engine import TorchEngine

__all__ = ["TorchEngine"]
