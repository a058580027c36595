"""Running sums, and the best elements along an axis: one chain after the other, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....plan.specs.base import Operand, Size
from ....plan.specs.scan_topk import ScanSpec, TopKSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.kernel_entry import OpenKernel as Open
from ...llvmir.values import I1, I64, Value, integer
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import RowCursor, RuntimeSizes, base_pointer, coalesce

_TYPES = (DType.f32, DType.f64, DType.i32, DType.i64)


def scan(spec: ScanSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a scan spec. UnsupportedOperationError for types without one."""
    module, k = _open_kernel(spec.runtime_dims, spec.data.dtype, 1, target, symbol)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    dtype, size = spec.data.dtype, sizes.value(spec.size)
    type_ = memory_type(dtype)
    wide = memory_type(DType.f64) if dtype.is_float else type_
    join = _combiner(f, dtype.is_float, spec.product)
    with _chains(k, sizes, spec.axes, spec.operands()) as (data, out):
        total = f.var(wide)
        total.set(int(spec.product))
        with f.range(0, size, unroll=1) as i:
            at = f.sub(f.sub(size, 1), i) if spec.reverse else i
            read = f.at(data, f.mul(at, sizes.value(spec.data.strides[-1])), type_)
            write = f.at(out, f.mul(at, sizes.value(spec.out.strides[-1])), type_)
            before = total.get()
            total.set(join(before, f.cast(f.load(type_, read), wide)))
            f.store(f.cast(before if spec.exclusive else total.get(), type_), write)
    f.ret(0)
    return Kernel(symbol, module.text())


def _combiner(f: Function, is_float: bool, product: bool) -> Callable[[Value, Value], Value]:
    if is_float:
        return f.fmul if product else f.fadd
    return f.mul if product else f.add


def rank(spec: TopKSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a rank spec. UnsupportedOperationError for types without one.

    The best so far are in the results, in order; an element that is better than the last of
    them moves the worse ones on.
    """
    module, k = _open_kernel(spec.runtime_dims, spec.data.dtype, 2, target, symbol)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    size, count = sizes.value(spec.size), sizes.value(spec.count)
    type_, index_type = memory_type(spec.data.dtype), memory_type(spec.indices.dtype)
    step = sizes.value(spec.data.strides[-1])
    with _chains(k, sizes, spec.axes, spec.operands()) as (data, values, indices):

        def value_at(i: Value) -> Value:
            return f.at(values, f.mul(i, sizes.value(spec.values.strides[-1])), type_)

        def index_at(i: Value) -> Value:
            return f.at(indices, f.mul(i, sizes.value(spec.indices.strides[-1])), index_type)

        def insert(x: Value, index: Value, end: Value, better: Callable[[Value], Value]) -> None:
            """Put x before the worse ones of the first `end`."""
            at = f.var(I64, end)
            go = f.var(I1)
            go.set(f.icmp("sgt", end, 0))
            with f.while_(go.get):
                before = f.sub(at.get(), 1)
                moves = better(before)
                with f.if_(moves) as branch:
                    f.store(f.load(type_, value_at(before)), value_at(at.get()))
                    f.store(f.load(index_type, index_at(before)), index_at(at.get()))
                    at.set(before)
                    go.set(f.icmp("sgt", before, 0))
                    branch.else_()
                    go.set(integer(0, I1))
            f.store(x, value_at(at.get()))
            f.store(index, index_at(at.get()))

        with f.if_(f.icmp("sgt", count, 0)):
            last = f.sub(count, 1)
            with f.range(0, size, unroll=1) as i:
                x = f.load(type_, f.at(data, f.mul(i, step), type_))
                full = f.icmp("sge", i, count)
                worst = f.load(type_, value_at(f.select(full, last, integer(0))))
                beaten = _is_better(f, x, worst, spec)
                with f.if_(f.or_(f.xor(full, integer(1, I1)), beaten)):
                    end = f.select(full, last, i)
                    insert(
                        x,
                        f.cast(i, index_type),
                        end,
                        lambda n, x=x: _is_better(f, x, f.load(type_, value_at(n)), spec),
                    )
            if spec.by_index:
                with f.range(1, f.smin(count, size), unroll=1) as i:
                    x, index = f.load(type_, value_at(i)), f.load(index_type, index_at(i))
                    insert(
                        x,
                        index,
                        i,
                        lambda n, index=index: f.icmp(
                            "slt", index, f.load(index_type, index_at(n))
                        ),
                    )
    f.ret(0)
    return Kernel(symbol, module.text())


def _is_better(f: Function, x: Value, than: Value, spec: TopKSpec) -> Value:
    if not spec.data.dtype.is_float:
        return f.icmp("sgt" if spec.largest else "slt", x, than)
    more = f.fcmp("ogt" if spec.largest else "olt", x, than)
    high, low = (x, than) if spec.largest else (than, x)
    return f.or_(more, f.and_(f.fcmp("uno", high, high), f.fcmp("ord", low, low)))


def _open_kernel(
    dims: int, dtype: DType, writes: int, target: Target, symbol: str
) -> tuple[Module, Open]:
    if dtype not in _TYPES:
        raise UnsupportedOperationError("elements of this type have no order", got=dtype)
    module = Module(target)
    return module, open_kernel(module, symbol, [READ, *[WRITE] * writes], dims)


@contextmanager
def _chains(
    k: Open, sizes: RuntimeSizes, axes: tuple[Size, ...], operands: tuple[Operand, ...]
) -> Iterator[list[Value]]:
    """The operands' addresses at the beginning of each of this worker's chains."""
    f = k.function
    space = coalesce(axes, [o.strides[:-1] for o in operands])
    pointers = [base_pointer(f, sizes, b, o) for b, o in zip(k.buffers, operands, strict=True)]
    rows = RowCursor(f, sizes, space.axes, pointers, [o.dtype for o in operands], space.strides)
    lo, hi = share(f, sizes.product(axes), k.worker, k.workers)
    with f.if_(f.icmp("slt", lo, hi)):
        rows.seek(lo)
        with f.range(lo, hi, unroll=1):
            yield rows.pointers()
            rows.advance()
