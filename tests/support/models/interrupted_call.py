"""A program that runs a model for minutes, until it is interrupted: `interrupted_call.py CASE`.

Another thread calls a second model meanwhile. The program prints "running" when the long call
begins, and "done" when KeyboardInterrupt came, the other thread went on with right results, and the
interrupted model gives right results for small inputs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.ir.interpret import interpret
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, Any]
# A model, inputs that it needs minutes for, and inputs that it needs no time for.
Case = tuple[Any, Arrays, Arrays]


def _model(nodes: Sequence[Any], inputs: dict[str, Any], constants: Arrays | None = None) -> Any:
    ports = [helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in inputs.items()]
    held = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(list(nodes), "long", ports, out, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _zeros(*shape: int) -> Any:
    """An array whose pages take no memory while they are only read."""
    return np.zeros(shape, np.float32)


def matmul() -> Case:
    inputs = {"a": (1, ["m", "k"]), "b": (1, ["k", "n"])}
    model = _model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs)
    long = {"a": _zeros(16384, 65536), "b": _zeros(65536, 16384)}
    return model, long, {"a": np.ones((3, 5), np.float32), "b": np.ones((5, 7), np.float32)}


def integers() -> Case:
    """One product that NumPy computes without BLAS, for minutes, in one call."""
    inputs = {"a": (7, ["m", "k"]), "b": (7, ["k", "n"])}
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=1),
    ]
    long = {name: np.zeros((6000, 6000), np.int64) for name in inputs}
    short = {"a": np.ones((3, 5), np.int64), "b": np.ones((5, 7), np.int64)}
    return _model(nodes, inputs), long, short


def conv() -> Case:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[30] * 4)
    weight = np.random.default_rng(0).standard_normal((64, 64, 61, 61)).astype(np.float32)
    model = _model([node], {"x": (1, [1, 64, "h", "w"])}, {"w": weight})
    return model, {"x": _zeros(1, 64, 1024, 1024)}, {"x": np.ones((1, 64, 1, 1), np.float32)}


def elementwise() -> Case:
    """Long for its many steps: each has a mebielement, and there are iterations without end."""
    body = [helper.make_node("Sin", ["c"], ["d"])]
    return _loop(body, (1 << 20,))


def small_steps() -> Case:
    body = [helper.make_node("Sin", ["c"], ["e"]), helper.make_node("Neg", ["e"], ["d"])]
    return _loop(body, (4,))


def host_steps() -> Case:
    """Python counts the iterations: the body's shapes depend on data."""
    body = [
        helper.make_node("NonZero", ["c"], ["p"]),
        helper.make_node("Cast", ["p"], ["q"], to=1),
        helper.make_node("ReduceSum", ["q"], ["r"], keepdims=0),
        helper.make_node("Mul", ["r", "c"], ["s"]),
        helper.make_node("Cos", ["s"], ["d"]),
    ]
    return _loop(body, (4,))


def _loop(body: Sequence[Any], shape: tuple[int, ...]) -> Case:
    value = helper.make_tensor_value_info
    inner = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), *body],
        "body",
        [value("i", 7, []), value("go", 9, []), value("c", 1, list(shape))],
        [value("go_on", 9, []), value("d", 1, list(shape))],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=inner)
    model = _model([loop], {"n": (7, []), "x": (1, list(shape))})
    x = np.ones(shape, np.float32)
    return model, {"n": np.array(1 << 60), "x": x}, {"n": np.array(3), "x": x}


def recurrent() -> Case:
    size, rng = 2048, np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((1, 4 * size, 8)).astype(np.float32) / 32,
        "r": rng.standard_normal((1, 4 * size, size)).astype(np.float32) / 32,
    }
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=size)
    model = _model([node], {"x": (1, ["t", 1, 8])}, constants)
    return model, {"x": _zeros(20_000, 1, 8)}, {"x": np.ones((3, 1, 8), np.float32)}


CASES: dict[str, Callable[[], Case]] = {
    c.__name__: c for c in (matmul, integers, conv, elementwise, small_steps, host_steps, recurrent)
}


class Other(threading.Thread):
    """Calls a model of its own until told to stop."""

    def __init__(self, threads: int) -> None:
        super().__init__(daemon=True)
        model = matmul()[0]
        self.net = irc.compile_model(model, num_threads=threads)
        self.a = np.random.default_rng(1).integers(-4, 5, (600, 500)).astype(np.float32)
        self.good = self.bad = 0
        self.stop = threading.Event()

    def run(self) -> None:
        wanted = self.a @ self.a.T
        while not self.stop.is_set():
            found = self.net({"a": self.a, "b": np.ascontiguousarray(self.a.T)})[0]
            self.good, self.bad = self.good + 1, self.bad + (not np.array_equal(found, wanted))


def main(name: str, threads: int, how: str) -> None:
    model, long, short = CASES[name]()
    net = irc.compile_model(model, num_threads=threads)
    wanted = net(short)[0].copy()
    call: Callable[[], object] = lambda: net(long)  # noqa: E731
    if how == "bound" and name != "host_steps":
        call = net.bind(long)
    elif how == "interpret":
        graph = irc.read_model(model).graph
        call = lambda: interpret(graph, long)  # noqa: E731
    other = Other(threads)
    other.start()
    for _ in range(2):  # an interrupted call can be interrupted again
        print("running", flush=True)
        try:
            call()
        except KeyboardInterrupt:
            before = other.good
        else:
            raise SystemExit("the call ended by itself")
        while other.good < before + 3 and other.is_alive():
            other.join(0.01)
        assert other.is_alive() and not other.bad
    other.stop.set()
    other.join()
    assert np.array_equal(net(short)[0], wanted)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
