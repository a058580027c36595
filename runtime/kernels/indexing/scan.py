"""Running sums and products along an axis: chain after chain, or a vector of chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.dtype import DType
from ....plan.specs.scan_topk import ScanSpec
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import Value, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import RuntimeSizes, masked_load, masked_store
from ..emit.tail_mask import TailMask
from .chains import are_side_by_side, each_chain, each_vector_of_chains, open_chains


def scan(spec: ScanSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a scan spec. UnsupportedOperationError for types without one."""
    module, k = open_chains(spec.runtime_dims, spec.data.dtype, 1, target, symbol)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    lanes = target.lanes(64 if spec.data.dtype.is_float else spec.data.dtype.bits)
    if are_side_by_side(spec.axes, spec.operands(), lanes):
        walk = each_vector_of_chains(k, sizes, spec.axes, spec.operands(), lanes)
        for pointers, tail in walk:
            _scan_chains(spec, f, sizes, pointers, lanes, tail)
    else:
        with each_chain(k, sizes, spec.axes, spec.operands()) as pointers:
            _scan_chains(spec, f, sizes, pointers, 1, None)
    f.ret(0)
    return Kernel(symbol, module.text())


def _scan_chains(
    spec: ScanSpec,
    f: Function,
    sizes: RuntimeSizes,
    pointers: Sequence[Value],
    lanes: int,
    tail: TailMask | None,
) -> None:
    """The sums of `lanes` chains that begin at the operands' addresses."""
    dtype, size, (data, out) = spec.data.dtype, sizes.value(spec.size), pointers
    element = memory_type(dtype)
    wide = memory_type(DType.f64) if dtype.is_float else element
    join = _combiner(f, dtype.is_float, spec.product)
    total = f.var(vec(wide, lanes), f.splat(int(spec.product), lanes, wide))
    with f.range(0, size, unroll=1) as i:
        at = f.sub(f.sub(size, 1), i) if spec.reverse else i
        read = f.at(data, f.mul(at, sizes.value(spec.data.strides[-1])), element)
        write = f.at(out, f.mul(at, sizes.value(spec.out.strides[-1])), element)
        before = total.get()
        x = masked_load(f, vec(element, lanes), read, tail)
        total.set(join(before, f.cast(x, wide)))
        found = before if spec.exclusive else total.get()
        masked_store(f, f.cast(found, element), write, tail)


def _combiner(f: Function, is_float: bool, product: bool) -> Callable[[Value, Value], Value]:
    if is_float:
        return f.fmul if product else f.fadd
    return f.mul if product else f.add
