"""Lowering of pooling, resampling, padding and regions of interest."""
