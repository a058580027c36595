"""Rows quantized to codes with their scales, and dequantized
(ir/row_codes.py says how)."""

from __future__ import annotations

from ....ir.row_codes import RowCodes
from ....plan.specs.row_codes import RowCodesSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.values import F16, F32, I8, I32, Value, vec
from ..emit.contract import Kernel
from ..emit.row_codes import CodeReader
from ..emit.strided_loops import RowCursor, RuntimeSizes, base_pointer, coalesce

# Values that are worked on at a time; they divide every row and group.
_LANES = 16
# 1.5 x 2^23: a number of a smaller magnitude that is added to it is rounded to an integer.
_ROUNDS = 1.5 * 2.0**23
_ROUNDS_BITS = 0x4B400000


def generate(spec: RowCodesSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of rows of codes."""
    module = Module(target)
    k = open_kernel(module, symbol, [READ, WRITE], spec.runtime_dims)
    f, sizes, operands = k.function, RuntimeSizes(k.function, k.dims), spec.operands()
    pointers = [base_pointer(f, sizes, b, o) for b, o in zip(k.buffers, operands, strict=True)]
    space = coalesce(spec.axes, [o.strides[:-1] for o in operands])
    rows = RowCursor(f, sizes, space.axes, pointers, [o.dtype for o in operands], space.strides)
    lo, hi = share(f, sizes.product(spec.axes), k.worker, k.workers)
    with f.if_(f.icmp("slt", lo, hi)):
        rows.seek(lo)
        with f.range(lo, hi, unroll=1):
            source, out = rows.pointers()
            if spec.dequantize:
                _dequantize_row(f, spec.layout, source, out)
            else:
                _quantize_row(f, spec.layout, source, out)
            rows.advance()
    f.ret(0)
    return Kernel(symbol, module.text())


def _dequantize_row(f: Function, layout: RowCodes, source: Value, out: Value) -> None:
    reader = CodeReader(f, layout, _LANES)
    pairs = reader.load_pairs(source)
    for start in range(0, layout.size, _LANES):
        f.store(reader.load(source, start, pairs), f.at(out, start, F32))


def _quantize_row(f: Function, layout: RowCodes, source: Value, out: Value) -> None:
    codes: list[Value] = []
    for group in range(layout.groups):
        starts = range(group * layout.group, (group + 1) * layout.group, _LANES)
        codes += _quantize_group(f, layout, source, starts, out, group)
    if layout.bits == 4:
        half = len(codes) // 2
        codes = [f.or_(a, f.shl(b, 4)) for a, b in zip(codes[:half], codes[half:], strict=True)]
    for n, x in enumerate(codes):
        f.store(f.cast(x, I8), f.offset(out, n * _LANES), 1)


def _quantize_group(
    f: Function, layout: RowCodes, source: Value, starts: range, out: Value, group: int
) -> list[Value]:
    """The codes of a group's vectors, as i32; its scale and minimum are stored."""
    kind = vec(F32, _LANES)

    def load(start: int) -> Value:
        return f.load(kind, f.at(source, start, F32))

    first = load(starts[0])
    low, high, broken = first, first, f.fmul(first, 0.0)
    for start in starts[1:]:
        x = load(start)
        low, high = f.min_or(x, low), f.max_or(x, high)
        broken = f.fadd(broken, f.fmul(x, 0.0))
    # NaN where a value is NaN or infinite, otherwise zero, which changes nothing but its sign.
    spoiled = f.fcmp("uno", f.reduce("fadd", broken), 0.0)
    least, most = f.reduce("min_or", low), f.reduce("max_or", high)
    levels = float((1 << layout.bits) - 1)
    both = (f.fdiv(f.fsub(most, least), levels), least)
    pair = [f.cast(f.select(spoiled, float("nan"), x), F16) for x in both]
    at = f.offset(out, layout.code_bytes + 4 * group)
    for n, x in enumerate(pair):
        f.store(x, f.offset(at, 2 * n), 1)
    scale, minimum = (f.cast(x, F32) for x in pair)
    inverse = f.fdiv(1.0, scale)
    finite = f.fcmp("olt", f.fabs(inverse), float("inf"))
    factor = f.splat(f.select(finite, inverse, 0.0), _LANES)
    base, found = f.splat(minimum, _LANES), list[Value]()
    for start in starts:
        steps = f.fmul(f.fsub(load(start), base), factor)
        steps = f.min_or(f.max_or(steps, 0.0), levels)
        bits = f.bitcast(f.fadd(steps, _ROUNDS), vec(I32, _LANES))
        found.append(f.sub(bits, _ROUNDS_BITS))
    return found
