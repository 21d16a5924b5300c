"""Sources of image features: arrays that were extracted elsewhere, or photos encoded by an ONNX model."""
