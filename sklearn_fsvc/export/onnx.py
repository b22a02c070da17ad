"""Export to ONNX. Needs the extra `onnx`."""

from .._src.export.onnx import register, to_onnx

__all__ = ["register", "to_onnx"]
