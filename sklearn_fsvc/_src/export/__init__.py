"""Export of fitted models to C, ONNX and skops."""
