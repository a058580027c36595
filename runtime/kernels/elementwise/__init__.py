"""Elementwise and transposing kernels."""
