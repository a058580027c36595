"""Importers of the ai.onnx.ml domain."""
