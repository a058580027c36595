"""Errors that leave the API: irc's own, whatever a model or a caller asks for."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler import model as compiler_model
from irc_compiler.compiler.export import xml
from irc_compiler.runtime.execution import session
from irc_compiler.runtime.execution.region_runner import RegionWalk
from onnx import TensorProto, helper


def model(nodes: list, inputs: dict, outputs: list[str]) -> bytes:
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [port(n, t, s) for n, (t, s) in inputs.items()],
        [port(n, TensorProto.UNDEFINED, None) for n in outputs],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_many_symbolic_sizes_beside_a_concat_compile_and_run() -> None:
    """Their estimated bytes are more than 64 bits hold."""
    sizes = [f"d{i}" for i in range(10)]
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("Concat", ["e", "r"], ["c"], axis=0),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    inputs = {"x": (1, sizes), "z": (1, ["q", *sizes[1:]])}
    x = np.full([1] * 9 + [3], 2, np.float32)
    (y,) = irc.compile_model(model(nodes, inputs, ["y"]))(x=x, z=x)
    np.testing.assert_allclose(y, np.concatenate([np.exp(x), x]), rtol=1e-6)


@pytest.mark.parametrize("how", ["call", "out", "bind", "profile"])
def test_memory_that_the_system_refuses(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array without memory of its own, of more elements than the system has bytes."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    inputs = {"x": (1, ["N"]), "i": (7, [])}
    net = irc.compile_model(model(nodes, inputs, ["y"]), max_memory=1 << 62)
    given = [np.broadcast_to(np.float32(1), [1 << 46]), np.array(0)]
    calls = {
        "call": lambda: net(given),
        "out": lambda: net(given, out=[None]),
        "bind": lambda: net.bind(given)(),
        "profile": lambda: net.profile(given),
    }
    with pytest.raises(irc.MemoryLimitError) as caught:
        calls[how]()
    assert "256. TiB" in str(caught.value) or "bytes" in str(caught.value)


@pytest.mark.parametrize("sizes", [[1 << 40, 1 << 30], [1 << 46]])
def test_tensors_of_declared_sizes_that_no_array_has(sizes: list[int]) -> None:
    import irc_compiler.compat.openvino as ov

    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, sizes)}, ["y"])
    with pytest.raises(irc.MemoryLimitError):
        ov.Core().compile_model(relu, "CPU").create_infer_request().get_input_tensor()


def refuse_memory(*_: object, **__: object) -> None:
    raise MemoryError("no more memory")


@pytest.mark.parametrize("how", ["context", "fast call", "bound call", "read_model", "save_model"])
def test_memory_that_the_allocator_refuses(
    how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where memory is allocated, one place after another: MemoryLimitError, never MemoryError."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]  # on the host: a bound call runs regions
    source = model(nodes, {"x": (1, ["N"])}, ["y"])
    net, x = irc.compile_model(source), np.ones(3, np.float32)
    bound = net.bind([x])
    identity = [helper.make_node("Relu", ["x"], ["y"])]
    relu = irc.compile_model(model(identity, {"x": (1, [3])}, ["y"]))
    relu([x])
    patches = {
        "context": (session, "ExecutionContext", lambda: irc.compile_model(source)([x])),
        "fast call": (relu.session._pool[-1], "repeat", lambda: relu([x])),
        "bound call": (RegionWalk, "run", bound),
        "read_model": (compiler_model, "_read_graph", lambda: irc.read_model(source)),
        "save_model": (xml, "write_xml", lambda: irc.save_model(source, tmp_path / "m.xml")),
    }
    target, name, call = patches[how]
    monkeypatch.setattr(target, name, refuse_memory)
    with pytest.raises(irc.MemoryLimitError, match="not enough memory"):
        call()
