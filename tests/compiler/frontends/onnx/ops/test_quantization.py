"""Quantised operators of every version, type and granularity, against docs/numerics.md written out
in NumPy."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto as P
from onnx import defs, helper, numpy_helper

VERSIONS = [10, 13, 19, 21, 23, 24, 25]
FORMS = ["tensor", "axis", "block"]
BLOCK = 3


def run(op: str, inputs: list[Any], out: int, opset: int, **attributes: Any) -> Any:
    return run_all(op, [(inputs, out)], opset, **attributes)[0]


def run_all(
    op: str, cases: list[tuple[list[Any], int]], opset: int, **attributes: Any
) -> list[Any]:
    """The outputs of one model with a node per case."""
    feeds = {f"i{n}_{k}": v for n, (given, _) in enumerate(cases) for k, v in enumerate(given)}
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    nodes = [
        helper.make_node(op, [f"i{n}_{k}" for k in range(len(given))], [f"y{n}"], **attributes)
        for n, (given, _) in enumerate(cases)
    ]
    outputs = [
        helper.make_tensor_value_info(f"y{n}", out, None) for n, (_, out) in enumerate(cases)
    ]
    graph = helper.make_graph(nodes, "g", ports, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 13
    return list(irc.compile_model(model, num_threads=1)(feeds))


def same(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def kinds(op: str, opset: int, name: str) -> list[int]:
    """The element types that ONNX's own schema allows for an input or output."""
    schema = defs.get_schema(op, opset, "")
    formal = next(f for f in (*schema.inputs, *schema.outputs) if f.name == name)
    return sorted(P.DataType.Value(t[len("tensor(") : -1].upper()) for t in formal.types)


def array_type(kind: int) -> Any:
    return helper.tensor_dtype_to_np_dtype(kind)


def granular(form: str, opset: int) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape of scales for x [2, 7], and the attributes."""
    if form == "axis":
        return ((2,), {"axis": 0}) if opset > 10 else ((), {})
    if form == "block":
        return ((2, 3), {"axis": 1, "block_size": BLOCK}) if opset >= 21 else ((7,), {})
    return (), {"axis": 1} if opset > 10 else {}


def spread(value: Any, form: str) -> Any:
    if value.ndim == 2:
        return np.repeat(value, BLOCK, axis=1)[:, :7]
    return value[:, None] if value.shape == (2,) else value


def expected_codes(x: Any, scale: Any, zero: Any, wide: Any, *, saturate: bool = True) -> Any:
    """round(x / scale) to even, then the zero point, then saturation; float8 is only cast."""
    kind = zero.dtype
    with np.errstate(all="ignore"):
        ratio = (x.astype(wide) / scale.astype(wide)).astype(np.float32)
        shift = zero.astype(np.float32)
        try:
            limits = ml_dtypes.iinfo(kind)
        except ValueError:
            value = ratio + shift
            limit = float(ml_dtypes.finfo(kind).max)
            return (np.clip(value, -limit, limit) if saturate else value).astype(kind)
        whole = np.where(np.isnan(ratio), shift, np.rint(ratio) + shift)
        return np.clip(whole, limits.min, limits.max).astype(np.int64).astype(kind)


X = np.array(
    [[-70000, -3.3, -0.5, 0.5, 1.5, 2.5, 0.3], [1e9, 0.75, np.inf, -np.inf, 0.1, 7.7, -1e9]],
    np.float32,
)
SCALES = np.array([[0.5, 0.7, 1.3], [3, 0.25, 2]], np.float32)


def scales_of(shape: tuple[int, ...]) -> Any:
    return np.resize(SCALES.reshape(-1), shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", VERSIONS)
def test_quantize_linear(opset: int, form: str) -> None:
    shape, attributes = granular(form, opset)
    cases: list[tuple[list[Any], int]] = []
    wanted: list[Any] = []
    for out in kinds("QuantizeLinear", opset, "y"):
        kind = array_type(out)
        zero = np.resize(np.array([1, 0, 1]), shape).astype(kind)
        for given in kinds("QuantizeLinear", opset, "y_scale"):
            if given in (P.INT32, P.FLOAT8E8M0):
                continue
            with np.errstate(over="ignore"):
                x, scale = (v.astype(array_type(given)) for v in (X, scales_of(shape)))
            if out not in (P.INT8, P.UINT8):
                x = np.nan_to_num(x, posinf=9, neginf=-9)
            wanted.append(expected_codes(x, spread(scale, form), spread(zero, form), scale.dtype))
            cases.append(([x, scale, zero], out))
    for got, want in zip(
        run_all("QuantizeLinear", cases, opset, **attributes), wanted, strict=True
    ):
        same(got, want)


@pytest.mark.parametrize("out", ["UINT8", "INT16", "INT4", "FLOAT4E2M1", "FLOAT8E5M2"])
def test_quantize_linear_without_a_zero_point(out: str) -> None:
    number = P.DataType.Value(out)
    x = np.nan_to_num(X)
    want = expected_codes(x, np.float32(0.7), np.zeros((), array_type(number)), np.float32)
    got = run("QuantizeLinear", [x, np.array(0.7, np.float32)], number, 25, output_dtype=number)
    same(got, want)


@pytest.mark.parametrize("given", [np.float16, ml_dtypes.bfloat16])
def test_precision_of_the_division(given: Any) -> None:
    """x / scale in the scale's type, unless `precision` says another one."""
    x = np.linspace(-300, 300, 400).astype(given)
    scale, zero = np.array(0.3, given), np.array(3, np.int16)
    results = []
    for wide, attributes in ((given, {}), (np.float32, {"precision": P.FLOAT})):
        want = expected_codes(x, scale, zero, wide)
        got = run("QuantizeLinear", [x, scale, zero], P.INT16, 23, **attributes)
        same(got, want)
        results.append(got)
    assert (results[0] != results[1]).any()


def test_whole_scales() -> None:
    x = np.array([-7, -5, 5, 6, 7, 9], np.int32)
    got = run("QuantizeLinear", [x, np.array(2, np.int32), np.array(0, np.int8)], P.INT8, 21)
    same(got, np.array([-4, -2, 2, 3, 4, 4], np.int8))


def test_scales_that_are_powers_of_two() -> None:
    x, scale = X[:1].astype(ml_dtypes.bfloat16), np.array(0.25, ml_dtypes.float8_e8m0fnu)
    want = expected_codes(x, scale, np.array(0, np.int8), np.float32)
    same(run("QuantizeLinear", [x, scale, np.array(0, np.int8)], P.INT8, 24), want)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [19, 21, 23, 25])
@pytest.mark.parametrize("form", FORMS)
def test_float8_without_saturation(form: str, opset: int) -> None:
    """What is too large becomes infinity or, where the type has none, NaN."""
    shape, attributes = granular(form, opset)
    x = X.copy()
    x[0, 0] = np.nan
    for out in (P.FLOAT8E4M3FN, P.FLOAT8E4M3FNUZ, P.FLOAT8E5M2, P.FLOAT8E5M2FNUZ):
        scale, zero = scales_of(shape), np.zeros(shape, array_type(out))
        want = expected_codes(
            x, spread(scale, form), spread(zero, form), np.float32, saturate=False
        )
        got = run("QuantizeLinear", [x, scale, zero], out, opset, saturate=0, **attributes)
        same(got, want)
        assert np.isnan(got[0, 0]) and not np.isfinite(got[1, 0].astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", VERSIONS)
def test_dequantize_linear(opset: int, form: str) -> None:
    shape, attributes = granular(form, opset)
    r = np.random.default_rng(opset)
    cases: list[tuple[list[Any], int]] = []
    wanted: list[Any] = []
    for given in kinds("DequantizeLinear", opset, "x"):
        kind = array_type(given)
        integer = kind.kind in "iu" or "int" in kind.name
        low, high = (ml_dtypes.iinfo(kind).min, ml_dtypes.iinfo(kind).max) if integer else (-6, 6)
        low, high = max(low, -(1 << 20)), min(high, 1 << 20)
        x = r.integers(low, high + 1, (2, 7)).astype(kind)
        zero = np.resize(np.array([0 if given == P.INT32 else 1, 0, 0]), shape).astype(kind)
        for target in kinds("DequantizeLinear", opset, "x_scale"):
            if target == P.FLOAT8E8M0:
                continue
            scale = scales_of(shape).astype(array_type(target))
            shifted = x.astype(np.float32) - spread(zero, form).astype(np.float32)
            with np.errstate(over="ignore"):
                wanted.append(
                    (shifted * spread(scale, form).astype(np.float32)).astype(scale.dtype)
                )
            cases.append(([x, scale, zero], target))
    for got, want in zip(
        run_all("DequantizeLinear", cases, opset, **attributes), wanted, strict=True
    ):
        same(got, want)


@pytest.mark.parametrize("target", [P.FLOAT, P.FLOAT16, P.BFLOAT16])
def test_dequantize_linear_to_a_type_of_its_own(target: int) -> None:
    x, scale = np.arange(-128, 128, dtype=np.int8), np.array(0.3, np.float32)
    want = (x.astype(np.float32) * scale).astype(array_type(target))
    same(run("DequantizeLinear", [x, scale], target, 23, output_dtype=target), want)


def integers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    info = np.iinfo(dtype)
    r = np.random.default_rng([seed, *shape])
    return r.integers(info.min, info.max + 1, shape).astype(dtype)


def convolved(x: Any, w: Any, groups: int, stride: int = 1) -> Any:
    """By windows over images with one place of padding, in f64."""
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    data = np.split(windows[:, :, ::stride, ::stride], groups, 1)
    filters = np.split(w.astype(np.float64), groups)
    parts = [np.einsum("nchwij,ocij->nohw", d, f) for d, f in zip(data, filters, strict=True)]
    return np.concatenate(parts, 1)


CONVOLUTIONS = [
    (groups, per_channel, a, b)
    for groups in (1, 2)
    for per_channel in (False, True)
    for a, b in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
]


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "per_channel", "a", "b"), CONVOLUTIONS)
def test_conv_integer(groups: int, per_channel: bool, a: Any, b: Any) -> None:
    x, w = integers((2, 4, 6, 7), a, 1), integers((6, 4 // groups, 3, 3), b, 2)
    x_zero = np.array(5, a)
    w_zero = integers((6,), b, 3) if per_channel else np.array(-7 if b is np.int8 else 7, b)
    centre = w_zero.astype(int).reshape(-1, 1, 1, 1)
    want = convolved(x - 5.0, w - centre, groups, stride=2).astype(np.int32)
    attributes = {"pads": [1] * 4, "strides": [2, 2], "group": groups}
    same(run("ConvInteger", [x, w, x_zero, w_zero], P.INT32, 10, **attributes), want)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "per_channel", "a", "b"), CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv(groups: int, per_channel: bool, a: Any, b: Any, bias: bool) -> None:
    x, w = integers((2, 4, 6, 7), a, 1), integers((6, 4 // groups, 3, 3), b, 2)
    r = np.random.default_rng(4)
    x_scale, x_zero = np.array(0.013, np.float32), np.array(5, a)
    shape = (6,) if per_channel else ()
    w_scale = r.uniform(0.001, 0.01, shape).astype(np.float32)
    w_zero = integers(shape, b, 3) if per_channel else np.array(3, b)
    y_scale, y_zero = np.array(0.37, np.float32), np.array(9, a)
    extra = r.integers(-4000, 4000, 6).astype(np.int32)
    inputs = [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *([extra] * bias)]
    attributes = {"pads": [1] * 4, "group": groups}
    out = helper.np_dtype_to_tensor_dtype(np.dtype(a))
    got = run("QLinearConv", inputs, out, 10, **attributes)
    centre = np.broadcast_to(w_zero.astype(int), (6,)).reshape(-1, 1, 1, 1)
    sums = convolved(x - 5.0, w - centre, groups)
    sums = sums + extra.reshape(-1, 1, 1) if bias else sums
    factor = np.broadcast_to(x_scale * w_scale, (6,)).reshape(-1, 1, 1) / y_scale
    info = np.iinfo(a)
    want = np.clip(np.rint(sums.astype(np.float32) * factor) + 9, info.min, info.max).astype(a)
    same(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("a", "b"), [(np.uint8, np.int8), (np.int8, np.uint8)])
def test_matmul_integer(rank: int, rows: bool, columns: bool, a: Any, b: Any) -> None:
    batch = (2, 2) if rank == 4 else ()
    x, y = integers((*batch, 3, 5), a, 1), integers((*batch, 5, 4), b, 2)
    full_rows, full_columns = ((3,), (4,)) if rank == 2 else ((*batch, 3, 1), (*batch, 1, 4))
    a_zero, b_zero = integers(full_rows * rows, a, 3), integers(full_columns * columns, b, 4)
    shift = a_zero[:, None] if a_zero.shape == (3,) else a_zero
    want = np.matmul(x - shift.astype(int), y - b_zero.astype(int)).astype(np.int32)
    same(run("MatMulInteger", [x, y, a_zero, b_zero], P.INT32, 10), want)


@pytest.mark.slow
def test_qlinear_matmul_multiplies_scales_first() -> None:
    """m = f32(f32(a_scale * b_scale) / y_scale) of any scales, not powers of two only."""
    r = np.random.default_rng(5)
    a, b = integers((40, 9), np.uint8, 1), integers((9, 50), np.int8, 2)
    sums = (a.astype(int) - 3) @ (b.astype(int) + 2)
    places = 0
    for _ in range(20):
        one, two = (np.array(v, np.float32) for v in r.uniform(0.01, 0.9, 2))
        three = np.array(
            np.float64(one) * two * 16.0 * (1 + r.integers(-1, 2) * 2.0**-24), np.float32
        )
        inputs = [a, one, np.array(3, np.uint8), b, two, np.array(-2, np.int8), three]
        got = run("QLinearMatMul", [*inputs, np.array(100, np.uint8)], P.UINT8, 21)
        exact = sums.astype(np.float32)
        want = np.clip(np.rint(exact * (one * two / three)) + 100, 0, 255).astype(np.uint8)
        same(got, want)
        other = np.clip(np.rint(exact * (one * two) / three) + 100, 0, 255).astype(np.uint8)
        places += int((other != want).sum())
    assert places  # the order shows


@pytest.mark.parametrize("x", [[[-3, 0.5, 2], [4, -1, 0.25]], [[1, 2, 3.5]], [[-1, -2.5, -0.1]]])
def test_dynamic_quantize_linear(x: Any) -> None:
    given = np.array(x, np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    ports = [helper.make_tensor_value_info("x", P.FLOAT, given.shape)]
    outputs = [
        helper.make_tensor_value_info(n, k, None)
        for n, k in (("y", P.UINT8), ("scale", P.FLOAT), ("zero", P.UINT8))
    ]
    graph = helper.make_graph([node], "g", ports, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    model.ir_version = 8
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = irc.compile_model(model)(given)
    for g, w in zip(got, session.run(None, {"x": given}), strict=True):
        same(g, np.asarray(w))


@pytest.mark.parametrize("sizes", [(), (1,)])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 4)])
def test_one_scale_for_an_input_of_unknown_rank(
    sizes: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    constants = {"scale": np.full(sizes, 0.5, np.float32), "zero": np.full(sizes, 3, np.uint8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, P.FLOAT, None) for name in ("x", "y")]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 3
    session = ort.InferenceSession(model.SerializeToString())
    same(irc.compile_model(model)(x)[0], session.run(None, {"x": x})[0])
