"""Quantize weights by rounding to nearest: int8 per channel; int8, int4 and nf4 by groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.dtype import DType
from ..ir.op import Array
from .layers import Layer
from .nf4 import NF4_TABLE
from .plan import ActivationParams, QuantizedWeight

_MAX_I8 = 127
_MAX_BIAS_CODE = 2**31 - 1
# The smallest group that a weight whose depth the wanted group does not divide is split into.
_MIN_GROUP = 16
# Shares of a group's range that a search of its limits tries.
CLIP_RATIOS: Sequence[float] = tuple(np.linspace(0.975, 0.6, 16, dtype=np.float32).tolist())
# Elements of a weight whose ranges are searched at once.
_CHUNK_ELEMENTS = 1 << 15


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
    scale = _nonzero(scale).astype(np.float32)
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
) -> QuantizedWeight:
    """A matrix whose codes share a scale by groups along `axis`. kind: int8 (i8 without zero
    points), int4 (u4 with zero points) or nf4. importance: weights of the squared errors along
    `axis`; where given, each group's range is its own or the share of it (`ratios`) with the least
    error."""
    group = fit_group(weight.shape[axis], group)
    rows = weight if axis == 1 else weight.T
    blocks = np.ascontiguousarray(rows).reshape(rows.shape[0], -1, group)
    cost = None if importance is None else importance.reshape(-1, group).astype(np.float32)
    codes = np.zeros(blocks.shape, np.int8 if kind == "int8" else np.uint8)
    step = np.zeros(blocks.shape[:2], np.float32)
    zero = np.zeros_like(step)
    # Some rows at a time: what a search computes of them stays in the processor's caches.
    count = max(1, _CHUNK_ELEMENTS // max(1, weight.shape[axis]))
    for first in range(0, len(blocks), count):
        part = slice(first, first + count)
        values = np.ascontiguousarray(blocks[part].transpose(2, 0, 1))
        costs = None if cost is None else np.broadcast_to(cost.T[:, None], values.shape).copy()
        step[part], zero[part] = choose_grid(values, kind, costs, ratios)
        codes[part] = encode(blocks[part], kind, step[part][..., None], zero[part][..., None])
    return _assemble(codes, step, zero, kind, axis, group)


def choose_grid(
    values: Array, kind: str, cost: Array | None = None, ratios: Sequence[float] = CLIP_RATIOS
) -> tuple[Array, Array]:
    """Scales and zero points [...] of groups along the first axis of values [group, ...]. cost:
    weights of the squared errors, broadcast to the values; where given, each group's range is its
    own or the share of it (`ratios`) with the least error."""
    limits = values.min(axis=0), values.max(axis=0)
    step, zero = _cut_grid(limits, kind, 1.0)
    if cost is None:
        return step, zero
    scratch = np.empty_like(values)
    least = _squared_error(values, kind, step, zero, cost, scratch)
    for ratio in ratios:
        tried = _cut_grid(limits, kind, float(ratio))
        error = _squared_error(values, kind, *tried, cost, scratch)
        better = error < least
        least = np.where(better, error, least)
        step, zero = (
            np.where(better, new, old) for new, old in zip(tried, (step, zero), strict=True)
        )
    return step, zero


def _cut_grid(limits: tuple[Array, Array], kind: str, ratio: float) -> tuple[Array, Array]:
    """Scales and zero points of groups whose ranges are cut to a share. limits: the least and the
    largest value of each group."""
    if kind == "int4":
        low, high = np.minimum(limits[0], 0) * ratio, np.maximum(limits[1], 0) * ratio
        step = _nonzero((high - low) / 15).astype(np.float32)
        return step, np.clip(np.rint(-low / step), 0, 15)
    most = np.maximum(-limits[0], limits[1]) * ratio
    step = _nonzero(most / (_MAX_I8 if kind == "int8" else 1.0)).astype(np.float32)
    return step, np.zeros_like(step)


def encode(values: Array, kind: str, step: Array, zero: Array) -> Array:
    """The nearest codes."""
    if kind == "nf4":
        return _nearest_nf4(values / step).astype(np.uint8)
    codes = _nearest_integers(values, kind, step, zero)
    return codes.astype(np.uint8 if kind == "int4" else np.int8)


def _nearest_nf4(values: Array) -> Array:
    return np.searchsorted((NF4_TABLE[1:] + NF4_TABLE[:-1]) / 2, values)


def _nearest_integers(
    values: Array, kind: str, step: Array, zero: Array, out: Array | None = None
) -> Array:
    """The nearest codes of int4 or int8, float32."""
    low, high = (0, 15) if kind == "int4" else (-_MAX_I8, _MAX_I8)
    codes = np.divide(values, step, out=out)
    np.rint(codes, out=codes)
    codes += zero
    return np.clip(codes, low, high, out=codes)


def decode(codes: Array, kind: str, step: Array, zero: Array) -> Array:
    """The real values of codes."""
    if kind == "nf4":
        return NF4_TABLE[codes] * step
    return (codes.astype(np.float32) - zero) * step


def _squared_error(
    values: Array, kind: str, step: Array, zero: Array, cost: Array, scratch: Array
) -> Array:
    """The weighted squared error of each group's nearest codes, [...]. scratch: like values."""
    if kind == "nf4":
        error = NF4_TABLE[_nearest_nf4(values / step)]
    else:
        error = _nearest_integers(values, kind, step, zero, scratch)
        error -= zero
    error *= step
    error -= values
    error *= error
    error *= cost
    return error.sum(axis=0)


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


def _nonzero(scale: Array) -> Array:
    return np.where(scale > 1e-30, scale, 1.0)
