"""Sparse data: embedding bags, segments, rows without values."""
