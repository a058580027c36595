"""Lowering of ai.onnx.ml operations."""
