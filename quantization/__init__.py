"""Quantization: a float model in, a model with int8, int4 or nf4 weights out (`irc quantize`)."""

from __future__ import annotations

from .post_training import QuantizedModel, quantize

__all__ = ["QuantizedModel", "quantize"]
