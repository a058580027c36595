"""Control flow end to end, bit for bit what onnxruntime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import parser
from support.models.control_flow import INPUTS, TEXTS, control_flow


def same(got: Any, wanted: list[np.ndarray[Any, Any]]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def reference(name: str) -> onnxruntime.InferenceSession:
    text = control_flow(name).SerializeToString()
    return onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TEXTS)
def test_same_as_onnxruntime(name: str, threads: int) -> None:
    net, other = irc.compile_model(control_flow(name), num_threads=threads), reference(name)
    for make in INPUTS[name]:
        inputs = make()
        wanted = other.run(None, inputs)
        same(net(inputs), wanted)
        call = net.bind(inputs)
        same(call(), wanted)
        same(call(), wanted)


@pytest.mark.parametrize("name", TEXTS)
def test_artefacts(name: str, tmp_path: Path) -> None:
    net = irc.compile_model(control_flow(name))
    net.export(tmp_path / "m.irc")
    again = irc.CompiledModel.load(tmp_path / "m.irc")
    assert again.plan == net.plan
    for make in INPUTS[name]:
        inputs = make()
        same(again(inputs), list(net(inputs)))


# What Python steers, because sizes change or depend on data; bodies are native all the same.
STEERED = {"growing", "collect"}


@pytest.mark.parametrize("name", TEXTS)
def test_what_runs_natively(name: str) -> None:
    net = irc.compile_model(control_flow(name))
    kinds = [step.op.kind for step in net.plan.host_steps()]
    assert kinds == (["Loop"] if name in STEERED else [])
    assert ("depends on data" in net.report()) == (name in STEERED)
    native = sum(step.kind in ("loop", "branch") for step in net.plan.control_steps())
    assert native == {"nested": 2, "choose": 2}.get(name, int(name not in STEERED))
    assert ("native\n" in net.report()) == bool(native)


def test_a_loop_that_fails_runs_again() -> None:
    """A kernel that fails in the third iteration leaves addresses that moved; the next call must
    not see them."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[5] data, int64[T, 1] at) => (float[T, 1] y) {
        y = Scan <num_scan_inputs = 1, body = b (int64[1] i) => (float[1] v) {
            v = Gather (data, i)
        }> (at)
    }"""
    net = irc.compile_model(parser.parse_model(text))
    assert not net.plan.host_steps()
    data = np.arange(5, dtype=np.float32)
    good, bad = np.array([[4], [0], [3], [1]]), np.array([[4], [0], [9], [1]])
    for large in (1, 2000):  # small inputs are copied, large ones are used where they are
        ok, wrong = np.tile(good, (large, 1)), np.concatenate([np.tile(good, (large, 1)), bad])
        for _ in range(2):
            with pytest.raises(irc.Error):
                net(data=data, at=wrong)
            same(net(data=data, at=ok), [data[ok]])


def test_profile_counts_a_loop_as_one_step() -> None:
    net = irc.compile_model(control_flow("nested"))
    times = net.profile({"count": np.array(3), "x": np.arange(2)})
    assert [t.kind for t in times].count("loop") == 1
    assert all(t.native for t in times)


def test_sizes_of_one_plan_serve_all_lengths() -> None:
    net = irc.compile_model(control_flow("scan"))
    other = reference("scan")
    for t in (1, 7, 300, 2):
        inputs = INPUTS["scan"][0]()
        rng = np.random.default_rng(t)
        inputs["x"] = rng.integers(-3, 4, (t, 2)).astype(np.float32)
        inputs["y"] = rng.integers(-3, 4, (2, t)).astype(np.float32)
        same(net(inputs), other.run(None, inputs))


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("sizes", ["3, 5", "N, 5", "N, T"])
def test_scan_with_a_batch_axis(sizes: str, backwards: int) -> None:
    """Operation set 8: the elements of a batch are scanned apart from one another."""
    batch = sizes.partition(",")[0]
    text = f"""<ir_version: 3, opset_import: ["" : 8]>
    net (float[{batch}, 2] s, float[{sizes}, 2] x, float[2] w)
        => (float[{batch}, 2] last, float[{sizes}, 2] all) {{
        last, all = Scan <num_scan_inputs = 1, directions = [{backwards}],
            body = b (float[2] u, float[2] v) => (float[2] next, float[2] kept) {{
            sum = Add (u, v)
            next = Sub (sum, w)
            kept = Mul (next, v)
        }}> ("", s, x)
    }}"""
    model = parser.parse_model(text)
    net = irc.compile_model(model)
    assert not net.plan.host_steps()
    other = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(4)
    for n, t in [(3, 5)] if sizes == "3, 5" else [(3, 5), (1, 5), (70, 5)]:
        shapes = {"s": (n, 2), "x": (n, t, 2), "w": (2,)}
        inputs = {k: rng.integers(-3, 4, v).astype(np.float32) for k, v in shapes.items()}
        same(net(inputs), other.run(None, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("sizes", ["3, 5", "N, 5", "N, T"])
def test_scan_of_sequences_with_lengths(sizes: str, backwards: int) -> None:
    """Operation set 8: each element of the batch ends at its own length; zeros follow. One input
    may go backwards, from its own end, while the other goes forwards. What stands behind the end
    is not looked at: there it divides by zero."""
    batch = sizes.partition(",")[0]
    text = f"""<ir_version: 3, opset_import: ["" : 8]>
    net (int64[{batch}] ends, int32[{batch}, 2] s, int32[{sizes}, 2] x, int32[{sizes}, 2] y)
        => (int32[{batch}, 2] last, int32[{sizes}, 2] all) {{
        last, all = Scan <num_scan_inputs = 2, directions = [{backwards}, 0],
            body = b (int32[2] u, int32[2] v, int32[2] w) => (int32[2] next, int32[2] kept) {{
            next = Add (u, v)
            kept = Div (next, w)
        }}> (ends, s, x, y)
    }}"""
    model = parser.parse_model(text)
    net = irc.compile_model(model)
    assert "native" in net.report()
    other = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(4)
    for ends in ([3, 1, 5], [5, 5, 5], [1, 2, 1]):
        x, y = (rng.integers(1, 40, (3, 5, 2)).astype(np.int32) for _ in range(2))
        inputs = {"ends": np.array(ends), "s": x[:, 0] * 7, "x": x, "y": y}
        wanted = other.run(None, inputs)
        for row, end in zip(y, ends, strict=True):
            row[end:] = 0
        same(net(inputs), wanted)
    inputs["ends"] = np.array([0, 9, 0])
    inputs["s"], inputs["y"] = inputs["s"] + 9999, inputs["y"] + 1
    last, every = net(inputs)
    assert not every[[0, 2]].any() and every[1].all()
    np.testing.assert_array_equal(last[::2], inputs["s"][::2])


def test_lengths_of_another_batch_are_refused() -> None:
    text = """<ir_version: 3, opset_import: ["" : 8]>
    net (int64[2] ends, float[3, 2] s, float[3, 5, 2] x) => (float[3, 2] last) {
        last = Scan <num_scan_inputs = 1, body = b (float[2] u, float[2] v) => (float[2] next)
            { next = Add (u, v) }> (ends, s, x)
    }"""
    with pytest.raises(irc.ShapeError, match="one number per element of the batch") as caught:
        irc.compile_model(parser.parse_model(text))
    assert "i64[2]" in str(caught.value) and "[3]" in str(caught.value)
