"""Blocks between depth, batch and space: DepthToSpace, SpaceToDepth, BatchToSpace, SpaceToBatch,
ShuffleChannels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim, eq, exact_quotient, product
from ...dims.constraints import require_equal
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, normalize_axis
from ..shape_inference import ints_of, known_dims, unknown_shape

_WHOLE_BLOCKS = "a spatial axis must be a multiple of the block"


def _share(total: Dim, parts: Dim, what: str) -> Dim:
    if isinstance(total, int) and isinstance(parts, int) and (parts < 1 or total % parts):
        raise ShapeError(what, got=f"{total} by {parts}", expected="a multiple")
    exact = exact_quotient(total, parts)
    if exact is None:
        require_equal(total, total // parts * parts, what)
    return total // parts if exact is None else exact


@dataclass(frozen=True)
class DepthToSpace(Op):
    """Channels to blocks of block_size on every spatial axis. blocks_first: the block is
    before the channel in the depth; depth_first: after it."""

    kind: ClassVar[str] = "DepthToSpace"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    mode: str = "blocks_first"
    block_size: int = 1

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        if len(shape) < 3:
            raise ShapeError("the data has no spatial axes", got=data.type, expected="rank >= 3")
        blocks = self.block_size ** (len(shape) - 2)
        depth = _share(shape[1], blocks, "the depth must be a multiple of the block")
        sizes = (d * self.block_size for d in shape[2:])
        return (TensorType(dtype, (shape[0], depth, *sizes)),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        n, c, *sizes = data.shape
        k, b = len(sizes), self.block_size
        depth = c // b**k
        if self.mode.lower() == "blocks_first":
            split = data.reshape(n, *[b] * k, depth, *sizes)
            order = [0, 1 + k]
            for i in range(k):
                order += [2 + k + i, 1 + i]
        else:
            split = data.reshape(n, depth, *[b] * k, *sizes)
            order = [0, 1]
            for i in range(k):
                order += [2 + k + i, 2 + i]
        return (split.transpose(order).reshape(n, depth, *(d * b for d in sizes)),)


@dataclass(frozen=True)
class SpaceToDepth(Op):
    """The inverse of DepthToSpace."""

    kind: ClassVar[str] = "SpaceToDepth"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    mode: str = "blocks_first"
    block_size: int = 1

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        if len(shape) < 3:
            raise ShapeError("the data has no spatial axes", got=data.type, expected="rank >= 3")
        sizes = [_share(d, self.block_size, _WHOLE_BLOCKS) for d in shape[2:]]
        depth = shape[1] * self.block_size ** len(sizes)
        return (TensorType(dtype, (shape[0], depth, *sizes)),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        n, c, *sizes = data.shape
        k, b = len(sizes), self.block_size
        for d in sizes:  # without elements anything could be reshaped
            _share(d, b, _WHOLE_BLOCKS)
        small = [d // b for d in sizes]
        pairs = [x for d in small for x in (d, b)]
        split = data.reshape(n, c, *pairs)
        spatial, blocks = [2 + 2 * i for i in range(k)], [3 + 2 * i for i in range(k)]
        lead = [0, *blocks, 1] if self.mode.lower() == "blocks_first" else [0, 1, *blocks]
        return (split.transpose([*lead, *spatial]).reshape(n, c * b**k, *small),)


def _check_blocks(by: Sequence[Dim], first: Sequence[Dim], last: Sequence[Dim]) -> None:
    """ShapeError where the batch itself has a block or an edge, or an axis has no block."""
    what = "the batch has no block and no edges"
    pairs = [*((d, 1) for d in by[:1]), *((d, 0) for d in (*first[:1], *last[:1]))]
    if any(eq(d, n) is False for d, n in pairs):
        raise ShapeError(what, got=[str(d) for d, _ in pairs], expected="1, 0, 0")
    for d, n in pairs:
        require_equal(d, n, what)
    if any(isinstance(d, int) and d < 1 for d in by):
        raise ShapeError("a block is 1 or more", got=[str(d) for d in by])


def _check_lists(data: Fact, *lists: Fact) -> None:
    """ShapeError where blocks or edges are not one number per axis of the data."""
    shape = data.tensor.shape
    for fact in lists:
        own = fact.tensor.shape
        if own is not None and len(own) != 1:
            raise ShapeError("blocks and edges are lists", got=fact.type, expected="one axis")
        if own is not None and shape is not None:
            require_equal(own[0], len(shape), "blocks and edges have a number for each axis")


class BatchToSpace(Op):
    """Blocks of the batch to the other axes, then the edges cut off."""

    kind: ClassVar[str] = "BatchToSpace"
    version: ClassVar[int] = 2
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("data", "block_shape", "crops_begin", "crops_end"))
    )

    def infer(self, data: Fact, block: Fact, begin: Fact, end: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        _check_lists(data, block, begin, end)
        lists = [known_dims(f) for f in (block, begin, end)]
        _check_blocks(*(v or () for v in lists))
        if shape is None or any(v is None for v in lists):
            rank = None if shape is None else len(shape)
            return (TensorType(dtype, None if rank is None else unknown_shape(self, rank)),)
        by, first, last = (v for v in lists if v is not None)
        batch = _share(shape[0], product(by), "the batch must be a multiple of the blocks")
        sizes = [
            d * n - a - z for d, n, a, z in zip(shape[1:], by[1:], first[1:], last[1:], strict=True)
        ]
        return (TensorType(dtype, (batch, *sizes)),)

    def evaluate(self, data: Array, block: Array, begin: Array, end: Array) -> tuple[Array, ...]:
        by, first, last = (ints_of(a) for a in (block, begin, end))
        _check_blocks(by, first, last)
        by, first, last = by[1:], first[1:], last[1:]
        k, (n, *sizes) = len(by), data.shape
        split = data.reshape(*by, n // int(np.prod(by, dtype=np.int64)), *sizes)
        order = [k]
        for i in range(k):
            order += [k + 1 + i, i]
        grown = [d * b for d, b in zip(sizes, by, strict=True)]
        expanded = split.transpose(order).reshape(-1, *grown)
        cut = (slice(a, d - z) for a, z, d in zip(first, last, grown, strict=True))
        return (np.ascontiguousarray(expanded[(slice(None), *cut)]),)


class SpaceToBatch(Op):
    """The inverse of BatchToSpace: zeros added at the edges, then blocks to the batch."""

    kind: ClassVar[str] = "SpaceToBatch"
    version: ClassVar[int] = 2
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("data", "block_shape", "pads_begin", "pads_end"))
    )

    def infer(self, data: Fact, block: Fact, begin: Fact, end: Fact) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        _check_lists(data, block, begin, end)
        lists = [known_dims(f) for f in (block, begin, end)]
        _check_blocks(*(v or () for v in lists))
        if shape is None or any(v is None for v in lists):
            rank = None if shape is None else len(shape)
            return (TensorType(dtype, None if rank is None else unknown_shape(self, rank)),)
        by, first, last = (v for v in lists if v is not None)
        what = "a padded axis must be a multiple of its block"
        sizes = [
            _share(d + a + z, n, what)
            for d, n, a, z in zip(shape[1:], by[1:], first[1:], last[1:], strict=True)
        ]
        return (TensorType(dtype, (shape[0] * product(by), *sizes)),)

    def evaluate(self, data: Array, block: Array, begin: Array, end: Array) -> tuple[Array, ...]:
        by, first, last = (ints_of(a) for a in (block, begin, end))
        _check_blocks(by, first, last)
        full = np.pad(data, list(zip(first, last, strict=True)))
        n, *sizes = full.shape
        k = len(sizes)
        small = [d // b for d, b in zip(sizes, by[1:], strict=True)]
        split = full.reshape(n, *(x for d, b in zip(small, by[1:], strict=True) for x in (d, b)))
        order = [*(2 + 2 * i for i in range(k)), 0, *(1 + 2 * i for i in range(k))]
        return (split.transpose(order).reshape(-1, *small),)


@dataclass(frozen=True)
class ShuffleChannels(Op):
    """An axis as [group, rest], transposed."""

    kind: ClassVar[str] = "ShuffleChannels"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    axis: int = 1
    group: int = 1

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape = data.tensor.shape
        if shape is not None:
            at = normalize_axis(self.axis, len(shape))
            _share(shape[at], self.group, "channels must split into equal groups")
        return (data.tensor,)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        at = normalize_axis(self.axis, data.ndim)
        before, after = data.shape[:at], data.shape[at + 1 :]
        split = data.reshape(*before, self.group, -1, *after)
        return (split.swapaxes(at, at + 1).reshape(data.shape),)
