"""If, Loop and TensorIterator of opset modules, and Model.evaluate: one script on both packages."""

from __future__ import annotations

import importlib
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino
import pytest

stand_in = importlib.import_module("irc_compiler.compat.openvino")
RNG = np.random.default_rng(0)
X, H = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 3), (2, 1, 3)))


def opset(ov: Any) -> Any:
    return importlib.import_module(f"{ov.__name__}.opset13")


def evaluate(ov: Any, model: Any, *inputs: Any) -> list[Any]:
    made = [ov.Tensor(ov.Type.f32, ov.Shape([1])) for _ in model.outputs]
    assert model.evaluate(made, [ov.Tensor(np.array(v)) for v in inputs])
    return [np.array(t.data) for t in made]


def run(ov: Any, model: Any, *inputs: Any) -> list[Any]:
    net = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = net(list(inputs))
    return [np.array(found[n]) for n in range(len(net.outputs))]


def iterated(ov: Any, stride: int) -> Any:
    """A cell over the parts of an input, forwards or backwards."""
    o = opset(ov)
    x, h = o.parameter([2, 5, 3], np.float32), o.parameter([2, 1, 3], np.float32)
    part, state, factor = (o.parameter(s, np.float32) for s in ([2, 1, 3], [2, 1, 3], [1]))
    after = o.tanh(o.add(o.multiply(part, factor), state))
    double = o.multiply(after, np.float32(2))
    body = ov.Model([o.result(after), o.result(double)], [part, state, factor], "body")
    node = o.tensor_iterator()
    node.set_body(body)
    start, end = (0, -1) if stride > 0 else (-1, 0)
    node.set_sliced_input(part, x.output(0), start, stride, 1, end, 1)
    node.set_merged_input(state, h.output(0), after.output(0))
    node.set_invariant_input(factor, o.constant(np.array([0.5], np.float32)).output(0))
    last = node.get_iter_value(after.output(0), -1)
    joined = node.get_concatenated_slices(double.output(0), start, stride, 1, end, 1)
    return ov.Model([o.result(last), o.result(joined)], [x, h], "net")


def looped(ov: Any, limit: int) -> Any:
    """A value that grows by the iteration's number, while its largest element is below 6."""
    o = opset(ov)
    x = o.parameter([1, 3], np.float32)
    value, count = o.parameter([1, 3], np.float32), o.parameter([], np.int64)
    after = o.add(o.add(value, o.convert(count, "f32")), np.float32(1))
    largest = o.reduce_max(after, np.array([0, 1]), False)
    condition = o.less(largest, np.float32(6))
    body = ov.Model([o.result(condition), o.result(after)], [count, value], "body")
    node = o.loop(o.constant(np.int64(limit)), o.constant(np.array(True)))
    node.set_function(body)
    node.set_merged_input(value, x.output(0), after.output(0))
    node.set_special_body_ports([0, 0])
    last = node.get_iter_value(after.output(0), -1)
    joined = node.get_concatenated_slices(after.output(0), 0, 1, 1, -1, 0)
    return ov.Model([o.result(last), o.result(joined)], [x], "net")


def chosen(ov: Any) -> Any:
    """x + y, or x * 3 in a body that does not read y."""
    o = opset(ov)
    condition = o.parameter([], np.bool_)
    x, y = (o.parameter([2, 3], np.float32) for _ in range(2))
    a, b, c = (o.parameter([2, 3], np.float32) for _ in range(3))
    then_result, else_result = o.result(o.add(a, b)), o.result(o.multiply(c, np.float32(3)))
    node = o.if_op(condition)
    node.set_then_body(ov.Model([then_result], [a, b], "then"))
    node.set_else_body(ov.Model([else_result], [c], "else"))
    node.set_input(x.output(0), a, c)
    node.set_input(y.output(0), b, None)
    out = node.set_output(then_result, else_result)
    return ov.Model([o.result(out)], [condition, x, y], "net")


def check(script: Any, *inputs: Any) -> None:
    wanted = run(openvino, script(openvino), *inputs)
    model = script(stand_in)
    for found in (run(stand_in, model, *inputs), evaluate(stand_in, model, *inputs)):
        for got, want in zip(found, wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, -1])
def test_tensor_iterator(stride: int) -> None:
    check(lambda ov: iterated(ov, stride), X, H)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2, 10])
def test_loop(limit: int) -> None:
    check(lambda ov: looped(ov, limit), X[0, :1])


@pytest.mark.slow
@pytest.mark.parametrize("condition", [False, True])
def test_if(condition: bool) -> None:
    check(chosen, np.array(condition), X[0, :2], X[1, :2])


def test_each_set_has_the_functions_that_openvino_has() -> None:
    for number in range(1, 17):
        real, own = (
            importlib.import_module(f"{ov.__name__}.opset{number}") for ov in (openvino, stand_in)
        )
        for name in ("if_op", "loop", "tensor_iterator"):
            assert hasattr(own, name) == hasattr(real, name), (number, name)


def test_evaluate_as_openvino_does() -> None:
    def script(ov: Any) -> list[Any]:
        o = opset(ov)
        x = o.parameter([2, -1], np.float32)
        model = ov.Model([o.result(o.relu(x)), o.result(o.reduce_sum(x, 1, False))], [x], "net")
        return evaluate(ov, model, X[0, :2])

    for got, want in zip(script(stand_in), script(openvino), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    model = chosen(stand_in)
    with pytest.raises(irc.InputError, match="one tensor per output"):
        model.evaluate([], [])
    o = opset(stand_in)
    node = o.tensor_iterator()
    with pytest.raises(irc.UsageError, match="no body yet"):
        node.set_invariant_input(o.parameter([1], np.float32), o.parameter([1], np.float32))
    node.set_body(stand_in.Model([o.result(o.relu(x := o.parameter([1], np.float32)))], [x], "b"))
    with pytest.raises(irc.UsageError, match="no such parameter"):
        node.set_invariant_input(o.parameter([1], np.float32), x.output(0))
    with pytest.raises(irc.UsageError, match="no such result"):
        node.get_iter_value(o.relu(x).output(0))
    with pytest.raises(irc.UsageError, match="last iteration"):
        node.get_iter_value(x.output(0), 3)
