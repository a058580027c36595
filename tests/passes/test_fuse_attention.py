"""Attention in the forms that frontends and exporters write."""

from __future__ import annotations

from irc.compiler.passes.fuse_attention import fuse_attention
from rewriting import becomes, stays

QKV = """
%0 = Input(f32[B, 3, S, 16]) "q"
%1 = Input(f32[B, 3, T, 16]) "k"
%2 = Input(f32[B, 3, T, 8]) "v"
"""


def test_openvinos_operation() -> None:
    head = QKV + '%3 = Input(f32[S, T]) "m"\n'
    becomes(
        head
        + "%4 = ScaledDotProductAttention.13(%0, %1, %2, %3) {causal=false}\n%5 = Result.1(%4)",
        fuse_attention,
        head + "%4 = Attention.0(%0, %1, %2, %3) {scale=0.25}\n" + "%5 = Result.1(%4)",
    )


def test_openvinos_causal_operation_ignores_its_mask() -> None:
    becomes(
        QKV
        + "%3 = Const(f32[] = 0.5)\n%4 = Const(f32[1] = 2)\n"
        + "%5 = ScaledDotProductAttention.13(%0, %1, %2, %3, %4) {causal=true}\n%6 = Result.1(%5)",
        fuse_attention,
        QKV + '%4 = Attention.0(%0, %1, %2) {scale=2.0, causal="first"}\n%5 = Result.1(%4)',
    )


def test_what_has_no_kernel_stays() -> None:
    text = QKV.replace("f32", "f64")
    tail = "%4 = ScaledDotProductAttention.13(%0, %1, %2) {causal=false}\n%5 = Result.1(%4)"
    stays(text + tail, fuse_attention, "no attention kernel for f64")
    stays(QKV.replace("16", "E") + tail, fuse_attention, "no attention kernel for heads of size E")
    scaled = tail.replace("%2)", "%2, %9, %8)")
    extra = '%8 = Input(f32[]) "s"\n%9 = Input(f32[S, T]) "m"\n'
    stays(QKV + extra + scaled, fuse_attention, "the scale is not known")
