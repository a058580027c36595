"""Steps in rounds, between which calls poll for signals: the numbers are those of one piece."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.runtime.driver import signal_polling as interrupts
from onnx import helper, numpy_helper

RNG = np.random.default_rng(3)


def _weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


CASES: dict[str, tuple[list[Any], list[Any], tuple[int, ...]]] = {
    "products": (
        [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Tanh", ["t"], ["y"])],
        [_weight("w", 48, 40)],
        (37, 48),
    ),
    "convolution": (
        [helper.make_node("Conv", ["x", "w"], ["t"]), helper.make_node("MaxPool", ["t"], ["y"],
                                                                       kernel_shape=[2, 2])],
        [_weight("w", 24, 16, 3, 3)],
        (2, 16, 13, 13),
    ),
    "reductions": (
        [helper.make_node("Softmax", ["x"], ["t"]), helper.make_node("ReduceSum", ["t"], ["y"])],
        [],
        (17, 9, 33),
    ),
    "recurrence": (
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=24)],
        [_weight("w", 1, 72, 16), _weight("r", 1, 72, 24)],
        (19, 1, 16),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_rounds_give_the_same_numbers(
    case: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, weights, shape = CASES[case]
    x = helper.make_tensor_value_info("x", 1, list(shape))
    y = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    given = RNG.standard_normal(shape).astype(np.float32)
    wanted = irc.compile_model(model, num_threads=threads)(given)[0]
    for name in ("POLL_WORK", "LONG_WORK", "ROUND_WORK", "PRODUCT_ROUND_WORK"):
        monkeypatch.setattr(interrupts, name, 100)
    net = irc.compile_model(model, num_threads=threads)
    found = net(given)[0]
    (layout,) = net.session.regions.layouts.values()
    assert layout.polls and (layout.flags >> 32).max() > 1
    assert np.array_equal(found, wanted)
