"""Export of fitted models: `c`, `onnx`, `skops`."""
