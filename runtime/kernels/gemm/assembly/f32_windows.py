"""Windows of a convolution as rows of terms (bf16x3/f32_strips.py), in assembly of AVX-512: LLVM
would take 12 ms for this function, which every process with such a convolution needs.

Windows are split where they are in the data: tap by tap, or in one run those that are neighbours in
memory, with zeros outside of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from .....ir.lazy_dataclass import dataclass
from .....plan.specs.convolution import ConvSpec
from ....llvmir.builder import AssemblyFunction, Module
from ....llvmir.values import I64, Value
from ...emit.x86_tile import low_half

_AXES: Final = 3
# Where words of the table are, in bytes: of each axis, of all, and the first run's. A run: how far
# its first tap is from the window's first one, along the axes and in elements of the data.
_OUT, _IN, _STRIDE, _PAD, _APART = range(0, 5 * 8 * _AXES, 8 * _AXES)
_BATCH_APART, _CHANNELS, _TAPS, _RUNS = range(5 * 8 * _AXES, 5 * 8 * _AXES + 32, 8)
_RUN_BYTES: Final = 8 * (_AXES + 1)

_DATA, _TABLE, _STRIP, _PIXEL, _ROWS = "%r13", "%r12", "%r14", "%r15", "%rbx"
_SAVED: Final = (_DATA, _TABLE, _STRIP, _PIXEL, _ROWS)
_DEPTH, _ROW, _TERM, _WORD = (f"{8 * i}(%rbp)" for i in range(2, 6))
_LOCALS: Final = ("length", "run0", "within0", "run", "within", "done", "end", "corner")
# Each register saved is in front of the locals.
_AT: Final = {n: f"-{8 * (len(_SAVED) + 1 + i)}(%rbp)" for i, n in enumerate(_LOCALS)}
_START: Final = tuple(f"-{8 * (len(_SAVED) + 1 + len(_LOCALS) + i)}(%rbp)" for i in range(_AXES))
_FRAME_BYTES: Final = 8 * (len(_LOCALS) + _AXES)


@dataclass(frozen=True)
class WindowRuns:
    """Windows as runs of `taps` taps along the last axis, whose values are neighbours in memory.
    first: the first tap of each run."""

    taps: int
    first: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(spec: ConvSpec) -> WindowRuns:
        kernel, w = spec.window.kernel, spec.window
        together = w.dilations[-1] == 1 and spec.data.strides[-1] == spec.channels
        taps = kernel[-1] if together else 1
        first = product(*(range(k) for k in kernel[:-1]), range(0, kernel[-1], taps))
        return WindowRuns(taps, tuple(first))


def make_windows_table(module: Module, spec: ConvSpec) -> Value:
    """The words that split_windows_function reads, whose text names no number of a kernel."""
    runs, w = WindowRuns.of(spec), spec.window

    def widen(values: Sequence[object], missing: int) -> list[int]:
        found = [v for v in values if isinstance(v, int)]
        assert len(found) == len(values)
        return [missing] * (_AXES - len(found)) + found

    apart, batch = widen(spec.data.strides[2:], 0), spec.data.strides[0]
    words = [*widen(spec.out_sizes, 1), *widen(spec.in_sizes, 1), *widen(w.strides, 1)]
    words += [*widen(w.pads, 0), *apart, batch if isinstance(batch, int) else 0]
    words += [spec.channels, runs.taps]
    for first in runs.first:
        steps = widen([k * d for k, d in zip(first, w.dilations, strict=True)], 0)
        words += [*steps, sum(s * a for s, a in zip(steps, apart, strict=True))]
    return module.table(words, I64)


def split_windows_function(module: Module, split: AssemblyFunction) -> AssemblyFunction:
    """split_windows(data, m, k0, table, strip, rows, k, row, term, word): values k0 to k0 + k of
    the windows of `rows` pixels from pixel m on, zeros outside of the data; the other parameters
    are those of `split`, which splits the values of a run. All are whole steps of 32 values."""
    lines = ["pushq %rbp", "movq %rsp, %rbp", *(f"pushq {r}" for r in _SAVED)]
    lines += [f"subq ${_FRAME_BYTES}, %rsp", f"movq %rdi, {_DATA}", f"movq %rsi, {_PIXEL}"]
    lines += [f"movq %rcx, {_TABLE}", f"movq %r8, {_STRIP}", f"movq %r9, {_ROWS}"]
    lines += ["movq %rdx, %rax", f"movq {_CHANNELS}({_TABLE}), %rcx"]
    lines += [f"imulq {_TAPS}({_TABLE}), %rcx", f"movq %rcx, {_AT['length']}"]
    lines += ["xorl %edx, %edx", "divq %rcx", f"movq %rdx, {_AT['within0']}"]
    lines += [f"imulq ${_RUN_BYTES}, %rax, %rax", f"leaq {_RUNS}({_TABLE},%rax), %rax"]
    lines += [f"movq %rax, {_AT['run0']}", f"testq {_ROWS}, {_ROWS}", "jle 9f"]
    lines += ["1:", *_find_corner()]
    lines += [f"movq {_AT['run0']}, %rax", f"movq %rax, {_AT['run']}"]
    lines += [f"movq {_AT['within0']}, %rax", f"movq %rax, {_AT['within']}"]
    lines += [f"movq $0, {_AT['done']}", "2:", *_find_run()]
    # From here on: %rax, %rcx the valid values of the run, which ends at %rdx; %rdi its first one
    # in the row of the strip.
    lines += ["movq %rcx, %r8", "subq %rax, %r8", f"movq {_AT['end']}, %rdx"]
    lines += ["movq %rdx, %r9", f"subq {_AT['within']}, %r9", "cmpq %r9, %r8", "jge 5f"]
    lines += [*_store_zeros(), "5:", "testq %r8, %r8", "jle 6f"]
    lines += [f"movq {_AT['corner']}, %r10", f"movq {_AT['run']}, %r11"]
    lines += [f"addq {8 * _AXES}(%r11), %r10", "addq %rax, %r10", "leaq (%rdi,%rax,2), %rdx"]
    lines += [f"leaq ({_DATA},%r10,4), %rdi", "xorl %esi, %esi", "movl $1, %ecx"]
    lines += [f"movq {_ROW}, %r9", f"pushq {_WORD}", f"pushq {_TERM}", f"callq {split.name}"]
    lines += ["addq $16, %rsp", "6:", f"movq {_AT['end']}, %rax", f"subq {_AT['within']}, %rax"]
    lines += [f"addq {_AT['done']}, %rax", f"movq %rax, {_AT['done']}"]
    lines += [f"movq $0, {_AT['within']}", f"addq ${_RUN_BYTES}, {_AT['run']}"]
    lines += [f"cmpq {_DEPTH}, %rax", "jl 2b"]
    lines += [f"addq {_ROW}, {_STRIP}", f"incq {_PIXEL}", f"decq {_ROWS}", "jne 1b", "9:"]
    lines += [f"addq ${_FRAME_BYTES}, %rsp", *(f"popq {r}" for r in reversed(_SAVED))]
    lines += ["popq %rbp", "vzeroupper", "retq"]
    params = [("ptr", "data"), (I64, "m"), (I64, "k0"), ("ptr readonly", "table")]
    params += [("ptr", "strip"), (I64, "rows"), (I64, "k"), (I64, "row"), (I64, "term")]
    params += [("ptr", "word")]
    return module.assembly_function(module.unique("split_windows"), params, lines)


def _find_corner() -> list[str]:
    """Where the window of the pixel begins: along the axes, and in elements of the data."""
    corner, lines = "%r8", [f"movq {_PIXEL}, %rax", "xorl %r8d, %r8d"]
    for axis in reversed(range(_AXES)):
        here = "%rdx"
        lines += [f"xorl {low_half(here)}, {low_half(here)}", f"divq {_OUT + 8 * axis}({_TABLE})"]
        lines += [f"imulq {_STRIDE + 8 * axis}({_TABLE}), {here}"]
        lines += [f"subq {_PAD + 8 * axis}({_TABLE}), {here}", f"movq {here}, {_START[axis]}"]
        lines += [f"imulq {_APART + 8 * axis}({_TABLE}), {here}", f"addq {here}, {corner}"]
    lines += [f"imulq {_BATCH_APART}({_TABLE}), %rax", f"addq %rax, {corner}"]
    return [*lines, f"movq {corner}, {_AT['corner']}"]


def _find_run() -> list[str]:
    """%rax, %rcx: the values of the run that are in the data; %rdi: where the run's value 0 is in
    the row of the strip. Values begin and end where a block of K does."""
    lines = [f"movq {_DEPTH}, %rdx", f"subq {_AT['done']}, %rdx", f"addq {_AT['within']}, %rdx"]
    lines += [f"movq {_AT['length']}, %rax", "cmpq %rax, %rdx", "cmovgq %rax, %rdx"]
    lines += [f"movq %rdx, {_AT['end']}", f"movq {_AT['run']}, %r10"]
    lines += [f"movq {_AT['done']}, %rdi", f"subq {_AT['within']}, %rdi"]
    lines += [f"leaq ({_STRIP},%rdi,2), %rdi"]
    last = 8 * (_AXES - 1)
    lines += [f"movq {_START[-1]}, %rax", f"addq {last}(%r10), %rax"]
    lines += [f"movq {_IN + last}({_TABLE}), %rcx", "subq %rax, %rcx", "negq %rax"]
    lines += [f"imulq {_CHANNELS}({_TABLE}), %rax", f"imulq {_CHANNELS}({_TABLE}), %rcx"]
    lines += [f"movq {_AT['within']}, %r11", "cmpq %r11, %rax", "cmovlq %r11, %rax"]
    lines += ["cmpq %rdx, %rax", "cmovgq %rdx, %rax", "cmpq %rdx, %rcx", "cmovgq %rdx, %rcx"]
    lines += ["cmpq %rax, %rcx", "cmovlq %rax, %rcx"]
    for axis in range(_AXES - 1):
        lines += [f"movq {_START[axis]}, %r11", f"addq {8 * axis}(%r10), %r11"]
        lines += [f"cmpq {_IN + 8 * axis}({_TABLE}), %r11", "cmovaeq %rax, %rcx"]
    return lines


def _store_zeros() -> list[str]:
    """Zeros as all values of the run: from `within` to %rdx, from %rdi on, of three terms."""
    lines = [f"movq {_TERM}, %r10", "leaq (%rdi,%r10,2), %r11", "addq %rdi, %r10"]
    lines += [f"movq {_AT['within']}, %r9", "vpxor %xmm0, %xmm0, %xmm0", "3:"]
    lines += [f"vmovdqu64 %zmm0, ({to},%r9,2)" for to in ("%rdi", "%r10", "%r11")]
    return [*lines, "addq $32, %r9", "cmpq %rdx, %r9", "jl 3b"]
