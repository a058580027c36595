"""Small models that the tests of the public face call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler import ops

DIGITS = Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx"


def two_outputs() -> irc.Model:
    """sum = a + b and product = a * b, of any length: exact on small integers."""
    a = ops.parameter("a", ["N"])
    b = ops.parameter("b", ["N"])
    return ops.model({"sum": a + b, "product": a * b})


def of_type(dtype: str) -> irc.Model:
    """y = x + x for x of an element type."""
    x = ops.parameter("x", ["N", 3], dtype)
    return ops.model({"y": x + x})


def arrays(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-8, 9, n).astype(np.float32) for _ in "ab")
