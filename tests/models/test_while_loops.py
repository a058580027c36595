"""Loops as OpenVINO's converter writes TensorFlow's `while_loop` with a TensorArray, and tf2onnx
its own: their condition compares counters with bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import openvino as ov
import pytest
from openvino import opset13 as o
from support.models.oracles import run_onnxruntime

FEATURES = 3


def recurrent(
    steps: int,
    *,
    array: str = "each",
    bound: str = "constant",
    elements: int | None = None,
    reads: bool = False,
    flag: bool = False,
) -> Any:
    """h = tanh(x[t] + h), written to an array: each element of it (`array` "each"), its only one
    ("last"), or every second ("even"). bound: of the second counter, a constant, the size of x, or
    one that the body changes. reads: the body reads what it wrote before. flag: an input says
    whether there is a first step. steps: -1, a dynamic number."""
    x = o.parameter([steps, -1, FEATURES], np.float32, name="x")
    shape = o.shape_of(x, "i32")
    zero, one = (o.constant(np.int32(n)) for n in (0, 1))

    def size(axis: int) -> Any:
        return o.gather(shape, o.constant(np.int32([axis])), zero)

    length = o.squeeze(size(0), zero) if steps < 0 else o.constant(np.int32(steps))
    state = o.broadcast(np.float32(0), o.concat([size(1), np.int32([FEATURES])], 0))
    count = elements if elements is not None else 1 if array == "last" else steps
    lead = np.int32([count]) if count >= 0 else o.unsqueeze(length, zero)
    list_ = o.broadcast(np.float32(0), o.concat([lead, np.int32([1, 1])], 0))

    counter, time = (o.parameter([], np.int32) for _ in range(2))
    array_in = o.parameter([-1, -1, -1], np.float32)
    h, data = o.parameter([-1, FEATURES], np.float32), o.parameter([-1, -1, 3], np.float32)
    limit = o.parameter([], np.int32)
    part = o.gather(data, time, np.int32([0]))
    now = o.tanh(o.add(part, h))
    if reads:
        now = o.add(now, o.reduce_max(array_in, np.int32([0, 1, 2])))
    wide = o.concat(
        [o.slice(o.shape_of(array_in, "i32"), [0], [1], [1]), o.shape_of(now, "i32")], 0
    )
    at = {
        "each": o.reshape(time, np.int64([-1]), False),
        "last": o.constant(np.int32([0])),
        "even": o.reshape(o.multiply(time, np.int32(2)), np.int64([-1]), False),
    }[array]
    written = o.scatter_update(
        o.broadcast(array_in, wide), at, o.unsqueeze(now, np.int64([0])), np.int32([0])
    )
    after, later = o.add(counter, one), o.add(time, one)
    limit_after = o.subtract(limit, np.int32(1)) if bound == "changing" else limit
    most = o.constant(np.int32(steps)) if bound == "constant" else limit
    again = o.logical_and(o.less(after, most), o.less(later, limit))
    results = [after, later, written, now, limit_after]
    body = ov.Model([*results, again], [counter, time, array_in, h, data, limit], "step")
    first = o.less(zero, length)
    first = o.constant(np.array(True)) if steps > 0 else o.logical_and(first, first)
    start = o.parameter([], np.bool_)
    loop = o.loop(o.constant(np.int32(-1)), start if flag else first)
    loop.set_function(body)
    loop.set_special_body_ports([-1, len(results)])
    starts = (zero, zero, list_, state, length)
    for parameter, value, result in zip(
        (counter, time, array_in, h, limit), starts, results, strict=True
    ):
        loop.set_merged_input(parameter, value.output(0), result.output(0))
    loop.set_invariant_input(data, x.output(0))
    made = [loop.get_iter_value(v.output(0), -1) for v in (written, now)]
    return ov.Model([o.result(v) for v in made], [x, start] if flag else [x], "net")


def expected(x: np.ndarray, array: str) -> tuple[np.ndarray, np.ndarray]:
    """The array and the state after all steps."""
    h, rows = np.zeros(x.shape[1:], np.float32), list[np.ndarray]()
    for part in x:
        h = np.tanh(part + h)
        rows.append(h)
    return (np.stack(rows) if array == "each" else h[None]), h


def compile_saved(model: Any, folder: Path) -> irc.CompiledModel:
    ov.save_model(model, folder / "m.xml", compress_to_fp16=False)
    return irc.compile_model(folder / "m.xml")


@pytest.mark.parametrize("bound", ["constant", "size"])
@pytest.mark.parametrize("array", ["each", "last"])
@pytest.mark.parametrize("steps", [1, 6, -1])
def test_an_array_that_a_loop_fills_is_a_native_scan_output(
    tmp_path: Path, steps: int, array: str, bound: str
) -> None:
    bound = "size" if steps < 0 else bound
    net = compile_saved(recurrent(steps, array=array, bound=bound), tmp_path)
    assert " 0 in Python" in net.report(), net.report()
    for count in {steps} if steps > 0 else {1, 4, 9}:
        x = np.random.default_rng(count).standard_normal((count, 2, 3)).astype(np.float32)
        for got, want in zip(net([x]), expected(x, array), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_no_step_gives_an_array_without_elements(tmp_path: Path) -> None:
    net = compile_saved(recurrent(-1, bound="size"), tmp_path)
    array, state = net([np.zeros((0, 2, 3), np.float32)])
    assert array.shape == (0, 2, 3) and not state.any()


@pytest.mark.parametrize("goes", [True, False])
def test_a_first_condition_that_is_no_comparison_counts(tmp_path: Path, goes: bool) -> None:
    net = compile_saved(recurrent(-1, bound="size", flag=True), tmp_path)
    x = np.random.default_rng(0).standard_normal((3, 2, 3)).astype(np.float32)
    state = net([x, np.array(goes)])[1]
    want = expected(x, "each")[1] if goes else np.zeros((2, 3))
    np.testing.assert_allclose(state, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"array": "even", "elements": 12},
        {"array": "each", "elements": 8},
        {"array": "each", "reads": True},
        {"array": "last", "elements": 2},
        {"array": "each", "bound": "changing"},
    ],
    ids=["every second element", "a longer array", "read", "one of two", "another bound"],
)
def test_other_arrays_stay_as_they_are(tmp_path: Path, options: dict[str, Any]) -> None:
    model = recurrent(6, **options)
    net = compile_saved(model, tmp_path)
    x = np.random.default_rng(0).standard_normal((6, 2, 3)).astype(np.float32)
    peer = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])
    for got, want in zip(net([x]), peer.values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def counted(start: int, step: int, more: int, bound: float, limit: int) -> onnx.ModelProto:
    """Counts the iterations of a loop that goes on while counter + more < bound, in f32."""
    most = f"Constant <value_float = {bound:f}> ()"
    if not np.isfinite(bound):
        most = "Reciprocal (zero)" if bound > 0 else "Div (zero, zero)"
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
      g (float[2] x) => (float[2] y, int64[N] seen) {{
        limit = Constant <value_int = {limit}> ()
        yes = Constant <value = bool {{1}}> ()
        start = Constant <value_int = {start}> ()
        zero = Constant <value_float = 0.0> ()
        most = {most}
        i9, y, seen = Loop (limit, yes, start, x) <body = each
            (int64 t, bool go, int64 i, float[2] v)
            => (bool on, int64 next, float[2] w, int64 now) {{
          step = Constant <value_int = {step}> ()
          more = Constant <value_int = {more}> ()
          bound = Identity (most)
          one = Constant <value_float = 1.0> ()
          next = Add (i, step)
          later = Add (more, i)
          number = Cast <to = 1> (later)
          on = Less (number, bound)
          w = Add (v, one)
          now = Identity (i)
        }}>
      }}""")


@pytest.mark.parametrize("limit", [9223372036854775807, 4, 0])
@pytest.mark.parametrize(("start", "step", "more"), [(0, 1, 1), (0, 1, 0), (2, 3, 3), (-4, 2, -1)])
@pytest.mark.parametrize("bound", [-9, 0, 5, 11, 12])
def test_iterations_are_counted_as_the_condition_does(
    start: int, step: int, more: int, bound: int, limit: int
) -> None:
    model = counted(start, step, more, bound, limit)
    net = irc.compile_model(model)
    x = np.float32([0, 1])
    for got, want in zip(net([x]), run_onnxruntime(model, {"x": x}).values(), strict=True):
        np.testing.assert_array_equal(got, want)
    assert " 0 in Python" in net.report(), net.report()


@pytest.mark.parametrize(("step", "bound"), [(-1, 3), (0, 1), (1, 2.5), (1, np.inf), (1, np.nan)])
def test_what_is_no_count_is_left_to_the_condition(step: int, bound: float) -> None:
    """Counters that do not grow, and bounds that are no integers."""
    model = counted(0, step, 1, bound, 5)
    x = np.float32([0, 1])
    found = irc.compile_model(model)([x])
    for got, want in zip(found, run_onnxruntime(model, {"x": x}).values(), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_loop_without_a_limit_runs_while_its_condition_holds() -> None:
    """As jax2onnx writes `lax.while_loop`."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
      g (float[8] x) => (float[8] y) {
        limit = Constant <value_int = 9223372036854775807> ()
        most = Constant <value_float = 100.0> ()
        sum = ReduceSumSquare <keepdims = 0> (x)
        first = Less (sum, most)
        y = Loop (limit, first, x) <body = each (int64 t, bool go, float[8] v)
            => (bool on, float[8] w) {
          factor = Constant <value_float = 1.5> ()
          bound = Constant <value_float = 100.0> ()
          w = Mul (v, factor)
          squares = ReduceSumSquare <keepdims = 0> (w)
          on = Less (squares, bound)
        }>
      }""")
    net = irc.compile_model(model)
    assert " 0 in Python" in net.report(), net.report()
    for factor in (1, 0.01, 100):
        x = np.arange(8, dtype=np.float32) * np.float32(factor)
        (want,) = run_onnxruntime(model, {"x": x}).values()
        np.testing.assert_array_equal(net([x])[0], want)


def test_conditions_of_many_terms_and_additions_are_read_once() -> None:
    """Each term twice in the one behind it, and a counter of thousands of additions."""
    terms = "\n".join(f"a{n + 1} = And (a{n}, a{n})" for n in range(100))
    steps = "\n".join(f"i{n + 1} = Add (i{n}, one)" for n in range(3000))
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
      g (float[2] x) => (float[2] y) {{
        limit = Constant <value_int = 9223372036854775807> ()
        yes = Constant <value = bool {{1}}> ()
        start = Constant <value_int = 0> ()
        i9, y = Loop (limit, yes, start, x) <body = each
            (int64 t, bool go, int64 i0, float[2] v) => (bool a100, int64 next, float[2] w) {{
          one = Constant <value_int = 1> ()
          bound = Constant <value_int = 3004> ()
          factor = Constant <value_float = 2.0> ()
          next = Add (i0, one)
          {steps}
          a0 = Less (i3000, bound)
          {terms}
          w = Mul (v, factor)
        }}>
      }}""")
    (found,) = irc.compile_model(model)([np.float32([1, 3])])
    np.testing.assert_array_equal(found, [32, 96])


def test_a_count_beyond_all_numbers_is_left_to_the_condition() -> None:
    """Compiled only: it would run for centuries."""
    net = irc.compile_model(counted(-(2**63), 1, 0, 5, 2**63 - 1))
    assert "in Python  Loop" in net.report()
