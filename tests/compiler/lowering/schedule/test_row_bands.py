"""Chains of convolutions in bands of rows: which, and that no bit of their results changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import irc_compiler as irc
import numpy as np
import onnxruntime
import openvino as ov
import openvino.opset6 as o6
import pytest
from irc_compiler.compiler.lowering.lower import lower
from irc_compiler.compiler.lowering.schedule import row_bands, scheduler
from irc_compiler.compiler.lowering.schedule.schedule import Schedule
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.graph import Graph
from irc_compiler.plan.heuristics import Heuristics
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import Target
from onnx import NodeProto, TensorProto, helper, numpy_helper
from support.kernels.harness import ISAS

# L2 of a machine for whose bands images of some KiB are large, and steps cost nothing.
SMALL_L2 = 256 << 10
FREE_STEPS = Heuristics(row_band_min_saving=0.0)


@dataclass(frozen=True)
class Window:
    """One layer: a convolution of `outputs` channels (`depthwise`: one filter each), or a MaxPool,
    and a Relu behind it. residual: y = relu(conv + r), of an input r."""

    outputs: int = 0
    kernel: int = 1
    stride: int = 1
    pads: tuple[int, int, int, int] | None = None
    depthwise: bool = False
    pool: bool = False
    residual: Literal["", "image", "column", "row"] = ""
    dilation: int = 1

    def out_size(self, size: int) -> int:
        begin, _, end, _ = self.all_pads
        return (size + begin + end - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def all_pads(self) -> tuple[int, int, int, int]:
        return self.pads or (self.kernel // 2,) * 4


EXPAND, DEPTHWISE = Window(64), Window(64, 3, depthwise=True)
REDUCE, PROJECT = Window(64, 3, 2, depthwise=True), Window(24)
BLOCK = (EXPAND, DEPTHWISE, PROJECT)


@dataclass(frozen=True)
class Layers:
    """A model of layers on an image [batch, channels, height, width]; `also` is a second result:
    the number of the layer that makes it."""

    layers: tuple[Window, ...]
    height: int | str = 40
    width: int = 100
    channels: int = 16
    batch: int = 1
    also: int | None = None

    def make_model(self) -> bytes:
        rng = np.random.default_rng(0)
        nodes: list[NodeProto] = []
        weights: dict[str, np.ndarray] = {}
        image = [self.batch, self.channels, self.height, self.width]
        inputs, value, channels = {"x": image}, "x", self.channels
        height, width = self.height if isinstance(self.height, int) else 40, self.width
        for i, layer in enumerate(self.layers):
            height, width = layer.out_size(height), layer.out_size(width)
            slides = {
                "kernel_shape": [layer.kernel] * 2,
                "strides": [layer.stride] * 2,
                "pads": layer.all_pads,
                "dilations": [layer.dilation] * 2,
            }
            if layer.pool:
                nodes.append(helper.make_node("MaxPool", [value], [f"a{i}"], **slides))
            else:
                shape = (layer.outputs, 1 if layer.depthwise else channels, *slides["kernel_shape"])
                weights[f"w{i}"] = rng.integers(-3, 4, shape).astype(np.float32) / 4
                weights[f"b{i}"] = rng.standard_normal(layer.outputs).astype(np.float32)
                group = channels if layer.depthwise else 1
                read = [value, f"w{i}", f"b{i}"]
                nodes.append(helper.make_node("Conv", read, [f"a{i}"], group=group, **slides))
                channels = layer.outputs
            made = f"a{i}"
            if layer.residual:
                sizes = {"image": (height, width), "column": (height, 1), "row": (1, width)}
                inputs[f"r{i}"] = [1, channels, *sizes[layer.residual]]
                nodes.append(helper.make_node("Add", [made, f"r{i}"], [f"s{i}"]))
                made = f"s{i}"
            nodes.append(helper.make_node("Relu", [made], [f"y{i}"]))
            value = f"y{i}"
        results = [value] if self.also is None else [value, f"y{self.also}"]
        graph = helper.make_graph(
            nodes,
            "layers",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results],
            [numpy_helper.from_array(a, n) for n, a in weights.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()

    def make_feed(self) -> dict[str, np.ndarray]:
        model = irc.read_model(self.make_model())
        rng = np.random.default_rng(1)
        return {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in model.inputs}


def small_target(heuristics: Heuristics = FREE_STEPS) -> Target:
    return replace(processor_target("skylake-avx512"), l2=SMALL_L2, heuristics=heuristics)


def schedule_layers(
    model: Layers, target: Target | None = None, precision: str = "f32", algorithm: str = "auto"
) -> Schedule:
    options = Options(precision=precision, conv_algorithm=algorithm)
    graph = irc.read_model(model.make_model()).graph
    optimize(graph, options)
    return scheduler.schedule(graph, target or small_target(), options)


def rows_of_concats(schedule: Schedule) -> list[list[int]]:
    """By concatenation of bands, in order, the rows of each band."""
    graph = schedule.graph
    return [
        [int(str(graph.shape(v)[2])) for v in graph.inputs(n) if v is not None]
        for n in graph.order()
        if graph.op(n).kind == "Concat"
    ]


CASES: dict[str, tuple[Layers, list[list[int]]]] = {
    "block": (Layers(BLOCK), [[4] * 10]),
    "stride": (Layers((EXPAND, REDUCE, PROJECT)), [[3] * 6 + [2]]),
    "without paddings": (
        Layers((EXPAND, replace(DEPTHWISE, pads=(0, 0, 0, 0)), PROJECT)),
        [[3] * 12 + [2]],
    ),
    "uneven paddings": (
        Layers((EXPAND, replace(REDUCE, pads=(0, 0, 1, 1)), PROJECT), height=41),
        [[3] * 6 + [2]],
    ),
    "two depthwise": (Layers((DEPTHWISE, EXPAND, DEPTHWISE), channels=64), [[4] * 10]),
    "pool": (Layers((EXPAND, Window(kernel=3, stride=2, pool=True))), []),
    "image added": (Layers((EXPAND, replace(DEPTHWISE, residual="image"))), [[7] * 5 + [5]]),
    "column added": (Layers((EXPAND, replace(DEPTHWISE, residual="column"))), [[7] * 5 + [5]]),
    "row added": (Layers((EXPAND, replace(DEPTHWISE, residual="row"))), [[7] * 5 + [5]]),
    "last band of fewer rows": (Layers((EXPAND, DEPTHWISE), height=43), [[8] * 5 + [3]]),
    "bands of equal rows": (Layers((EXPAND, DEPTHWISE), height=48), [[6] * 8]),
    "small between": (Layers((*BLOCK, replace(PROJECT, kernel=3))), [[4] * 10]),
    "two blocks": (Layers((*BLOCK, *BLOCK)), [[2] * 20]),
    "two blocks with little between": (
        Layers((EXPAND, DEPTHWISE, Window(4), EXPAND, DEPTHWISE, Window(4))),
        [[4] * 10, [4] * 10],
    ),
    "data larger than the result": (Layers(BLOCK, channels=128), [[7] * 5 + [5]]),
    "a batch": (Layers(BLOCK, batch=2), []),
    "a dynamic height": (Layers(BLOCK, height="H"), []),
    "one layer": (Layers((Window(64, 3),)), []),
    "dilated": (
        Layers((EXPAND, Window(24, 3, pads=(2,) * 4, dilation=2))),
        [[7] * 5 + [5]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_which_rows_bands_have(name: str) -> None:
    model, bands = CASES[name]
    assert rows_of_concats(schedule_layers(model)) == bands


def test_value_with_two_readers_ends_a_chain() -> None:
    found = schedule_layers(Layers(BLOCK, also=1))
    assert rows_of_concats(found) == [[7] * 5 + [5]]


def test_winograd_transforms_whole_images() -> None:
    model = Layers((EXPAND, Window(64, 3), PROJECT))
    assert rows_of_concats(schedule_layers(model)) == []
    assert rows_of_concats(schedule_layers(model, algorithm="direct")) != []


def test_values_in_bf16_take_half_the_rows() -> None:
    model = Layers(BLOCK)
    target = replace(processor_target("znver4"), l2=SMALL_L2, heuristics=FREE_STEPS)
    (wide,) = rows_of_concats(schedule_layers(model, target))
    (narrow,) = rows_of_concats(schedule_layers(model, target, "bf16"))
    assert max(narrow) > max(wide)


def test_thresholds_decide() -> None:
    model = Layers(BLOCK)
    kib = 64 * 40 * 100 * 4 >> 10
    quarters = 4 * kib * 1024 // SMALL_L2

    def bands(**thresholds: Any) -> int:
        heuristics = replace(FREE_STEPS, **thresholds)
        return sum(map(len, rows_of_concats(schedule_layers(model, small_target(heuristics)))))

    assert bands(row_band_min_l2_quarters=quarters) == 10
    assert bands(row_band_min_l2_quarters=quarters + 1) == 0
    assert bands(row_band_l2_quarters=6) == 6
    assert bands(row_band_min_saving=3.0) == 0


def test_bands_of_tiles_have_pixels_for_tiles() -> None:
    """Fewer than 96 pixels of f32 would be added in another order."""
    narrow = Layers((EXPAND, DEPTHWISE), height=100, width=7)
    target = replace(processor_target("sapphirerapids"), l2=32 << 10, heuristics=FREE_STEPS)
    assert rows_of_concats(schedule_layers(narrow, target)) == []
    wide = replace(narrow, height=14, width=50)
    assert rows_of_concats(schedule_layers(wide, target)) == [[2] * 7]


def test_many_weights_are_not_read_again() -> None:
    heuristics = replace(FREE_STEPS, row_band_min_saving=2.0)
    target = replace(small_target(heuristics), l2=1 << 20)

    def bands(*layers: Window) -> list[list[int]]:
        return rows_of_concats(schedule_layers(Layers(layers, height=128, width=128), target))

    assert bands(EXPAND, DEPTHWISE) == [[22] * 5 + [18]]
    assert bands(EXPAND, DEPTHWISE, PROJECT) == [[10] * 12 + [8]]
    assert bands(EXPAND, DEPTHWISE, Window(2048)) == bands(EXPAND, DEPTHWISE)


def test_steps_cost_time() -> None:
    points = Layers((EXPAND, PROJECT))
    assert rows_of_concats(schedule_layers(points)) == [[7] * 5 + [5]]
    target = small_target(replace(FREE_STEPS, row_band_min_saving=3.0))
    assert rows_of_concats(schedule_layers(points, target)) == []


def test_initial_values_of_variables_are_whole() -> None:
    """They are apart from the graph proper, node by node."""
    x = o6.parameter([1, 16, 40, 100], np.float32)
    expanded = o6.convolution(
        x, np.ones((64, 16, 1, 1), np.float32), [1, 1], [0, 0], [0, 0], [1, 1]
    )
    first = o6.group_convolution(
        expanded, np.ones((64, 1, 1, 3, 3), np.float32), [1, 1], [1, 1], [1, 1], [1, 1]
    )
    value = o6.read_value(first, "v", np.float32, [1, 64, 40, 100])
    changed = o6.add(value, np.float32(1))
    model = ov.Model([o6.result(changed)], [o6.assign(changed, "v")], [x])
    graph = irc.read_model(model).graph
    optimize(graph, Options())
    assert rows_of_concats(scheduler.schedule(graph, small_target(), Options())) == []


def test_machine_without_known_l2_has_none() -> None:
    target = replace(processor_target("skylake-avx512"), l2=0)
    assert rows_of_concats(schedule_layers(Layers(BLOCK), target)) == []


def test_graph_grows_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CASES["two blocks with little between"][0]
    nodes = 10 * 3 * 2  # a band has three convolutions, each with one node behind it
    monkeypatch.setattr(row_bands, "_MAX_COPIES", 2 * nodes)
    assert rows_of_concats(schedule_layers(model)) == [[4] * 10] * 2
    monkeypatch.setattr(row_bands, "_MAX_COPIES", 2 * nodes - 1)
    assert rows_of_concats(schedule_layers(model)) == [[4] * 10]
    monkeypatch.setattr(row_bands, "_MAX_COPIES", 2 * nodes)
    monkeypatch.setattr(row_bands, "_MAX_CONVOLUTIONS", 5)
    assert rows_of_concats(schedule_layers(model)) == []


def test_bands_follow_one_another_and_share_weights() -> None:
    graph = irc.read_model(Layers(BLOCK).make_model()).graph
    optimize(graph, Options())
    plan, _ = lower(graph, small_target(), Options())
    steps = [s for s in plan.kernel_steps() if isinstance(s.spec, GemmSpec | ConvSpec)]
    assert [type(s.spec) for s in steps] == [GemmSpec, ConvSpec, GemmSpec] * 10
    weights = [c for c in plan.constants if c.layout is not None]
    assert len(weights) == 3
    # The first band, the last one, and those between.
    assert len({s.spec for s in steps if isinstance(s.spec, ConvSpec)}) == 3


def test_names_stay() -> None:
    found = schedule_layers(Layers(BLOCK))
    graph = found.graph
    (concat,) = (n for n in graph.order() if graph.op(n).kind == "Concat")
    (last,) = {graph.node(v.node).name for v in graph.inputs(concat) if v is not None}
    assert graph.node(concat).name == last
    assert [sorted(p.names) for p in found.interface.outputs] == [["y2"]]


def split_in_small_l2(*arguments: Any) -> Graph:
    *rest, target = arguments
    small = replace(target, l2=SMALL_L2, heuristics=FREE_STEPS)
    return row_bands.split_row_bands(*rest, small)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("name", [n for n, (_, bands) in CASES.items() if bands])
def test_no_bit_changes(
    name: str, precision: Any, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRC_ISA", isa)
    monkeypatch.setenv("IRC_MODEL_CACHE", "0")
    model, _ = CASES[name]
    feed = model.make_feed()
    whole = irc.compile_model(model.make_model(), num_threads=1, precision=precision)
    want = whole(feed)[0]
    monkeypatch.setattr(scheduler, "split_row_bands", split_in_small_l2)
    for threads in (1, 2):
        net = irc.compile_model(model.make_model(), num_threads=threads, precision=precision)
        assert len(net.plan.kernel_steps()) > len(whole.plan.kernel_steps())
        np.testing.assert_array_equal(net(feed)[0], want)
    if precision == "f32":
        session = onnxruntime.InferenceSession(
            model.make_model(), providers=["CPUExecutionProvider"]
        )
        np.testing.assert_allclose(want, session.run(None, feed)[0], rtol=1e-4, atol=1e-3)


def test_arena_holds_one_band(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_MODEL_CACHE", "0")
    model = Layers(BLOCK)

    def arena_bytes() -> int:
        net = irc.compile_model(model.make_model(), num_threads=1)
        net(model.make_feed())
        return net.stats().arena_bytes

    whole = arena_bytes()
    monkeypatch.setattr(scheduler, "split_row_bands", split_in_small_l2)
    between = 2 * 64 * 40 * 100 * 4
    assert whole - arena_bytes() > between // 2
