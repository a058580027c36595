"""Lowering of control flow and variables."""
