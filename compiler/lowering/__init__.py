"""Lowering: an optimised graph and a Target in, a plan out."""

from .lower import lower

__all__ = ["lower"]
