"""Operator fusion."""
