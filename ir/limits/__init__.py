"""Limits on the memory of calls."""
