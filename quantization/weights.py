"""Quantize weights by rounding to nearest: int8 per channel; int8, int4 and nf4 by groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.dtype import DType
from ..ir.op import Array
from .layers import Layer
from .nf4 import NF4_TABLE
from .plan import ActivationParams, QuantizedWeight
from .range_search import CODE_LIMITS, LEAST_STEP, search_ranges

_MAX_I8 = 127
_MAX_BIAS_CODE = 2**31 - 1
# The smallest group that a weight whose depth the wanted group does not divide is split into.
_MIN_GROUP = 16
# Shares of a group's range that a search of its limits tries.
CLIP_RATIOS: Sequence[float] = tuple(np.linspace(0.975, 0.6, 16, dtype=np.float32).tolist())
# Elements of a weight whose ranges are searched at once.
_CHUNK_ELEMENTS = 1 << 17


def quantize_channels(
    layer: Layer, weight: Array, activation: ActivationParams, bias: Array | None
) -> QuantizedWeight:
    """i8 codes from -127 to 127 with one scale per output channel and no zero point.

    A scale is at least so large that the channel's bias has a code in 32 bits of the product of
    both scales. bias: one element per channel, or None.
    """
    axes = tuple(axis for axis in range(weight.ndim) if axis not in layer.outputs)
    scale = np.abs(weight).max(axis=axes, keepdims=True).astype(np.float64) / _MAX_I8
    if bias is not None:
        least = np.abs(bias.astype(np.float64)) / (activation.scale * (_MAX_BIAS_CODE // 2))
        scale = np.maximum(scale, least.reshape(scale.shape))
    scale = np.where(scale > LEAST_STEP, scale, 1.0).astype(np.float32)
    codes = np.clip(np.rint(weight / scale), -_MAX_I8, _MAX_I8).astype(np.int8)
    return QuantizedWeight(codes, DType.i8, scale)


def fit_group(depth: int, group: int) -> int:
    """The group that a weight of that depth is split into: `group`, or its largest half, quarter
    and so on that divides the depth; the depth itself where none of 16 or more does."""
    if group <= 0 or group >= depth:
        return depth
    while depth % group and group > _MIN_GROUP:
        group //= 2
    return group if depth % group == 0 else depth


def quantize_groups(
    weight: Array,
    axis: int,
    group: int,
    kind: str,
    importance: Array | None = None,
    ratios: Sequence[float] = CLIP_RATIOS,
    num_threads: int | None = None,
) -> QuantizedWeight:
    """A matrix whose codes share a scale by groups along `axis`. kind: int8 (i8 without zero
    points), int4 (u4 with zero points) or nf4. importance: weights of the squared errors along
    `axis`; where given, each group's range is its own or the share of it (`ratios`) with the least
    error. num_threads: None for all CPUs."""
    group = fit_group(weight.shape[axis], group)
    rows = weight if axis == 1 else weight.T
    blocks = rows.reshape(rows.shape[0], -1, group)
    if importance is None:
        cost, ratios = np.ones((group, blocks.shape[1], 1), np.float32), ()
    else:
        cost = importance.astype(np.float32).reshape(-1, group).T[..., None]
    codes = np.zeros(blocks.shape, np.int8 if kind == "int8" else np.uint8)
    step = np.zeros(blocks.shape[:2], np.float32)
    zero = np.zeros_like(step)
    # Some rows at a time: what a search computes of them stays in the processor's caches.
    count = max(1, _CHUNK_ELEMENTS // max(1, weight.shape[axis]))
    for first in range(0, len(blocks), count):
        part = slice(first, first + count)
        values = np.ascontiguousarray(blocks[part].transpose(2, 1, 0))
        found = search_ranges(values, kind, cost, ratios, num_threads)
        codes[part] = encode(values, kind, *found).transpose(2, 1, 0)
        step[part], zero[part] = (each.T for each in found)
    return _assemble(codes, step, zero, kind, axis, group)


def encode(values: Array, kind: str, step: Array, zero: Array) -> Array:
    """The nearest codes."""
    if kind == "nf4":
        middles = (NF4_TABLE[1:] + NF4_TABLE[:-1]) / 2
        return np.searchsorted(middles, values / step).astype(np.uint8)
    codes = values / step
    np.rint(codes, out=codes)
    codes += zero
    dtype = np.uint8 if kind == "int4" else np.int8
    return np.clip(codes, *CODE_LIMITS[kind], out=codes).astype(dtype)


def decode(codes: Array, kind: str, step: Array, zero: Array) -> Array:
    """The real values of codes."""
    if kind == "nf4":
        return NF4_TABLE[codes] * step
    return (codes.astype(np.float32) - zero) * step


def _assemble(
    codes: Array, step: Array, zero: Array, kind: str, axis: int, group: int
) -> QuantizedWeight:
    """Codes [rows, groups, group], scales and zero points [rows, groups] as a weight whose groups
    are along `axis`."""
    rows = codes.shape[0]

    def turn(array: Array) -> Array:
        return np.ascontiguousarray(array if axis == 1 else array.T)

    dtype = {"int8": DType.i8, "int4": DType.u4, "nf4": DType.nf4}[kind]
    zeros = turn(zero.astype(np.uint8)) if kind == "int4" else None
    scales = turn(step)
    return QuantizedWeight(turn(codes.reshape(rows, -1)), dtype, scales, zeros, axis, group)


def assemble_rows(
    codes: Array, steps: Array, zeros: Array, kind: str, axis: int, group: int
) -> QuantizedWeight:
    """Codes [rows, depth] with parameters [rows, groups] as a weight."""
    return _assemble(codes.reshape(codes.shape[0], -1, group), steps, zeros, kind, axis, group)
