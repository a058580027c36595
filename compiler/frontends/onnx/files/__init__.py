"""Reads the files of an ONNX model: protobuf, external data, tensors and initializers."""
