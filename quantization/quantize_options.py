"""What a caller can choose about quantization, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..ir.dtype import DType
from ..ir.errors import UsageError
from .observers import METHODS

WEIGHTS = ("int8", "int4", "nf4")
ALGORITHMS = ("rtn", "awq", "gptq", "awq-gptq")
# Of weights of 4 bits, those of the last products have 8.
LAST_WEIGHTS = "int8"
ACTIVATIONS = ("u8", "i8", "none")
# Takes a function of inputs (a dictionary) that returns the outputs; returns a number, the larger
# the better.
Metric = Callable[[Callable[[Any], Any]], float]


@dataclass(frozen=True)
class QuantizeOptions:
    """Options of `irc_compiler.quantize`; its docstring explains them."""

    weights: str = "int8"
    group: int = 128
    algorithm: str = "rtn"
    activations: str | None = None
    calibrate: str = "minmax"
    smooth: float | None = None
    keep: tuple[str, ...] = ()
    metric: Metric | None = None
    max_drop: float | None = None
    min_samples: int = 8
    num_threads: int | None = None

    def __post_init__(self) -> None:
        """UsageError for values that are none of their option, or exclude each other."""
        for name, allowed in (
            ("weights", WEIGHTS),
            ("algorithm", ALGORITHMS),
            ("activations", (*ACTIVATIONS, None)),
            ("calibrate", METHODS),
        ):
            if getattr(self, name) not in allowed:
                expected = ", ".join(str(a) for a in allowed if a)
                raise UsageError(f"unknown {name}", got=getattr(self, name), expected=expected)
        if isinstance(self.group, bool) or not isinstance(self.group, int) or self.group < 1:
            raise UsageError("group must be at least 1", got=self.group, expected="an integer")
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise UsageError("smooth is out of range", got=self.smooth, expected="0 to 1")
        if self.max_drop is not None and not 0 <= self.max_drop < math.inf:
            raise UsageError("max_drop is out of range", got=self.max_drop, expected="0 or more")
        if self.max_drop is not None and self.metric is None:
            raise UsageError("max_drop needs a metric", got="none", expected="metric=")
        if self.metric is not None and not callable(self.metric):
            raise UsageError("the metric is not a function", got=type(self.metric).__name__,
                             expected="a function of a model that returns a number")  # fmt: skip
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.activation_dtype is not None and self.weights != "int8":
            raise UsageError(
                "8-bit activations need 8-bit weights",
                got=f"weights {self.weights}, activations {self.activations}",
                expected="weights int8, or activations none",
            )
        if self.activation_dtype is not None and self.algorithm != "rtn":
            raise UsageError(
                "awq and gptq quantize weights alone",
                got=f"algorithm {self.algorithm}, activations {self.activations or 'u8'}",
                expected="activations none, or weights int4 or nf4",
            )
        if self.activation_dtype is None and self.smooth is not None:
            raise UsageError(
                "smooth is for quantized activations",
                got=f"smooth {self.smooth}, activations none",
                expected="activations u8 or i8",
            )

    @property
    def activation_dtype(self) -> DType | None:
        """The type of quantized activations; None where weights alone are quantized. Unless
        chosen, it is u8 with int8 weights."""
        chosen = self.activations or ("u8" if self.weights == "int8" else "none")
        return None if chosen == "none" else DType(chosen)
