"""Sizes that contradict each other are refused, also where the model leaves all of them open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op
from support.models.stateful import CONFIG, parameter, save

Build = Callable[..., Any]


def ones(*shape: int) -> Any:
    return op.constant(np.ones(shape, np.float32))


def ints(*values: int) -> Any:
    return op.constant(np.array(values))


# What is built of open inputs; shapes that fit; shapes that don't.
CASES: dict[str, tuple[Build, list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "concat": (lambda a, b: op.concat([a, b], 1), [(2, 3), (2, 4)], [(1, 3), (2, 4)]),
    "concat constant": (lambda a: op.concat([a, ones(2, 3)], 1), [(2, 4)], [(3, 4)]),
    "product": (lambda a, b: op.matmul(a, b, False, False), [(2, 3), (3, 4)], [(2, 3), (4, 4)]),
    "product, weights": (lambda a: op.matmul(a, ones(4, 3), False, False), [(2, 4)], [(2, 5)]),
    "product, bias": (
        lambda a, b: op.add(op.matmul(a, b, False, False), ones(2)),
        [(2, 5), (5, 2)],
        [(2, 5), (5, 3)],
    ),
    "sum": (lambda a: op.add(a, ones(4)), [(3, 4)], [(3, 5)]),
    "sum of 1": (lambda a: op.add(a, ones(4)), [(3, 1)], [(3, 3)]),
    "sum, twice": (lambda a: op.relu(op.add(op.exp(a), ones(4))), [(3, 1)], [(3, 6)]),
    "select": (
        lambda a: op.select(op.constant(np.array([True] * 4)), a, op.exp(a)),
        [(2, 4)],
        [(2, 5)],
    ),
    "reshape": (lambda a: op.reshape(a, ints(2, 3), False), [(3, 2)], [(2, 6)]),
    "reshape to -1": (lambda a: op.reshape(a, ints(-1, 5), False), [(2, 10)], [(2, 6)]),
    "reshape to 0": (lambda a: op.reshape(a, ints(0, 3), True), [(2, 3)], [(2, 6)]),
    "reshape to another's": (
        lambda a, b: op.reshape(a, op.shape_of(b), False),
        [(2, 6), (3, 4)],
        [(2, 6), (2, 3)],
    ),
    "broadcast": (lambda a: op.broadcast(a, ints(2, 4)), [(1,)], [(5,)]),
    "split": (lambda a: op.split(a, op.constant(np.int64(1)), 3).output(0), [(2, 6)], [(2, 7)]),
    "parts": (
        lambda a: op.variadic_split(a, op.constant(np.int64(1)), ints(2, 3)).output(1),
        [(2, 5)],
        [(2, 7)],
    ),
    "squeeze": (lambda a: op.squeeze(a, ints(0)), [(1, 7)], [(2, 7)]),
    "slope": (lambda a: op.prelu(a, ones(3)), [(2, 3)], [(2, 5)]),
    "convolution": (
        lambda a: op.convolution(a, ones(2, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1]),
        [(1, 3, 4, 4)],
        [(1, 4, 4, 4)],
    ),
    "norm": (
        lambda a: op.multiply(op.mvn(a, ints(-1), True, 1e-5, "inside_sqrt"), ones(4)),
        [(2, 4)],
        [(2, 6)],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_open_sizes_that_contradict(name: str, tmp_path: Path) -> None:
    build, right, wrong = CASES[name]
    inputs = [parameter(f"i{n}", [-1] * len(s)) for n, s in enumerate(right)]
    path = save(tmp_path / "m.xml", [op.result(build(*inputs))], inputs, [])
    theirs = ov.Core().compile_model(path, "CPU", CONFIG)
    net = irc.compile_model(path, verify=True)
    assert not net.plan.host_steps()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in right]
    for found, expected in zip(net(arrays), theirs(arrays).values(), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    bad = [np.ones(s, np.float32) for s in wrong]
    for call in (lambda: net(bad), lambda: net.bind(bad), lambda: net(arrays) and net(bad)):
        with pytest.raises(irc.InputError) as error:
            call()
        assert "leaves" not in str(error.value)
    np.testing.assert_array_equal(net(arrays)[0], net.bind(arrays)()[0])


def test_what_inputs_have_to_be_is_known_before_a_run(tmp_path: Path) -> None:
    a, b = parameter("a", [-1, -1]), parameter("b", [-1, -1])
    value = op.matmul(op.relu(op.matmul(a, b, False, False)), ones(7, 3), False, False)
    path = save(tmp_path / "m.xml", [op.result(value)], [a, b], [])
    assert [p.shape for p in irc.read_model(path).inputs] == [("a.0", "a.1"), ("b.0", "b.1")]
    net = irc.compile_model(path)
    assert [p.shape for p in net.inputs] == [("a.0", "a.1"), ("a.1", 7)]
    with pytest.raises(irc.InputError, match=r"axis 1 of input 'b'"):
        net({"a": np.ones((2, 5), np.float32), "b": np.ones((5, 6), np.float32)})


def test_a_model_that_no_input_fits(tmp_path: Path) -> None:
    a = parameter("a", [-1, -1])
    both = [op.result(op.matmul(a, ones(n, 2), False, False)) for n in (3, 4)]
    path = save(tmp_path / "m.xml", both, [a], [])
    with pytest.raises(irc.ShapeError, match="inner sizes") as error:
        irc.compile_model(path)
    assert "a.1" in str(error.value) and "MatMul" in str(error.value)
