"""Whole-graph shape analyses."""
