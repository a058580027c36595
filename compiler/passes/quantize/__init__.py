"""Quantization: QDQ recognition, integer products, scale folding."""
