"""Indexed kernels: gather, scatter, scan, top-k."""
