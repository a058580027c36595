"""Operations and passes of the caller: read from ONNX and IR, run, saved, kept by name in .irc."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.api.extensions import (
    Array,
    Builder,
    Fact,
    Graph,
    Op,
    Patch,
    Port,
    Ref,
    ShapeError,
    TensorType,
    Unary,
    Value,
    operations,
)
from irc_compiler.cli.main import main
from onnx import TensorProto, helper

DOMAIN = "test.customop"


@dataclass(frozen=True)
class SoftThreshold(Unary):
    """sign(x) * max(|x| - bound, 0): a scalar program, so that it is native and fuses."""

    kind: ClassVar[str] = "SoftThreshold"
    domain: ClassVar[str] = DOMAIN
    bound: float = 0.5

    def program(self, b: Builder, *x: Ref) -> Ref:
        size = b.op("sub", b.op("abs", x[0]), b.const(self.bound, x[0].dtype))
        return b.op("mul", b.op("sign", x[0]), b.op("max", size, b.const(0, x[0].dtype)))


@dataclass(frozen=True)
class PairSums(Op):
    """Sums of neighbours along the last axis: computed by NumPy."""

    kind: ClassVar[str] = "PairSums"
    domain: ClassVar[str] = DOMAIN
    inputs: ClassVar[tuple[Port, ...]] = (Port("x"),)
    weights: tuple[float, ...] = (1.0, 1.0)

    def infer(self, x: Fact) -> tuple[Any, ...]:
        shape = x.tensor.shape
        if not shape:
            raise ShapeError("PairSums needs an axis", got=x.type)
        return (TensorType(x.tensor.dtype, (*shape[:-1], shape[-1] - 1)),)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        one, two = (np.asarray(w, x.dtype) for w in self.weights)
        return (one * x[..., :-1] + two * x[..., 1:],)


EXTENSIONS = [SoftThreshold, PairSums]


def double_abs(graph: Graph, node: int) -> Patch | None:
    """Abs(x) becomes Abs(x) + Abs(x)."""
    record = graph.node(node)
    if record.op.kind != "Abs" or record.name.endswith("again"):
        return None
    patch = Patch()
    size = patch.add(operations.Abs(), graph.input(node, 0), name="again")
    return patch.replace(Value(node), patch.add(operations.Add(), size, size))


def model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("SoftThreshold", ["x"], ["s"], domain=DOMAIN, bound=0.25),
        helper.make_node("Add", ["a", "s"], ["t"]),
        helper.make_node("PairSums", ["t"], ["y"], domain=DOMAIN, weights=[1.0, 2.0]),
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", d])
        for n, d in (("x", 4), ("y", 3))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


X = np.array([[-1.0, 0.1, 0.3, 2.0]], np.float32)


def expected(factor: float = 1) -> Any:
    t = factor * np.abs(X) + np.sign(X) * np.maximum(np.abs(X) - np.float32(0.25), 0)
    return t[:, :-1] + 2 * t[:, 1:]


def test_operations_are_read_run_and_fused() -> None:
    net = irc.compile_model(model(), extensions=EXTENSIONS)
    np.testing.assert_allclose(net(X)[0], expected(), rtol=1e-6)
    assert [s.op.kind for s in net.plan.host_steps()] == ["PairSums"]
    assert "SoftThreshold" not in net.graph.kinds()  # it is part of an elementwise kernel


def test_passes_change_what_was_read() -> None:
    read = irc.read_model(model(), extensions=[*EXTENSIONS, double_abs])
    np.testing.assert_allclose(irc.compile_model(read)(X)[0], expected(2), rtol=1e-6)


def test_every_format_keeps_them(tmp_path: Path) -> None:
    read = irc.read_model(model(), extensions=EXTENSIONS)
    for name in ("m.xml", "m.onnx"):
        irc.save_model(read, tmp_path / name)
        net = irc.compile_model(tmp_path / name, extensions=EXTENSIONS)
        np.testing.assert_allclose(net(X)[0], expected(), rtol=1e-6)
    assert 'type="PairSums" version="extension"' in (tmp_path / "m.xml").read_text()
    written = onnx.load(tmp_path / "m.onnx")
    assert {n.domain for n in written.graph.node} == {"", DOMAIN}
    irc.compile_model(read).export(tmp_path / "m.irc")
    np.testing.assert_allclose(irc.compile_model(tmp_path / "m.irc")(X)[0], expected(), rtol=1e-6)


@pytest.mark.slow
def test_another_process_is_asked_for_them(tmp_path: Path) -> None:
    read = irc.read_model(model(), extensions=EXTENSIONS)
    irc.compile_model(read).export(tmp_path / "m.irc")
    irc.save_model(read, tmp_path / "m.xml")
    code = (
        "import sys, irc_compiler as irc\n"
        "for path in sys.argv[1:]:\n"
        "    try: irc.compile_model(path)\n"
        "    except irc.UnsupportedOperationError as error: print(error)\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "m.irc"), str(tmp_path / "m.xml")]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert "got: PairSums, SoftThreshold" in said and "extensions=[...]" in said
    assert "PairSums extension: 1 x" in said
    np.save(tmp_path / "x.npy", X)
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--extension", __file__]
    arguments = ["run", str(tmp_path / "m.irc"), *given]
    done = subprocess.run(
        [sys.executable, "-m", "irc_compiler", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_command_line_imports_a_module(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    out = str(tmp_path / "m.xml")
    assert main(["convert", str(tmp_path / "m.onnx"), "-o", out, "--extension", __file__]) == 0
    (tmp_path / "empty.py").write_text("")
    command = ["inspect", str(tmp_path / "m.onnx"), "--extension"]
    assert main([*command, str(tmp_path / "empty.py")]) == 2
    assert main([*command, "no_such_module_anywhere"]) == 2


@dataclass(frozen=True)
class Relu(Op):
    kind: ClassVar[str] = "Relu"


@dataclass(frozen=True)
class Wide(Op):
    kind: ClassVar[str] = "Wide"
    table: dict[str, int] | None = None


@pytest.mark.parametrize(
    ("extension", "expected"),
    [(Relu, "name of one of irc's"), (Wide, "type that files do not hold"), (3, "neither")],
)
def test_what_is_no_extension_is_refused(extension: Any, expected: str) -> None:
    with pytest.raises(irc.UsageError, match=expected):
        irc.read_model(model(), extensions=[extension])


def test_an_unknown_attribute_is_named() -> None:
    proto = model()
    proto.graph.node[1].attribute.append(helper.make_attribute("limit", 1.0))
    with pytest.raises(irc.ModelFormatError, match="no such attribute") as caught:
        irc.read_model(proto, extensions=EXTENSIONS)
    assert "limit" in str(caught.value) and "bound" in str(caught.value)
