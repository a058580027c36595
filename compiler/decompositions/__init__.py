"""Decompositions that passes and exporters share."""
