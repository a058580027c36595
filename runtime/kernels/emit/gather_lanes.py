"""Lanes that lie a step apart in memory: by the machine's own instructions where it has them.

Where it has none, LLVM would write out every lane with a branch of its own, tens of times in a
register tile; a loop over the lanes takes about as long and a tenth of the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import (
    I32,
    I64,
    PTR,
    Value,
    bits_of,
    bytes_of,
    constants,
    element_of,
    integer,
    suffix,
    vec,
)

if TYPE_CHECKING:
    from .tail_mask import TailMask


def gathers(f: Function, element: str) -> bool:
    """Whether an instruction gathers elements of a type."""
    return f.target.isa in ("avx512", "avx2") and bits_of(element) >= 32


def scatters(target: Target, bits: int) -> bool:
    """Whether an instruction scatters elements of that many bits."""
    return target.isa == "avx512" and bits >= 32


def gather(
    f: Function, element: str, lanes: int, address: Value, step: Value, tail: TailMask | None
) -> Value:
    """Lanes at address + lane * step elements; lanes outside `tail` are not read and are zero."""
    bits, kind = f"i{bits_of(element)}", vec(element, lanes)
    if lanes == 1:
        return f.bitcast(f.load(bits, address), kind)
    if gathers(f, element):
        return _gather_pointers(f, kind, _addresses(f, element, lanes, address, step), tail)
    packed = vec(bits, lanes)
    buffer = f.stack(bytes_of(packed))
    if tail is not None:
        f.store(f.as_value(0, packed), buffer)
    with f.range(0, lanes if tail is None else tail.count, unroll=1) as lane:
        one = f.load(bits, f.at(address, f.mul(lane, step), bits))
        f.store(one, f.at(buffer, lane, bits))
    return f.bitcast(f.load(packed, buffer), kind)


def gather_at(
    f: Function, element: str, address: Value, positions: Value, tail: TailMask | None
) -> Value:
    """Elements at these positions (integers of 32 or 64 bits), of a type that an instruction
    `gathers` or of one lane; lanes outside `tail` are not read and are zero."""
    lanes = positions.lanes
    if lanes == 1:
        return f.load(element, f.at(address, f.cast(positions, I64), element))
    pointers = f.op(vec(PTR, lanes), f"getelementptr {element}, {address}, {positions}")
    return _gather_pointers(f, vec(element, lanes), pointers, tail)


def _gather_pointers(f: Function, kind: str, pointers: Value, tail: TailMask | None) -> Value:
    name = f"llvm.masked.gather.{suffix(kind)}.v{pointers.lanes}p0"
    align = integer(bits_of(element_of(kind)) // 8, I32)
    mask = _mask(f, pointers.lanes, tail)
    return f.call(name, kind, pointers, align, mask, f.as_value(0, kind))


def scatter(f: Function, value: Value, address: Value, step: Value, tail: TailMask | None) -> None:
    """Store lanes at address + lane * step elements; lanes outside `tail` write nothing."""
    size, lanes = bits_of(value.type), value.lanes
    bits = f"i{size}"
    if lanes == 1:
        f.store(value, address)
        return
    if scatters(f.target, size):
        name = f"llvm.masked.scatter.{suffix(value.type)}.v{lanes}p0"
        pointers = _addresses(f, value.element, lanes, address, step)
        align = integer(size // 8, I32)
        f.call(name, "void", value, pointers, align, _mask(f, lanes, tail))
        return
    buffer = f.stack(bytes_of(value.type))
    f.store(f.bitcast(value, vec(bits, lanes)), buffer)
    with f.range(0, lanes if tail is None else tail.count, unroll=1) as lane:
        one = f.load(bits, f.at(buffer, lane, bits))
        f.store(one, f.at(address, f.mul(lane, step), bits))


def _mask(f: Function, lanes: int, tail: TailMask | None) -> Value:
    return f.mask(lanes, lanes) if tail is None else tail.mask


def _addresses(f: Function, element: str, lanes: int, address: Value, step: Value) -> Value:
    """A vector of pointers: address + lane * step elements."""
    if step.known is None:
        index = f.mul(f.iota(lanes, I64), f.splat(step, lanes))
    else:
        index = constants([lane * step.known for lane in range(lanes)], I64)
    return f.op(vec(PTR, lanes), f"getelementptr {element}, {address}, {index}")
