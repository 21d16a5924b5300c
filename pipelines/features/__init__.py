"""Where image features come from: arrays that others extracted, or photos through an ONNX backbone."""
