"""Branches of unlike rank, of which only one fits what follows: native, what onnxruntime gives for
every size that works, and a clear error for every other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

HIDDEN, CHANNELS = 4, 3
# As exporters write a voice activity detector: a rate chooses the network, which squeezes an axis
# if that has one element, and adds one to what is not of rank 2, before an LSTM reads it.
_NETWORK = """{{
    a = Transpose <perm = [0, 2, 1]> (x)
    steps = Constant <value_ints = [{step}]> ()
    zero = Constant <value_ints = [0]> ()
    last = Constant <value_ints = [9223372036854775807]> ()
    axis = Constant <value_ints = [2]> ()
    thin = Slice (a, zero, last, axis, steps)
    shape = Shape (thin)
    place = Constant <value_int = -1> ()
    size = Gather (shape, place)
    one = Constant <value_int = 1> ()
    lone = Equal (size, one)
    flat = If (lone) <then_branch = squeezed () => (float[] s) {{ s = Squeeze (thin, axis) }},
        else_branch = kept () => (float[] k) {{ k = Identity (thin) }}>
    rank = Shape (flat)
    ranks = Size (rank)
    two = Constant <value_int = 2> ()
    plain = Equal (ranks, two)
    batched = Not (plain)
    even = If (batched) <then_branch = added () => (float[] t) {{ t = Unsqueeze (flat, zero) }},
        else_branch = same () => (float[] u) {{ u = Identity (flat) }}>
    sequence = Unsqueeze (even, zero)
    y, h, c = LSTM <hidden_size = 4> (sequence, w, r, b, , state, state)
    {out} = Relu (h)
}}"""
RATES = f"""<ir_version: 8, opset_import: ["" : 17]>
net (float[B, T, 3] x, float[1, S, 4] state, int64 rate) => (float[] out) {{
    fast = Constant <value_int = 16> ()
    is_fast = Equal (rate, fast)
    out = If (is_fast) <then_branch = at_16 () => (float[] p)
        {_NETWORK.format(step=4, out="p")}, else_branch = at_8 () => (float[] q)
        {_NETWORK.format(step=2, out="q")}>
}}"""
# (rate, batch, time, batch of the state): the axis has one element up to time 4 or 2.
WORKS = [(16, 1, 4, 1), (16, 3, 1, 3), (8, 1, 2, 1), (8, 2, 1, 2)]
FAILS = [(16, 1, 5, 1), (16, 2, 9, 2), (8, 1, 4, 1), (8, 1, 3, 1), (16, 2, 4, 1), (16, 1, 4, 2)]


def model(text: str = RATES) -> onnx.ModelProto:
    """The model, with the LSTM's weights if it has one."""
    found = parser.parse_model(text)
    rng = np.random.default_rng(5)
    for name, shape in (("w", (1, 16, 3)), ("r", (1, 16, 4)), ("b", (1, 32))):
        if "LSTM" in text:
            array = rng.standard_normal(shape).astype(np.float32)
            found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


def inputs(rate: int, batch: int, time: int, states: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(rate + batch + time)
    return {
        "x": rng.standard_normal((batch, time, CHANNELS)).astype(np.float32),
        "state": rng.standard_normal((1, states, HIDDEN)).astype(np.float32),
        "rate": np.array(rate, np.int64),
    }


def session(net: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(net.SerializeToString(), providers=["CPUExecutionProvider"])


def test_nothing_runs_in_python() -> None:
    net = irc.compile_model(model())
    assert not net.plan.host_steps() and len(net.plan.regions) == 1
    kinds = [step.kind for step in net.plan.control_steps()]
    # The rates, and in each network the axis; what tests the rank is known.
    assert kinds.count("branch") == 3


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_that_work(threads: int, tmp_path: Path) -> None:
    net, other = irc.compile_model(model(), num_threads=threads), session(model())
    net.export(tmp_path / "m.irc")
    again = irc.compile_model(tmp_path / "m.irc", num_threads=threads)
    assert again.plan == net.plan
    for case in WORKS:
        given = inputs(*case)
        (wanted,) = other.run(None, dict(given))
        got = net(given)[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        shapes = {"x": given["x"].shape, "state": given["state"].shape}
        fixed = irc.compile_model(model(), num_threads=threads, shapes=shapes)
        assert not fixed.plan.host_steps()
        for way in (again, net.bind(given), fixed):
            same = way() if way not in (again, fixed) else way(given)
            np.testing.assert_array_equal(same[0], got)
        assert net.profile(given)


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILS)
def test_sizes_that_do_not(case: tuple[int, int, int, int]) -> None:
    net, other = irc.compile_model(model()), session(model())
    with pytest.raises(Exception):  # noqa: B017 - onnxruntime's own
        other.run(None, dict(inputs(*case)))
    for _ in range(2):
        with pytest.raises(irc.ShapeError) as error:
            net(inputs(*case))
        what = "cannot work" if case[1] == case[3] else "differ in batch"
        assert what in str(error.value)
        assert "LSTM" in str(error.value)
    # What failed leaves nothing behind.
    good = inputs(*WORKS[0])
    np.testing.assert_array_equal(net(good)[0], irc.compile_model(model())(good)[0])


def test_shapes_that_one_branch_refuses() -> None:
    """Of time 4 the network at rate 8 makes nothing: it is there to fail."""
    net = irc.compile_model(model(), shapes={"x": [1, 4, 3], "state": [1, 1, 4]})
    assert not net.plan.host_steps()
    given = inputs(16, 1, 4, 1)
    (wanted,) = session(model()).run(None, dict(given))
    np.testing.assert_allclose(net(given)[0], wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(irc.ShapeError, match="this branch cannot work with its sizes"):
        net(inputs(8, 1, 4, 1))


def test_shapes_that_no_branch_takes() -> None:
    with pytest.raises(irc.ShapeError, match="lists every axis"):
        irc.compile_model(model(), shapes={"x": [1, 5, 3], "state": [1, 1, 4]})


# Both ranks work: nothing is known, and Python goes on choosing.
EITHER = """<ir_version: 8, opset_import: ["" : 17]>
net (float[N, T] x) => (float[] y) {
    shape = Shape (x)
    place = Constant <value_int = 1> ()
    size = Gather (shape, place)
    lone = Equal (size, place)
    axis = Constant <value_ints = [1]> ()
    flat = If (lone) <then_branch = squeezed () => (float[] s) { s = Squeeze (x, axis) },
        else_branch = kept () => (float[] k) { k = Identity (x) }>
    y = Relu (flat)
}"""


def test_both_ranks_work() -> None:
    net, other = irc.compile_model(model(EITHER)), session(model(EITHER))
    assert [step.op.kind for step in net.plan.host_steps()][:1] == ["If"]
    for shape in ((3, 1), (3, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 2
        (wanted,) = other.run(None, {"x": x})
        np.testing.assert_array_equal(net({"x": x})[0], wanted)


# What a branch takes for granted matters where it is taken.
INSIDE = """<ir_version: 8, opset_import: ["" : 17]>
net (bool c, float[B, N] x, float[M, C] y, float[N, C] z) => (float[B, C] o) {
    o = If (c) <then_branch = t () => (float[B, C] p) { p = MatMul (x, y) },
        else_branch = e () => (float[B, C] q) { q = MatMul (x, z) }>
}"""


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_what_a_branch_takes_for_granted(rows: int) -> None:
    net = irc.compile_model(model(INSIDE))
    assert not net.plan.host_steps()
    x, z = np.ones((2, 3), np.float32), np.full((3, 4), 2, np.float32)
    y = np.ones((rows, 4), np.float32)
    feeds = {"c": np.array(False), "x": x, "y": y, "z": z}
    np.testing.assert_array_equal(net(feeds)[0], x @ z)
    feeds["c"] = np.array(True)
    if rows == 3:
        np.testing.assert_array_equal(net(feeds)[0], x @ y)
        return
    with pytest.raises(irc.ShapeError, match="inner sizes") as error:
        net(feeds)
    assert f"3 and {rows}, which are N and M" in str(error.value)


# A loop's body that no iteration runs takes nothing for granted.
LOOPED = """<ir_version: 8, opset_import: ["" : 17]>
net (int64 count, float[M] y, float[B, N] m) => (float[B] o) {
    yes = Constant <value = bool {1}> ()
    axis = Constant <value_ints = [1]> ()
    start = ReduceSum <keepdims = 0> (m, axis)
    o = Loop (count, yes, start) <body = step (int64 i, bool go, float[B] s)
        => (bool more, float[B] t) {
        more = Identity (go)
        p = MatMul (m, y)
        t = Add (s, p)
    }>
}"""


def test_what_a_loop_takes_for_granted() -> None:
    net = irc.compile_model(model(LOOPED))
    assert not net.plan.host_steps()
    feeds = {
        "count": np.array(2),
        "y": np.ones(3, np.float32),
        "m": np.ones((2, 3), np.float32),
    }
    np.testing.assert_array_equal(net(feeds)[0], [9, 9])
    feeds["y"] = np.ones(5, np.float32)
    with pytest.raises(irc.ShapeError, match="inner sizes"):
        net(feeds)
    feeds["count"] = np.array(0)
    np.testing.assert_array_equal(net(feeds)[0], [3, 3])
