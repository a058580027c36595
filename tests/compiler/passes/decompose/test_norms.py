"""Normalisations without a kernel become operations with one, with the same numbers."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.passes.decompose.norms import decompose_norms
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from support.rewriting import graph, run

# name: (lines from %1 on; the last is the result, its kind)
NORMS = {
    "inner_axes": ("%1 = Const(i64[2] = 0, 2)", "MVN.6(%0, %1) {eps=0.001}"),
    "outside": ("%1 = Const(i64[1] = -3)",
                'MVN.6(%0, %1) {eps=0.25, eps_mode="OUTSIDE_SQRT"}'),
    "mean_alone": ("%1 = Const(i64[2] = 1, 0)", "MVN.6(%0, %1) {normalize_variance=false}"),
    "across": ("MVN.2(%0)",),
    "per_channel": ("MVN.2(%0) {across_channels=false, eps=0.5}",),
    "l2_of_channels": ("%1 = Const(i64[1] = 1)", "NormalizeL2.1(%0, %1) {eps=0.5}"),
    "l2_of_all": ("%1 = Const(i32[3] = 3, 1, 2)",
                  'NormalizeL2.1(%0, %1) {eps=2.0, eps_mode="max"}'),
    "l2_of_nothing": ("%1 = Const(i64[0] = )", "NormalizeL2.1(%0, %1) {eps=0.5}"),
    "lrn": ("%1 = Const(i64[1] = 1)", "LRN.1(%0, %1) {alpha=0.3, beta=0.75, bias=1.5, size=5}"),
    "lrn_even": ("%1 = Const(i64[2] = 3, 2)",
                 "LRN.1(%0, %1) {alpha=0.5, beta=0.5, bias=2.0, size=4}"),
    "lrn_of_one": ("%1 = Const(i64[1] = 1)",
                   "LRN.1(%0, %1) {alpha=0.5, beta=2.0, bias=2.0, size=1}"),
}  # fmt: skip


def made(name: str, dtype: str = "f32") -> Graph:
    *lines, last = NORMS[name]
    at = len(lines) + 1
    text = [f"%0 = Input({dtype}[N, 6, 4, 5])", *lines, f"%{at} = {last}"]
    return graph("\n" + "\n".join([*text, f"%{at + 1} = Result.1(%{at})"]) + "\n")


@pytest.mark.parametrize("name", NORMS)
def test_same_numbers(name: str) -> None:
    before = made(name)
    x = np.random.default_rng(0).standard_normal((3, 6, 4, 5)).astype(np.float32)
    (want,) = interpret(before, [x])
    after = run(before, decompose_norms)
    kinds = {after.op(n).kind for n in after.ids()}
    assert not kinds & {"NormalizeL2", "LRN"}
    (found,) = interpret(after, [x])
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMS)
def test_natively(name: str) -> None:
    before = made(name)
    net = irc.compile_model(irc.Model(before.copy()))
    assert not net.plan.host_steps()
    for batch in (1, 3):
        x = np.random.default_rng(1).standard_normal((batch, 6, 4, 5)).astype(np.float32)
        (want,) = interpret(before, [x])
        np.testing.assert_allclose(net(x)[0], want, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", ["inner_axes", "l2_of_channels", "lrn"])
def test_f16_is_rounded_once(name: str) -> None:
    """All but the last bit is that of f64: sums of squares stay f32."""
    before = made(name, "f16")
    x = (40 * np.random.default_rng(2).standard_normal((2, 6, 4, 5))).astype(np.float16)
    (want,) = interpret(before, [x])
    (found,) = interpret(run(before, decompose_norms), [x])
    assert found.dtype == np.float16
    steps = np.abs(found.view(np.int16).astype(int) - want.view(np.int16))
    assert (steps[want != 0] <= 1).all() and (steps[want != 0] == 0).mean() > 0.99


@pytest.mark.parametrize(
    "text",
    [
        "%0 = Input(f32[...])\n%1 = Const(i64[1] = 1)\n%2 = NormalizeL2.1(%0, %1) {eps=0.5}\n",
        "%0 = Input(f32[2, 40])\n%1 = Const(i64[1] = 1)\n"
        "%2 = LRN.1(%0, %1) {alpha=0.5, beta=0.5, bias=2.0, size=19}\n",
        "%0 = Input(f32[2, 4])\n%1 = Const(i64[1] = 1)\n%2 = MVN.6(%0, %1)\n",
    ],
    ids=["unknown_rank", "wide_window", "last_axes"],
)
def test_what_stays(text: str) -> None:
    before = graph("\n" + text + "%3 = Result.1(%2)\n")
    after = run(before, decompose_norms)
    assert [after.op(n).kind for n in after.ids()] == [before.op(n).kind for n in before.ids()]
