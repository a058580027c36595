"""Search the range of each group of a weight for the least weighted squared error.

A range that is cut to a share of its own rounds most values finer and clips a few. The errors are
computed by a model that irc compiles for the kind of codes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from .. import builder as ops
from ..api import CompiledModel, compile_model
from ..builder import Tensor
from ..ir.op import Array
from .nf4 import NF4_TABLE

# The least and the largest code; values of nf4 are divided by the largest magnitude.
CODE_LIMITS = {"int8": (-127.0, 127.0), "int4": (0.0, 15.0), "nf4": (-1.0, 1.0)}
# A range below this is one of zeros alone.
LEAST_STEP = 1e-30


def search_ranges(
    values: Array, kind: str, cost: Array, ratios: Sequence[float], num_threads: int | None = None
) -> tuple[Array, Array]:
    """Scales and zero points [groups, rows] of groups, whose range is their own or the share of it
    (`ratios`) with the least error.

    values: [group, groups, rows], float32: vectors of code hold many rows. kind: int8 (without zero
    points), int4 (with them) or nf4. cost: weights of the squared errors, [group, groups, 1].
    num_threads: None for all CPUs.
    """
    net = _compile_trial(kind, num_threads)
    low, high = values.min(axis=0), values.max(axis=0)
    # Any error replaces NaN, so the groups' own ranges are always tried first.
    best = [np.ones_like(low), np.zeros_like(low), np.full_like(low, np.nan)]
    for ratio in (1.0, *ratios):
        best = list(net([values, cost, low, high, np.float32(ratio), *best]))
    return best[0], best[1]


@functools.lru_cache(maxsize=4)
def _compile_trial(kind: str, num_threads: int | None) -> CompiledModel:
    """A model that tries one share of the groups' ranges: what is best so far, with the groups
    replaced whose error it makes smaller."""
    values = ops.parameter("values", ["group", "groups", "rows"], "f32")
    cost = ops.parameter("cost", ["group", "groups", 1], "f32")
    low, high, step, zero, error = (
        ops.parameter(name, ["groups", "rows"], "f32")
        for name in ("low", "high", "step", "zero", "error")
    )
    ratio = ops.parameter("ratio", [], "f32")
    new_step, new_zero = _cut_range(low * ratio, high * ratio, kind)
    off = _round_to_codes(values, kind, new_step, new_zero) - values
    new_error = ops.reduce_sum(off * off * cost, 0)
    better = ops.logical_or(ops.less(new_error, error), ops.not_equal(error, error))
    outputs = {
        "best_step": ops.where(better, new_step, step),
        "best_zero": ops.where(better, new_zero, zero),
        "best_error": ops.where(better, new_error, error),
    }
    inputs = [values, cost, low, high, ratio, step, zero, error]
    model = ops.model(outputs, inputs=inputs, name=f"range_search_{kind}")
    return compile_model(model, num_threads=num_threads, progress=False)


def _cut_range(low: Tensor, high: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Scales and zero points of groups of values from `low` to `high`."""
    least, most = CODE_LIMITS[kind]
    if kind == "int4":
        low, high = ops.minimum(low, 0.0), ops.maximum(high, 0.0)
        step = _replace_zeros((high - low) / most)
        return step, ops.clip(ops.round(-low / step), least, most)
    step = _replace_zeros(ops.maximum(-low, high) / most)
    return step, step * 0.0


def _replace_zeros(step: Tensor) -> Tensor:
    return ops.where(ops.greater(step, LEAST_STEP), step, 1.0)


def _round_to_codes(values: Tensor, kind: str, step: Tensor, zero: Tensor) -> Tensor:
    """The real values of the nearest codes."""
    scaled = values / step
    if kind == "nf4":
        middles = (NF4_TABLE[1:] + NF4_TABLE[:-1]) / 2
        nearest = scaled * 0.0 + float(NF4_TABLE[0])
        for middle, value in zip(middles, NF4_TABLE[1:], strict=True):
            nearest = ops.where(ops.greater(scaled, float(middle)), float(value), nearest)
        return nearest * step
    codes = ops.clip(ops.round(scaled) + zero, *CODE_LIMITS[kind])
    return (codes - zero) * step
