"""The test of winograd_guard.py as a function in assembly of AVX-512."""

from __future__ import annotations

from ....llvmir.builder import AssemblyFunction, Module
from ....llvmir.values import F32, I32, I64
from ...emit.x86_epilogue import STORE
from ...emit.x86_tile import TileLayout, TileWriter, argument
from ..winograd_guard import MAX_RATIO, MAX_VALUE
from ..winograd_tiles import WinogradSchedule

_VECTOR_BYTES = 64
_LARGEST_INTEGER = "$$0x7fffffff"


def write_extreme_function(module: Module, plan: WinogradSchedule) -> AssemblyFunction:
    """extreme(maxima, height, width) of winograd_guard.py, operation by operation; 0 or 1."""
    pairs = plan.side // 2
    maxima, rows, columns = (argument(i) for i in range(3))
    high, low = "%zmm0", "%zmm1"
    w = TileWriter(TileLayout(F32, plan.lanes, 0, STORE, ()))
    w.add(f"movl $${pairs}, %eax")
    for count in (rows, columns):
        w.add(f"shrq $$1, {count}", f"incq {count}", f"cmpq %rax, {count}", f"cmova %rax, {count}")
    for j in range(pairs):  # masks of the columns that count
        w.add(f"movl $${j}, %eax", f"cmpq {columns}, %rax", "sbbl %eax, %eax")
        w.add(f"kmovw %eax, %k{j + 1}")
    squares = [f"{n * _VECTOR_BYTES}({maxima})" for n in range(pairs * pairs)]
    w.add(f"vmovdqa32 {squares[0]}, {high}")
    w.add(*(f"vpmaxsd {square}, {high}, {high}" for square in squares[1:]))
    w.add(f"movl {_LARGEST_INTEGER}, %eax", f"vpbroadcastd %eax, {low}")
    for i in range(pairs):
        w.add(*[f"cmpq $${i}, {rows}", "jbe 1f"] * (i > 0))
        row = enumerate(squares[i * pairs : (i + 1) * pairs])
        w.add(*(f"vpminsd {square}, {low}, {low}{{%k{j + 1}}}" for j, square in row))
    w.add("1:", *_maximum_lines(0, 2), *_maximum_lines(1, 2), *_compare_lines(w), "jb 2f")
    w.add("xorl %eax, %eax", "vzeroupper", "retq")
    # The largest of the lanes' minima is at most the smallest maximum, which is found here.
    w.add("2:", f"movl {_LARGEST_INTEGER}, %eax", "vmovd %eax, %xmm1")
    w.add("3:", f"movq {maxima}, %r8", f"movq {columns}, %r9")
    w.add("4:", "vmovdqa32 (%r8), %zmm2", *_maximum_lines(2, 3), "vpminsd %xmm2, %xmm1, %xmm1")
    w.add(f"addq $${_VECTOR_BYTES}, %r8", "decq %r9", "jne 4b")
    w.add(f"addq $${pairs * _VECTOR_BYTES}, {maxima}", f"decq {rows}", "jne 3b")
    w.add(*_compare_lines(w), "setb %al", "movzbl %al, %eax", "vzeroupper", "retq")
    params = [("ptr noalias readonly", "maxima"), (I64, "height"), (I64, "width")]
    return module.assembly_function("extreme", params, w.text(), I32)


def _maximum_lines(register: int, other: int) -> list[str]:
    """The largest lane of a register, into its first one."""
    x, y = f"%xmm{register}", f"%xmm{other}"
    return [
        f"vextracti64x4 $$1, %zmm{register}, %ymm{other}",
        f"vpmaxsd %ymm{other}, %ymm{register}, %ymm{register}",
        f"vextracti128 $$1, %ymm{register}, {y}",
        f"vpmaxsd {y}, {x}, {x}",
        f"vpshufd $$0x4e, {x}, {y}",
        f"vpmaxsd {y}, {x}, {x}",
        f"vpshufd $$0xb1, {x}, {y}",
        f"vpmaxsd {y}, {x}, {x}",
    ]


def _compare_lines(w: TileWriter) -> list[str]:
    """Set the carry where the largest value, in %xmm0, exceeds what the smallest maximum, in
    %xmm1, allows, or where either is NaN."""
    return [
        *w.load_constant(MAX_RATIO, "%zmm2", "%rax"),
        "vmulss %xmm2, %xmm1, %xmm2",
        *w.load_constant(MAX_VALUE, "%zmm3", "%rax"),
        "vminss %xmm3, %xmm2, %xmm2",
        "vucomiss %xmm0, %xmm2",
    ]
