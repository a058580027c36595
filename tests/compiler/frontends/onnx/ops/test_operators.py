"""Operators with many forms, against onnxruntime: old versions, recurrent, quantised, its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import ModelFormatError, ShapeError, UnsupportedOperationError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.verify import verify
from onnx import helper
from support.models import small
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import run_onnxruntime

F32, I64 = np.float32, np.int64
RNG = np.random.default_rng(3)


def normal(*shape: int, dtype: Any = F32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def signature(array: Any, symbolic: bool) -> Any:
    shape = [f"d{i}_{n}" for i, n in enumerate(array.shape)] if symbolic else list(array.shape)
    return shape, array.dtype


def agree(
    op_type: str,
    inputs: dict[str, Any],
    outputs: int | list[str] = 1,
    opset: int = 17,
    *,
    symbolic: bool = False,
    constants: tuple[str, ...] = (),
    tolerance: float = 1e-5,
    **attributes: Any,
) -> Graph:
    """One node gives onnxruntime's numbers. Inputs not in `constants` are the model's inputs."""
    domain = attributes.get("domain", "")
    inputs = {n: None if v is None else np.asarray(v) for n, v in inputs.items()}
    given = {
        name: value if value is None or name in constants else signature(value, symbolic)
        for name, value in inputs.items()
    }
    count = outputs if isinstance(outputs, int) else len(outputs)
    names = ["y"] if count == 1 else [f"y{i}" for i in range(count)]
    listed = names if isinstance(outputs, int) else outputs
    kinds = {name: (None, F32) for name in listed if name} if domain else listed
    check = not domain and "" not in listed and not symbolic
    model = small.op_model(op_type, given, kinds, opset, check=check, **attributes)
    for port in [p for p in model.graph.output if not p.name]:
        model.graph.output.remove(port)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    feeds = {n: np.asarray(v) for n, v in inputs.items() if v is not None and n not in constants}
    want = run_onnxruntime(model, feeds)
    graph = read_onnx(model)
    verify(graph)
    for got, (name, value) in zip(interpret(graph, feeds), want.items(), strict=True):
        assert got.dtype == value.dtype, name
        assert got.shape == value.shape, name
        if value.dtype.kind in "iub":
            np.testing.assert_array_equal(got, value)
        else:
            np.testing.assert_allclose(got, value, rtol=tolerance, atol=tolerance)
    return graph


def kinds_of(graph: Graph) -> list[str]:
    boring = ("Parameter", "Result", "Constant")
    return [graph.op(n).kind for n in graph.order() if graph.op(n).kind not in boring]


# Versions before 7 ------------------------------------------------------------------------------


def old(op_type: str, a: Any, b: Any, opset: int = 6, **attributes: Any) -> Any:
    graph = OnnxGraph(opset)
    graph.input("a", list(a.shape), a.dtype)
    graph.input("b", list(b.shape), b.dtype)
    graph.op(op_type, "a", "b", result="y", **attributes)
    graph.output("y")
    return interpret(read_onnx(graph.model(check=False)), [a, b])[0]


@pytest.mark.parametrize(("shape", "axis"), [((4,), 2), ((3, 4), 1), ((3,), 1), ((2,), 0)])
def test_old_broadcasting_begins_at_an_axis(shape: tuple[int, ...], axis: int) -> None:
    a, b = normal(2, 3, 4), normal(*shape)
    placed = b.reshape(*(1,) * axis, *shape, *(1,) * (3 - axis - len(shape)))
    np.testing.assert_array_equal(old("Add", a, b, broadcast=1, axis=axis), a + placed)
    np.testing.assert_array_equal(old("Greater", a, b, broadcast=1, axis=axis), a > placed)


def test_old_broadcasting_is_off_by_default() -> None:
    np.testing.assert_array_equal(old("Mul", F32([[2]]), F32([[3]])), [[6]])
    with pytest.raises(ShapeError, match="without the attribute broadcast"):
        old("Mul", normal(2, 3), normal(3))


def test_gemm_before_version_7() -> None:
    def gemm(c: Any, **attributes: Any) -> Any:
        graph = OnnxGraph(6)
        for name, value in (("a", a), ("b", b), ("c", c)):
            graph.input(name, list(value.shape))
        graph.op("Gemm", "a", "b", "c", result="y", **attributes)
        graph.output("y")
        return interpret(read_onnx(graph.model(check=False)), [a, b, c])[0]

    a, b = normal(2, 3), normal(3, 4)
    full, row = normal(2, 4), normal(4)
    np.testing.assert_allclose(gemm(full, alpha=2.0), 2 * a @ b + full, rtol=1e-5)
    np.testing.assert_allclose(gemm(row, broadcast=1), a @ b + row, rtol=1e-5)
    with pytest.raises(ShapeError, match="without broadcast"):
        gemm(row)


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_of_all_versions(opset: int, axis: int) -> None:
    x = {"x": normal(2, 3, 4)}
    if opset >= 11 or axis >= 0:
        agree("Softmax", x, opset=opset, axis=axis)
        agree("LogSoftmax", x, opset=opset, axis=axis, symbolic=True)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 11, 12, 13, 17, 18, 22])
def test_forms_that_changed_over_versions(opset: int) -> None:
    x = {"x": normal(2, 3, 4)}
    axes = {"axes": np.array([1, 2])}
    by_input = opset >= 18
    if by_input:
        agree("ReduceMean", x | axes, opset=opset, constants=("axes",), keepdims=0)
        agree("ReduceMax", x | axes, opset=opset, symbolic=True, constants=("axes",))
    else:
        agree("ReduceMean", x, opset=opset, axes=[1, 2], keepdims=0)
        agree("ReduceMax", x, opset=opset, symbolic=True)
    if opset >= 13:
        agree("Unsqueeze", x | axes, opset=opset, constants=("axes",))
        lengths = {"lengths": np.array([1, 3])}
        agree("Split", x | lengths, 2, opset=opset, constants=("lengths",), axis=2)
    else:
        agree("Unsqueeze", x, opset=opset, axes=[1, 2])
        agree("Split", x, 2, opset=opset, axis=2, split=[1, 3])
    low, high = np.array(-0.5, F32), np.array(0.25, F32)
    if opset >= 11:
        agree("Clip", x | {"low": low, "high": high}, opset=opset, constants=("low", "high"))
        agree("Clip", x | {"low": None, "high": high}, opset=opset)
        pads = {"pads": np.array([0, 1, 2, 1, 0, 1])}
        agree("Pad", x | pads, opset=opset, constants=("pads",), mode="reflect")
        agree("Pad", x | pads | {"value": np.array(2.5, F32)}, opset=opset)
    else:
        agree("Clip", x, opset=opset, min=-0.5, max=0.25)
        agree("Pad", x, opset=opset, pads=[0, 1, 2, 1, 0, 1], mode="constant", value=2.5)
    starts = {"starts": np.array([1, -1]), "ends": np.array([9, -(2**63)])}
    if opset >= 10:
        cut = starts | {"axes": np.array([0, -1]), "steps": np.array([1, -2])}
        agree("Slice", x | cut, opset=opset, constants=tuple(cut))
        agree("Slice", x | cut, opset=opset)
    else:
        agree("Slice", x, opset=opset, starts=[1, 0], ends=[9, -1], axes=[0, 2])
    agree("PRelu", x | {"slope": normal(4)}, opset=opset)
    agree("PRelu", x | {"slope": normal(3, 1)}, opset=opset, symbolic=True)
    agree("Flatten", x, opset=opset, axis=2, symbolic=True)
    agree("TopK", x, 2, opset=opset, k=2, axis=1) if opset < 10 else agree(
        "TopK", x | {"k": np.array([2])}, 2, opset=opset, axis=1
    )


def test_shape_chains_of_symbolic_models_are_known() -> None:
    graph = agree("Flatten", {"x": normal(2, 3, 4)}, axis=2, symbolic=True)
    assert str(graph.node(graph.results[0]).types[0]) == "f32[d0_2*d1_3, d2_4]"


def test_integers_divide_toward_zero_and_round_to_even() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    agree("Div", {"a": a, "b": b})
    agree("Mod", {"a": a, "b": b})
    agree("Mod", {"a": a, "b": b}, fmod=1)
    agree("Round", {"x": F32([0.5, 1.5, 2.5, -0.5, -1.5])})
    agree("Pow", {"a": F32([2, 3]), "b": np.array([3, 2])})
    agree("Pow", {"a": np.array([2, 3], np.int32), "b": F32([0.5, 2])})
    agree("Cast", {"x": F32([1.9, -1.9, 0.0])}, {"y": ((3,), np.int32)}, to=6)  # type: ignore


# Recurrent --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", ["RNN", "GRU", "LSTM"])
def test_recurrent_operators(op_type: str, direction: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    time, batch, width, hidden = 5, 3, 4, 6
    d = 2 if direction == "bidirectional" else 1
    inputs: dict[str, Any] = {
        "x": normal(time, batch, width),
        "w": normal(d, gates * hidden, width),
        "r": normal(d, gates * hidden, hidden),
        "b": normal(d, 2 * gates * hidden),
        "lengths": np.array([5, 2, 4], np.int32),
        "h": normal(d, batch, hidden),
    }
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    outputs = 3 if op_type == "LSTM" else 2
    agree(op_type, inputs, outputs, constants=("w", "r", "b"), **attributes)
    few = {name: inputs[name] for name in "xwr"}
    agree(op_type, few, ["", "last"], symbolic=True, constants=("w", "r"), **attributes)
    agree(op_type, inputs, outputs, clip=0.5, **attributes)
    if op_type == "GRU":
        agree(op_type, inputs, outputs, linear_before_reset=1, **attributes)
    if op_type == "RNN":
        agree(op_type, inputs, outputs, activations=["Relu"] * d, **attributes)
    if op_type == "LSTM":
        agree(op_type, inputs | {"c": normal(d, batch, hidden)}, outputs, **attributes)
        names = ["HardSigmoid", "Softsign", "Tanh"] * d
        agree(op_type, inputs, outputs, activations=names, **attributes)
        agree(op_type, inputs, outputs, input_forget=1, **attributes)
        peep = inputs | {"c": normal(d, batch, hidden), "p": normal(d, 3 * hidden)}
        agree(op_type, peep, outputs, **attributes)
        agree(op_type, peep, outputs, constants=("w", "r", "b", "p"), **attributes)
        agree(op_type, peep, outputs, clip=0.5, activations=names, **attributes)


def test_recurrent_forms_that_are_refused() -> None:
    x, w, r = normal(2, 1, 3), normal(1, 8, 3), normal(1, 8, 2)
    inputs = {"x": signature(x, False), "w": w, "r": r}
    model = small.op_model("LSTM", inputs, hidden_size=2, activations=["Swish", "Tanh", "Tanh"])
    with pytest.raises(UnsupportedOperationError, match="activation swish"):
        read_onnx(model)
    model = small.op_model("LSTM", inputs, hidden_size=2, direction="sideways", check=False)
    with pytest.raises(ModelFormatError, match="direction"):
        read_onnx(model)


# Quantised --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantised_operators(dtype: Any) -> None:
    info = np.iinfo(dtype)
    a = RNG.integers(info.min, info.max + 1, (3, 4)).astype(dtype)
    b = RNG.integers(info.min, info.max + 1, (4, 5)).astype(dtype)
    zero, zero_row = dtype(3), RNG.integers(0, 9, 5).astype(dtype)
    x = F32([[-300, -1.5, -0.5, 0.5], [1.5, 2.5, 3.25, 300], [0, 1e30, -1e30, 7]])
    agree("QuantizeLinear", {"x": x, "scale": F32(0.5), "zero": zero}, opset=13)
    per_axis = {"scale": F32([0.5, 1, 2, 4]), "zero": zero_row[:4]}
    agree("QuantizeLinear", {"x": x} | per_axis, opset=13, axis=1)
    agree("QuantizeLinear", {"x": x} | per_axis, opset=19, axis=-1, constants=tuple(per_axis))
    agree("DequantizeLinear", {"x": a} | per_axis, opset=13, axis=1)
    agree("DequantizeLinear", {"x": a, "scale": F32(0.25)}, opset=10)
    agree("MatMulInteger", {"a": a, "b": b, "az": zero, "bz": zero_row}, opset=10)
    scales = {"as": F32(0.02), "az": zero}, {"bs": F32([0.1, 0.2, 0.3, 0.4, 0.5]), "bz": zero_row}
    target = {"ys": F32(0.7), "yz": dtype(5)}
    agree("QLinearMatMul", {"a": a} | scales[0] | {"b": b} | scales[1] | target, opset=10)


@pytest.mark.parametrize("symbolic", [False, True])
def test_blocks_share_a_scale(symbolic: bool) -> None:
    x = RNG.integers(-128, 128, (2, 7)).astype(np.int8)
    scale, zero = F32([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3], [0, -1, -2]], np.int8)
    model = small.op_model(
        "DequantizeLinear",
        {"x": signature(x, symbolic), "scale": scale, "zero": zero},
        opset=21,
        axis=1,
        block_size=3,
        check=False,
    )
    (got,) = interpret(read_onnx(model), [x])
    spread = [np.repeat(v.astype(F32), 3, axis=1)[:, :7] for v in (scale, zero)]
    np.testing.assert_array_equal(got, (x.astype(F32) - spread[1]) * spread[0])


def test_quantised_nan_is_the_zero_point() -> None:
    x = F32([np.nan, np.inf, -np.inf])
    model = small.op_model(
        "QuantizeLinear", {"x": ((3,), F32), "s": F32(1), "z": np.uint8(7)}, opset=13
    )
    np.testing.assert_array_equal(interpret(read_onnx(model), [x])[0], [7, 255, 0])


# onnxruntime's own ------------------------------------------------------------------------------


def test_contributed_operators() -> None:
    ms: dict[str, Any] = {"domain": "com.microsoft"}
    x, w, bias = normal(2, 3, 4), normal(4, 5), normal(5)
    agree("FusedMatMul", {"x": x, "w": w}, alpha=0.5, **ms)
    agree("FusedMatMul", {"x": x, "w": normal(2, 5, 4)}, transB=1, **ms)
    rows = normal(3, 4)
    for name, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {})):
        given = {"x": rows, "w": w, "c": bias}
        agree("FusedGemm", given, activation=name, alpha=0.5, beta=2.0, **ms, **more)
    agree("Gelu", {"x": x}, **ms)
    agree("FastGelu", {"x": x, "bias": normal(4)}, tolerance=1e-4, **ms)
    agree("BiasGelu", {"x": x, "bias": normal(4)}, **ms)
    agree("QuickGelu", {"x": x}, alpha=1.5, **ms)
    norm = {"x": x, "skip": normal(2, 3, 4), "gamma": normal(4), "beta": normal(4)}
    agree("SkipLayerNormalization", norm, epsilon=1e-5, **ms)
    agree("SkipLayerNormalization", norm | {"bias": normal(4)}, ["y", "", "", "s"], **ms)


# Numbers that shapes depend on ------------------------------------------------------------------


def test_operators_whose_shapes_depend_on_data() -> None:
    x = F32([[1, 0, 2], [0, 0, 3]])
    agree("NonZero", {"x": x})
    agree("Compress", {"x": x, "c": np.array([True, False, True])}, axis=1)
    agree("Range", {"a": np.array(1), "b": np.array(10), "c": np.array(3)})
    agree("Expand", {"x": F32([[1], [2]]), "s": np.array([3, 1, 4])})
    agree("ConstantOfShape", {"s": np.array([2, 0, 3])})
    agree("Tile", {"x": x, "r": np.array([2, 3])})
    agree("OneHot", {"i": np.array([0, -1, 5]), "d": np.array(4), "v": F32([-1, 1])}, axis=0)
    agree("Reshape", {"x": x, "s": np.array([0, -1, 1])})
    agree("Trilu", {"x": x, "k": np.array(-1)}, upper=0)
    agree("ArgMax", {"x": x}, axis=1, select_last_index=1, keepdims=0)
    agree("ArgMin", {"x": x}, axis=0, symbolic=True)
    agree("CumSum", {"x": x, "axis": np.array(1)}, exclusive=1, reverse=1)


def test_gather_refuses_an_index_out_of_range() -> None:
    model = small.op_model("Gather", {"x": ((3,), F32), "i": ((2,), I64)})
    graph = read_onnx(model)
    np.testing.assert_array_equal(interpret(graph, [F32([1, 2, 3]), np.array([-1, 0])])[0], [3, 1])
    with pytest.raises(Exception, match="outside the axis") as caught:
        interpret(graph, [F32([1, 2, 3]), np.array([0, 3])])
    assert "3" in str(caught.value)


@pytest.mark.slow
def test_every_importer_belongs_to_an_operator() -> None:
    from irc_compiler.compiler.frontends.onnx.ops import IMPORTERS

    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    # onnxruntime writes this one of its own operators without a domain.
    own = {n for n in IMPORTERS if "::" not in n} - {"SimplifiedLayerNormalization"}
    assert own <= known
    for name in own:
        first = min(
            s.since_version
            for s in onnx.defs.get_all_schemas_with_history()
            if s.name == name and s.domain == ""
        )
        assert min(IMPORTERS[name]) >= first or min(IMPORTERS[name]) == 1, name


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_regions_are_pooled(scale: float) -> None:
    rois = [
        [0, 0, 0, 5, 6],
        [1, 2, 1, 8, 3],
        [1, 4, 4, 4, 4],
        [0, 1.5, 2.5, 30, 40],
        [1, 3, 5, 1, 2],
    ]
    given = {"x": normal(2, 3, 9, 8), "rois": F32(rois)}
    agree("MaxRoiPool", given, pooled_shape=[2, 3], spatial_scale=scale)
