"""Chains of elements along one axis of operands: a worker's, one by one or a vector of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....plan.specs.base import Operand, Size
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel, share
from ...llvmir.values import Value
from ..emit.casts import memory_type
from ..emit.strided_loops import (
    RowCursor,
    RuntimeSizes,
    Space,
    base_pointer,
    coalesce,
    each_piece,
    emit_vectors,
)
from ..emit.tail_mask import TailMask

_TYPES = (DType.f32, DType.f64, DType.i32, DType.i64)
# Vectors of chains that are one task.
_VECTORS_PER_TASK = 16


def open_chains(
    dims: int, dtype: DType, writes: int, target: Target, symbol: str
) -> tuple[Module, OpenKernel]:
    """A kernel of one operand that is read. UnsupportedOperationError for types without order."""
    if dtype not in _TYPES:
        raise UnsupportedOperationError("elements of this type have no order", got=dtype)
    module = Module(target)
    return module, open_kernel(module, symbol, [READ, *[WRITE] * writes], dims)


@contextmanager
def each_chain(
    k: OpenKernel, sizes: RuntimeSizes, axes: Sequence[Size], operands: Sequence[Operand]
) -> Iterator[Sequence[Value]]:
    """The operands' addresses at the beginning of each of this worker's chains."""
    f, space = k.function, _coalesce_chains(axes, operands)
    rows = _open_cursor(k, sizes, space, operands)
    lo, hi = share(f, sizes.product(axes), k.worker, k.workers)
    with f.if_(f.icmp("slt", lo, hi)):
        rows.seek(lo)
        with f.range(lo, hi, unroll=1):
            yield rows.pointers()
            rows.advance()


def are_side_by_side(axes: Sequence[Size], operands: Sequence[Operand], lanes: int) -> bool:
    """Whether the elements of half a vector of chains or more are neighbours in each operand."""
    space = _coalesce_chains(axes, operands)
    if not space.axes or any(strides[-1] != 1 for strides in space.strides):
        return False
    return not isinstance(space.axes[-1], int) or 2 * space.axes[-1] >= lanes


def each_vector_of_chains(
    k: OpenKernel,
    sizes: RuntimeSizes,
    axes: Sequence[Size],
    operands: Sequence[Operand],
    lanes: int,
) -> Iterator[tuple[Sequence[Value], TailMask | None]]:
    """Write the loop's body for whole vectors of this worker's chains that `are_side_by_side`, and
    again for the rest: the operands' addresses at the beginning of the first chain."""
    f, space = k.function, _coalesce_chains(axes, operands)
    before = Space(space.axes[:-1], tuple(strides[:-1] for strides in space.strides))
    rows = _open_cursor(k, sizes, before, operands)
    chains, block = sizes.value(space.axes[-1]), _VECTORS_PER_TASK * lanes
    types = [memory_type(o.dtype) for o in operands]
    blocks = f.ceil_div(chains, block)
    lo, hi = share(f, f.mul(sizes.product(before.axes), blocks), k.worker, k.workers)
    with f.if_(f.icmp("slt", lo, hi)), each_piece(f, rows, lo, hi, blocks) as number:
        first = f.mul(number, block)
        begins = [f.at(p, first, t) for p, t in zip(rows.pointers(), types, strict=True)]
        count = f.smin(f.sub(chains, first), block)
        for i, (tail,) in emit_vectors(f, count, lanes, 1):
            yield [f.at(p, i, t) for p, t in zip(begins, types, strict=True)], tail


def _coalesce_chains(axes: Sequence[Size], operands: Sequence[Operand]) -> Space:
    return coalesce(axes, [o.strides[:-1] for o in operands])


def _open_cursor(
    k: OpenKernel, sizes: RuntimeSizes, space: Space, operands: Sequence[Operand]
) -> RowCursor:
    f = k.function
    pointers = [base_pointer(f, sizes, b, o) for b, o in zip(k.buffers, operands, strict=True)]
    return RowCursor(f, sizes, space.axes, pointers, [o.dtype for o in operands], space.strides)
