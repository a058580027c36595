"""Attention: products (register tiles; amx.py: on tiles of AMX), softmax (one block), copies (in
and out), loops (the rest)."""

from __future__ import annotations

from .loops import generate

__all__ = ["generate"]
