"""Copies of rows of bytes (row_packing.py) as a function in assembly of AVX-512: two spatial axes
of known sizes, pixels and channels that follow one another, whole vectors of channels."""

from __future__ import annotations

from ....llvmir.builder import AssemblyFunction
from ....llvmir.values import I8, I64
from ...emit.x86_tile import argument, low_half
from ..addressing import ConvContext
from ..row_packing import RowCopies

_VECTOR_BYTES = 64
# Numbers of instructions are of 32 bits, signed.
_MAX_NUMBER = 2**31 - 1
_FRAME, _DATA, _TO, _, _Y, _X = (argument(i) for i in range(6))
_AT, _LEFT, _MIDDLE, _RIGHT, _END = "%rax", "%r9", "%r10", "%r11", "%rcx"
_NOTHING, _VALUE, _FLIP = "%zmm0", "%zmm1", "%zmm2"


def copy_function(g: ConvContext, rows: RowCopies) -> AssemblyFunction | None:
    """copy_rows(frame, data, to, z, y, x) of row_packing.py; None for copies that need LLVM."""
    spec, channels = g.spec, g.spec.channels
    numbers = [*spec.in_sizes, *spec.data.strides[2:]]
    known = [n for n in numbers if isinstance(n, int)]
    if g.record is not None or len(known) != len(numbers) or not g.target.has("avx512bw"):
        return None
    deep, high, wide, _, row, column = known
    bytes_ = rows.value_type == I8 and rows.layout == "run" and rows.lanes == _VECTOR_BYTES
    flat = deep == spec.window.kernel[0] == rows.depth == 1 and spec.window.pads[0] == 0
    if not (bytes_ and flat) or rows.tails or channels % _VECTOR_BYTES:
        return None
    furthest = max(abs(row * rows.step), rows.pitch, wide, high)
    if max(furthest, rows.width * max(channels, abs(column))) > _MAX_NUMBER:
        return None
    lines = [*_write_nothing(g), *_write_pieces(rows.width, wide, channels, column)]
    lines += [
        f"imulq ${row}, {_Y}, {_END}",
        f"addq {_END}, {_DATA}",
        f"subq ${rows.pitch}, {_RIGHT}",
    ]
    lines += [f"negq {_RIGHT}", f"movl ${rows.height}, %edi"]
    lines += ["5:", f"movq {_TO}, {_END}", f"cmpq ${high}, {_Y}", "jae 8f"]
    lines += [*_write_fill(_LEFT), f"addq {_LEFT}, {_END}", "xorl %eax, %eax", "jmp 2f"]
    lines += ["1:", f"vmovdqu64 ({_DATA},{_AT}), {_VALUE}"]
    lines += [f"vpxord {_FLIP}, {_VALUE}, {_VALUE}"] * bool(g.shift)
    lines += [f"vmovdqu64 {_VALUE}, ({_END},{_AT})", f"addq ${_VECTOR_BYTES}, {_AT}"]
    lines += ["2:", f"cmpq {_MIDDLE}, {_AT}", "jl 1b", f"addq {_MIDDLE}, {_END}"]
    lines += [*_write_fill(_RIGHT), "jmp 9f", "8:", *_write_fill(f"${rows.pitch}"), "9:"]
    lines += [f"addq ${rows.step * row}, {_DATA}", f"addq ${rows.step}, {_Y}"]
    lines += [f"addq ${rows.pitch}, {_TO}", "decl %edi", "jne 5b", "vzeroupper", "retq"]
    params = [("ptr noalias", "frame"), ("ptr noalias readonly", "data"), ("ptr noalias", "to")]
    return g.module.assembly_function("copy_rows", params + [(I64, n) for n in "zyx"], lines)


def _write_nothing(g: ConvContext) -> list[str]:
    """Put what is outside the image, and what flips the sign of bytes, into registers."""
    flip = [f"movl ${g.shift}, %eax", f"vpbroadcastb %eax, {_FLIP}"]
    if not g.zeros:
        return [*flip, f"vmovdqa64 {_FLIP}, {_NOTHING}"]
    at = 8 * len(g.walked_operands)
    load = [f"movq {at}({_FRAME}), {_AT}", f"vpbroadcastb ({_AT}), {_NOTHING}"]
    return [*flip, *load, f"vpxord {_FLIP}, {_NOTHING}, {_NOTHING}"]


def _write_pieces(width: int, wide: int, channels: int, column: int) -> list[str]:
    """Bytes of a row's pieces left of the image, inside and up to its right end, and the address of
    the first byte that is read, but for its row."""
    left, right = _MIDDLE, _RIGHT
    return [
        *("xorl %eax, %eax", f"movq {_X}, {left}", f"negq {left}", f"cmovsq {_AT}, {left}"),
        *(f"movl ${width}, %eax", f"cmpq {_AT}, {left}", f"cmovgq {_AT}, {left}"),
        *(f"movl ${wide}, {low_half(right)}", f"subq {_X}, {right}"),
        *(f"cmpq {left}, {right}", f"cmovlq {left}, {right}"),
        *(f"cmpq {_AT}, {right}", f"cmovgq {_AT}, {right}"),
        *(f"addq {left}, {_X}", f"imulq ${column}, {_X}, {_X}", f"addq {_X}, {_DATA}"),
        *(f"imulq ${channels}, {left}, {_LEFT}", f"imulq ${channels}, {right}, {right}"),
        *(f"movq {right}, {_MIDDLE}", f"subq {_LEFT}, {_MIDDLE}"),
    ]


def _write_fill(count: str) -> list[str]:
    """Fill so many bytes from _END on, and up to a vector more."""
    return [
        *("xorl %eax, %eax", "jmp 4f", "3:", f"vmovdqu64 {_NOTHING}, ({_END},{_AT})"),
        *(f"addq ${_VECTOR_BYTES}, {_AT}", "4:", f"cmpq {count}, {_AT}", "jl 3b"),
    ]
