"""Elements picked (or put) by indices along several axes at once, each index checked.

Bits are copied, whatever the type. Where no index changes along the innermost axis, whole rows are
copied or joined in vectors. What is put goes in order, so that the last of equal indices stays:
each worker puts its columns of all rows, or one worker all, where indices change along rows.
"""

from __future__ import annotations

from collections.abc import Callable

from ....plan.specs.base import GATHER_OUT_OF_RANGE
from ....plan.specs.gather_scatter import GatherScatterSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.values import I1, I64, Value, integer, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import (
    RowCursor,
    RuntimeSizes,
    base_pointer,
    coalesce,
    masked_load,
    masked_store,
)
from ..emit.tail_mask import tail_mask


def generate(spec: GatherScatterSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a pick spec. UnsupportedOperationError for types without one."""
    module = Module(target)
    memory_type(spec.data.dtype)  # refuses types that are not whole bytes
    operands = spec.operands()
    k = open_kernel(module, symbol, [READ] * (len(operands) - 1) + [WRITE], spec.runtime_dims)
    if 0 not in spec.axes:
        _Pick(spec, k).run(k.worker, k.workers)
    k.function.ret(0)
    return Kernel(symbol, module.text())


class _Pick:
    def __init__(self, spec: GatherScatterSpec, k: Entry) -> None:
        self.spec, self.f, self.scratch = spec, k.function, k.scratch
        f = self.f
        sizes = self.sizes = RuntimeSizes(f, k.dims)
        operands, depth = spec.operands(), len(spec.axes)
        space = coalesce(spec.axes, [o.strides[:depth] for o in operands])
        self.outer = space.axes[:-1]
        self.inner = sizes.value(space.axes[-1]) if space.axes else integer(1)
        self.steps = [s[-1] if s else 0 for s in space.strides]
        pointers = [base_pointer(f, sizes, b, o) for b, o in zip(k.buffers, operands, strict=True)]
        self.rows = RowCursor(
            f,
            sizes,
            self.outer,
            pointers,
            [o.dtype for o in operands],
            [s[:-1] for s in space.strides],
        )
        moving = spec.out if spec.is_scatter else spec.data
        self.index_strides = [sizes.value(s) for s in moving.strides[depth:]]
        self.limits = [sizes.value(s) for s in spec.indexed_sizes]
        self.element = f"i{max(8, spec.data.dtype.bits)}"
        self.lanes = f.target.lanes(max(8, spec.data.dtype.bits))
        # Whether each element along the innermost axis has indices of its own.
        self.indices_move = any(step != 0 for step in self.steps[1:-1])
        self.columns = integer(0), self.inner

    def run(self, worker: Value, workers: Value) -> None:
        f = self.f
        count = self.sizes.product(self.outer)
        lo, hi = share(f, count, worker, workers)
        if self.spec.is_scatter and self.indices_move:
            first = f.icmp("eq", worker, 0)
            lo, hi = integer(0), f.select(first, count, integer(0))
        elif self.spec.is_scatter:
            first, end = share(f, f.ceil_div(self.inner, self.lanes), worker, workers)
            end = f.smin(f.mul(end, self.lanes), self.inner)
            self.columns = f.mul(first, self.lanes), end
            lo, hi = integer(0), f.select(f.icmp("slt", self.columns[0], end), count, integer(0))
        with f.if_(f.icmp("slt", lo, hi)):
            self.rows.seek(lo)
            with f.range(lo, hi, unroll=1) as row:
                self.row(row)
                self.rows.advance()

    def row(self, row: Value) -> None:
        """The elements along the innermost axis."""
        f, inner = self.f, self.inner
        data, *indices, out = self.rows.pointers()
        number = f.mul(row, inner)
        if self.indices_move:
            with f.range(0, inner, unroll=1) as i:
                offset, bad = self.compute_offset(indices, i)
                self.move(data, out, offset, bad, i, f.add(i, 1), f.add(number, i))
            return
        with f.if_(f.icmp("sgt", inner, 0)):
            offset, bad = self.compute_offset(indices, integer(0))
            self.move(data, out, offset, bad, *self.columns, number)

    def compute_offset(self, indices: list[Value], i: Value) -> tuple[Value, Value]:
        """How far the picked element is, in elements, and whether an index is out of range."""
        f = self.f
        offset, wrong = integer(0), integer(0, I1)
        for n, pointer in enumerate(indices):
            dtype, limit = self.spec.indices[n].dtype, self.limits[n]
            type_ = memory_type(dtype)
            at = f.at(pointer, f.mul(i, self.sizes.value(self.steps[1 + n])), type_)
            picked = f.cast(f.load(type_, at), I64, signed_=dtype.is_signed)
            if dtype.is_signed:
                picked = f.select(f.icmp("slt", picked, 0), f.add(picked, limit), picked)
            wrong = f.or_(wrong, f.icmp("uge", picked, limit))
            offset = f.add(offset, f.mul(picked, self.index_strides[n]))
        return offset, wrong

    def move(
        self, data: Value, out: Value, offset: Value, bad: Value, lo: Value, hi: Value, at: Value
    ) -> None:
        """Elements lo..hi of the row, `offset` further on in what is picked from or put into."""
        f, spec = self.f, self.spec
        if spec.out_of_range == "error":
            with f.if_(bad):
                f.store(at, self.scratch)
                f.ret(GATHER_OUT_OF_RANGE)
            source = data if spec.is_scatter else f.at(data, offset, self.element)
            self.copy(source, f.at(out, offset, self.element) if spec.is_scatter else out, lo, hi)
            return
        with f.if_(bad) as branch:
            step = self.sizes.value(self.steps[-1])
            with f.range(lo, hi, unroll=1) as i:
                f.store(integer(0, self.element), f.at(out, f.mul(i, step), self.element))
            branch.else_()
            self.copy(f.at(data, offset, self.element), out, lo, hi)

    def copy(self, source: Value, to: Value, lo: Value, hi: Value) -> None:
        f, element, lanes = self.f, self.element, self.lanes
        steps = (self.steps[0], self.steps[-1])
        if steps != (1, 1) or self.indices_move:
            read, write = (self.sizes.value(s) for s in steps)
            with f.range(lo, hi, unroll=1) as i:
                target = f.at(to, f.mul(i, write), element)
                value = f.load(self.put_type, f.at(source, f.mul(i, read), element))
                f.store(self.join(value, lambda: f.load(value.type, target)), target)
            return
        type_ = vec(self.put_type, lanes)
        vector_end = f.add(lo, f.mul(f.udiv(f.sub(hi, lo), lanes), lanes))
        with f.range(lo, vector_end, lanes, unroll=1) as i:
            target = f.at(to, i, element)
            value = f.load(type_, f.at(source, i, element))
            f.store(self.join(value, lambda: f.load(type_, target)), target)
        if lanes > 1:
            with f.if_(f.icmp("slt", vector_end, hi)):
                tail = tail_mask(f, lanes, f.sub(hi, vector_end))
                target = f.at(to, vector_end, element)
                value = masked_load(f, type_, f.at(source, vector_end, element), tail)
                value = self.join(value, lambda: masked_load(f, type_, target, tail))
                masked_store(f, value, target, tail)

    @property
    def put_type(self) -> str:
        """The type of an element that is copied, or joined."""
        return memory_type(self.spec.data.dtype) if self.spec.combine else self.element

    def join(self, value: Value, load: Callable[[], Value]) -> Value:
        """What is put, joined with what is there if so wished."""
        f, combine, is_float = self.f, self.spec.combine, self.spec.data.dtype.is_float
        if not combine:
            return value
        operation = {
            "sum": f.fadd if is_float else f.add,
            "prod": f.fmul if is_float else f.mul,
            "min": f.minimum if is_float else f.smin,
            "max": f.maximum if is_float else f.smax,
        }[combine]
        return operation(load(), value)
