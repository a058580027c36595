"""Convolutions with dilated rows: which are split by remainders, and that they compute the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.specs.convolution import ConvSpec
from onnx import TensorProto, helper, numpy_helper
from support.kernels.harness import ISAS


@dataclass(frozen=True)
class Dilated:
    """A convolution of data [batch, 16, *size] with 24 filters. `pads_end` (): as at the
    beginning."""

    size: tuple[int | str, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    pads_end: tuple[int, ...] = ()
    kernel: tuple[int, ...] = (3, 3)
    batch: int = 1
    stride: int = 1
    groups: int = 1

    @property
    def results(self) -> list[int | str]:
        """The shape of the result."""
        ends = self.pads_end or self.pads
        pads = [begin + end for begin, end in zip(self.pads, ends, strict=True)]
        axes = zip(self.size, self.dilations, pads, self.kernel, strict=True)
        sizes = [
            (n + pad - d * (k - 1) - 1) // self.stride + 1 if isinstance(n, int) else n
            for n, d, pad, k in axes
        ]
        return [self.batch, 24, *sizes]

    def make_model(self, kind: Literal["Conv", "ConvInteger"]) -> bytes:
        """y = relu(convolution of x + r) of f32; of bytes, the convolution."""
        filters = np.random.default_rng(0).integers(-3, 4, (24, 16 // self.groups, *self.kernel))
        attributes = {
            "pads": self.pads + (self.pads_end or self.pads),
            "dilations": self.dilations,
            "strides": (self.stride,) * len(self.size),
            "group": self.groups,
        }
        data = [self.batch, 16, *self.size]
        if kind == "ConvInteger":
            nodes = [helper.make_node(kind, ["x", "w"], ["y"], **attributes)]
            inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, data)]
            weights, result = filters.astype(np.int8), TensorProto.INT32
        else:
            nodes = [
                helper.make_node(kind, ["x", "w"], ["c"], **attributes),
                helper.make_node("Add", ["c", "r"], ["s"]),
                helper.make_node("Relu", ["s"], ["y"]),
            ]
            shapes = {"x": data, "r": self.results}
            weights, result = filters.astype(np.float32), TensorProto.FLOAT
            inputs = [helper.make_tensor_value_info(n, result, s) for n, s in shapes.items()]
        graph = helper.make_graph(
            nodes,
            "dilated",
            inputs,
            [helper.make_tensor_value_info("y", result, None)],
            [numpy_helper.from_array(weights, "w")],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


# The batch and the sizes of the results of the convolutions that are left.
Parts = list[tuple[int, ...]]
CASES: dict[str, tuple[Dilated, Parts]] = {
    "equal parts": (Dilated((16, 12), (2, 2), (2, 2)), [(1, 2, 8, 12)]),
    "one row more": (Dilated((17, 12), (2, 2), (2, 2)), [(1, 1, 9, 12), (1, 1, 8, 12)]),
    "a batch": (Dilated((10, 7), (3, 1), (3, 1), batch=2), [(2, 1, 4, 7), (2, 2, 3, 7)]),
    "fewer rows than data": (Dilated((21, 9), (4, 1), (0, 0)), [(1, 1, 4, 7), (1, 3, 3, 7)]),
    "three numbers of rows": (
        Dilated((17, 7), (4, 1), (4, 0), pads_end=(5, 0)),
        [(1, 1, 5, 5), (1, 1, 5, 5), (1, 2, 4, 5)],
    ),
    "more rows than data": (Dilated((5, 9), (2, 2), (4, 2)), [(1, 1, 5, 9), (1, 1, 4, 9)]),
    "no data for some rows": (
        Dilated((3, 9), (4, 1), (8, 1)),
        [(1, 3, 3, 9), (1, 1, 2, 9)],
    ),
    "even taps": (
        Dilated((12, 9), (3, 2), (3, 1), kernel=(4, 2)),
        [(1, 3, 3, 9)],
    ),
    "groups": (Dilated((8, 8), (2, 2), (2, 2), groups=2), [(1, 2, 4, 8)]),
    "volume": (
        Dilated((4, 9, 7), (2, 2, 2), (2, 2, 2), kernel=(3, 3, 3)),
        [(1, 4, 5, 7), (1, 4, 4, 7)],
    ),
    "volumes": (
        Dilated((4, 9, 7), (2, 2, 2), (2, 2, 2), kernel=(3, 3, 3), batch=2),
        [(2, 4, 9, 7)],
    ),
    "line": (Dilated((20,), (2,), (2,), kernel=(3,)), [(1, 20)]),
    "one row of taps": (Dilated((8, 9), (2, 2), (0, 2), kernel=(1, 3)), [(1, 8, 9)]),
    "only columns": (Dilated((8, 9), (1, 2), (1, 2)), [(1, 8, 9)]),
    "other paddings": (Dilated((8, 9), (2, 2), (1, 1)), [(1, 6, 7)]),
    "strides": (Dilated((9, 9), (2, 2), (2, 2), stride=2), [(1, 5, 5)]),
    "few rows": (Dilated((7, 9), (4, 4), (4, 4)), [(1, 7, 9)]),
}


def lower_convolutions(case: Dilated, precision: Literal["bf16", "f32"]) -> list[ConvSpec]:
    """The specs for a processor with a unit for bf16, and none that f32 could use."""
    graph, options = irc.read_model(case.make_model("Conv")).graph, Options(precision=precision)
    optimize(graph, options)
    plan, _ = lower(graph, processor_target("znver4"), options)
    return [s for s in plan.specs() if isinstance(s, ConvSpec)]


@pytest.mark.parametrize("name", CASES)
def test_which_convolutions_are_split(name: str) -> None:
    case, parts = CASES[name]
    specs = lower_convolutions(case, "bf16")
    assert [(s.batch, *s.out_sizes) for s in specs] == parts
    assert len(lower_convolutions(case, "f32")) == 1  # it reads the rows where they are


def test_dynamic_rows_stay_dilated() -> None:
    (spec,) = lower_convolutions(Dilated(("H", 9), (2, 2), (2, 2)), "bf16")
    assert spec.window.dilations == (2, 2)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_bytes_against_onnxruntime(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_ISA", isa)
    case, _ = CASES[name]
    model = case.make_model("ConvInteger")
    shape = [case.batch, 16, *case.size]
    feed = {"x": np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    net = irc.compile_model(model, num_threads=2)
    np.testing.assert_array_equal(net(feed)[0], session.run(None, feed)[0])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", CASES)
def test_bf16_against_onnxruntime(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small integers, whose sums are exact, with an operand of the epilogue."""
    monkeypatch.setenv("IRC_ISA", isa)
    case, _ = CASES[name]
    model, rng = case.make_model("Conv"), np.random.default_rng(2)
    shapes = {"x": [case.batch, 16, *case.size], "r": case.results}
    feed = {n: rng.integers(-8, 9, s).astype(np.float32) for n, s in shapes.items()}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for threads in (1, 2):
        net = irc.compile_model(model, num_threads=threads, precision="bf16")
        np.testing.assert_array_equal(net(feed)[0], session.run(None, feed)[0])
