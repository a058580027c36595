"""What writes numbers of f32 as sums of three bf16 numbers (bf16x3/f32_terms.py), in assembly of
AVX-512: LLVM would take 25 ms for these functions, which every process with such a product needs.

The first number is the value rounded to bf16, ties away from zero, the second one the rest, rounded
as well, the third one what remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....llvmir.builder import AssemblyFunction, Module
from ....llvmir.values import I64
from ...emit.x86_tile import low_half

# Vector registers of constants: half of bf16's last bit, the bits of f32 that bf16 has, those of a
# magnitude, the largest finite magnitude, and the odd words of two vectors.
_HALF, _UPPER, _MAGNITUDE, _FINITE, _ODD_WORDS = (f"%zmm{i}" for i in range(16, 21))
_CONSTANTS: Final = ((_HALF, 0x8000), (_UPPER, 0xFFFF0000), (_MAGNITUDE, 0x7FFFFFFF))
_LINE_BYTES: Final = 64
_LANES: Final = 16
_WORDS: Final = 32


def _load_constants(constants: Sequence[tuple[str, int]]) -> list[str]:
    lines = [(f"movl ${value}, %eax", f"vpbroadcastd %eax, {to}") for to, value in constants]
    return [line for pair in lines for line in pair]


def _round(x: str, to: str) -> list[str]:
    """x rounded to bf16, as f32, and the sum whose upper bits that is in its register."""
    return [f"vpaddd {_HALF}, {x}, {to}", f"vpandd {_UPPER}, {to}, {to}"]


def split_rows_function(module: Module) -> AssemblyFunction:
    """split(source, apart, strip, rows, k, row, term, word): `rows` rows of f32, `apart` bytes
    apart, k values each, as rows of the three terms of a strip; zeros fill the last step of 32
    values. row, term: bytes between rows and between terms of the strip. Where a value is infinite
    or NaN, 3 * term is stored at `word`."""
    source, apart, first, rows, k, row = "%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"
    at, second, third = "%r10", "%r11", "%rbx"
    lines = ["pushq %rbx", *_load_constants((*_CONSTANTS, (_FINITE, 0x7F7FFFFF)))]
    lines += [f"vmovdqu64 7f(%rip), {_ODD_WORDS}", f"movq 16(%rsp), {second}"]
    lines += [f"leaq ({first},{second},2), {third}", f"addq {first}, {second}"]
    lines += [f"testq {rows}, {rows}", "jle 9f"]
    lines += ["1:", f"xorl {low_half(at)}, {low_half(at)}"]
    lines += ["kxnorw %k1, %k1, %k1", "kxnorw %k2, %k2, %k2"]
    # A step; the last one may have fewer values.
    lines += ["2:", f"movq {k}, %rax", f"subq {at}, %rax", "jle 6f", f"cmpq ${_WORDS}, %rax"]
    lines += ["jge 3f", "bzhil %eax, 8f(%rip), %eax", "kmovw %eax, %k1", "shrl $16, %eax"]
    lines += ["kmovw %eax, %k2", "3:"]
    lines += [f"vmovups ({source},{at},4), %zmm0{{%k1}}{{z}}"]
    lines += [f"vmovups 64({source},{at},4), %zmm1{{%k2}}{{z}}"]
    lines += [*_round("%zmm0", "%zmm2"), *_round("%zmm1", "%zmm3")]
    lines += [f"vpandd {_MAGNITUDE}, %zmm2, %zmm4", f"vpandd {_MAGNITUDE}, %zmm3, %zmm5"]
    lines += ["vpmaxud %zmm4, %zmm5, %zmm6", f"vpcmpgtd {_FINITE}, %zmm6, %k3"]
    lines += ["kortestw %k3, %k3", "jne 5f"]
    lines += ["vsubps %zmm2, %zmm0, %zmm0", "vsubps %zmm3, %zmm1, %zmm1", "4:"]
    lines += [f"vpaddd {_HALF}, %zmm0, %zmm6", f"vpaddd {_HALF}, %zmm1, %zmm7"]
    lines += [f"vpandd {_UPPER}, %zmm6, %zmm8", f"vpandd {_UPPER}, %zmm7, %zmm9"]
    lines += ["vsubps %zmm8, %zmm0, %zmm0", "vsubps %zmm9, %zmm1, %zmm1"]
    for low, high, to in (
        ("%zmm2", "%zmm3", first),
        ("%zmm6", "%zmm7", second),
        ("%zmm0", "%zmm1", third),
    ):
        lines += [f"vpermt2w {high}, {_ODD_WORDS}, {low}", f"vmovdqu64 {low}, ({to},{at},2)"]
    lines += [f"addq ${_WORDS}, {at}", "jmp 2b"]
    # A first term that is infinite or NaN is the value without its lower bits, so that the largest
    # numbers stay finite; of an infinity nothing remains.
    lines += ["5:"]
    for x, top, magnitude in (("%zmm0", "%zmm2", "%zmm4"), ("%zmm1", "%zmm3", "%zmm5")):
        lines += [f"vpcmpgtd {_FINITE}, {magnitude}, %k3"]
        lines += [f"vpandd {_UPPER}, {x}, {top}{{%k3}}", f"vcmpneqps {top}, {x}, %k3"]
        lines += [f"vsubps {top}, {x}, {x}{{%k3}}{{z}}"]
    lines += [f"pushq {at}", f"movq 24(%rsp), {at}", f"leaq ({at},{at},2), %rax"]
    lines += [f"movq 32(%rsp), {at}", f"movq %rax, ({at})", f"popq {at}", "jmp 4b"]
    lines += ["6:", f"addq {apart}, {source}"]
    lines += [f"addq {row}, {to}" for to in (first, second, third)]
    lines += [f"decq {rows}", "jne 1b", "9:", "popq %rbx", "vzeroupper", "retq"]
    odd = ", ".join(str(2 * i + 1) for i in range(_WORDS))
    lines += [f".p2align {_LINE_BYTES.bit_length() - 1}", "7:", f".short {odd}", "8:", ".long -1"]
    params = [("ptr", "source"), (I64, "apart"), ("ptr", "strip"), (I64, "rows"), (I64, "k")]
    params += [(I64, "row"), (I64, "term"), ("ptr", "word")]
    return module.assembly_function(module.unique("split_rows"), params, lines)


def leave_out_infinities_function(module: Module) -> AssemblyFunction:
    """write(strip, rows, k, row, term): a fourth term of a strip's rows: the first one, but 0 for
    an infinity."""
    strip, rows, k, row, term, to = "%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"
    lines = ["movl $0x7fff, %eax", "vpbroadcastw %eax, %zmm0"]
    lines += ["movl $0x7f80, %eax", "vpbroadcastw %eax, %zmm1"]
    lines += [f"leaq ({term},{term},2), {to}", f"addq {strip}, {to}"]
    lines += ["1:", "xorl %eax, %eax"]
    lines += ["2:", f"vmovdqu16 ({strip},%rax,2), %zmm2", "vpandd %zmm0, %zmm2, %zmm3"]
    lines += ["vpcmpneqw %zmm1, %zmm3, %k1", "vmovdqu16 %zmm2, %zmm2{%k1}{z}"]
    lines += [f"vmovdqu16 %zmm2, ({to},%rax,2)", f"addq ${_WORDS}, %rax"]
    lines += [f"cmpq {k}, %rax", "jl 2b", f"addq {row}, {strip}", f"addq {row}, {to}"]
    lines += [f"decq {rows}", "jg 1b", "vzeroupper", "retq"]
    params = [("ptr", "strip"), (I64, "rows"), (I64, "k"), (I64, "row"), (I64, "term")]
    return module.assembly_function(module.unique("leave_out_infinities"), params, lines)


def expand_panel_function(
    module: Module, columns: int, words: Sequence[int], fetch: int
) -> AssemblyFunction:
    """expand(words, count): the next `count` rows of cells of a panel of `columns` columns, or
    those that remain. words: where these are: the next two rows of f32, where their terms go, how
    many rows of cells remain, how many of those have two values of K, whether the next one has one,
    and how many bytes terms are apart. fetch: how far ahead values are fetched, in bytes."""
    source_at, to_at, left_at, full_at, odd_at, apart_at = (f"{at}(%rdi)" for at in words)
    count, left, full, source, to, apart = "%rsi", "%rax", "%rdx", "%rcx", "%r8", "%r9"
    row = 4 * columns
    lines = [f"movq {left_at}, {left}", f"cmpq {count}, {left}", f"cmovgq {count}, {left}"]
    lines += [f"testq {left}, {left}", "jle 9f", f"movq {left}, {count}"]
    lines += [f"movq {full_at}, {full}", f"cmpq {count}, {full}", f"cmovgq {count}, {full}"]
    lines += [f"subq {count}, {left_at}", f"subq {full}, {full_at}"]
    lines += [*_load_constants(_CONSTANTS[:2]), f"movq {source_at}, {source}"]
    lines += [f"movq {to_at}, {to}", f"movq {apart_at}, {apart}"]
    lines += ["kxnorw %k1, %k1, %k1", "kxnorw %k2, %k2, %k2"]
    # What is behind K meets zeros of A, and has to be finite: the last row of an odd K, and zeros.
    lines += ["1:", f"testq {full}, {full}", "jne 2f", "kxorw %k2, %k2, %k2"]
    lines += [f"cmpq $0, {odd_at}", "jne 2f", "kxorw %k1, %k1, %k1", "2:"]
    lines += [f"prefetcht0 {fetch + at}({source})" for at in range(0, 2 * row, _LINE_BYTES)]
    for at in range(0, row, 4 * _LANES):
        lines += [f"vmovups {at}({source}), %zmm0{{%k1}}{{z}}"]
        lines += [f"vmovups {row + at}({source}), %zmm1{{%k2}}{{z}}"]
        for term in (f"{at}({to})", f"{at}({to},{apart})"):
            lines += [*_round("%zmm0", "%zmm2"), *_round("%zmm1", "%zmm3")]
            lines += ["vpsrld $16, %zmm2, %zmm4", "vpord %zmm3, %zmm4, %zmm4"]
            lines += [f"vmovdqu64 %zmm4, {term}"]
            lines += ["vsubps %zmm2, %zmm0, %zmm0", "vsubps %zmm3, %zmm1, %zmm1"]
        # The lower half of a cell, or the upper one of its neighbour below: 0xF8 is a | b & c.
        lines += ["vpsrld $16, %zmm0, %zmm0", f"vpternlogd $0xf8, {_UPPER}, %zmm1, %zmm0"]
        lines += [f"vmovdqu64 %zmm0, {at}({to},{apart},2)"]
    lines += [f"addq ${row}, {to}", f"testq {full}, {full}", "je 3f"]
    lines += [f"addq ${2 * row}, {source}", f"decq {full}", "3:", f"decq {count}", "jne 1b"]
    lines += [f"movq {source}, {source_at}", f"movq {to}, {to_at}", "9:", "vzeroupper", "retq"]
    params = [("ptr", "words"), (I64, "count")]
    return module.assembly_function(module.unique("expand_panel"), params, lines)
