"""Packs operands of matrix products into panels, and dequantizes packed weights."""
