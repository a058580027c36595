"""Quantize, dequantize and integer products."""
