"""Fitted models for other programs: `c`, `onnx`, `skops`."""
