"""Spatial kernels: pooling, resampling, padding, RoI align."""
