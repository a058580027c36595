"""QLinearMatMul of every two types and all forms of scales, against docs/numerics.md written out in
NumPy."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto as P
from onnx import helper

INTEGERS = {P.INT8: np.int8, P.UINT8: np.uint8}
FLOAT8 = {
    P.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    P.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    P.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    P.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}
TYPES = INTEGERS | FLOAT8
SCALES = {P.FLOAT: np.float32, P.FLOAT16: np.float16, P.BFLOAT16: ml_dtypes.bfloat16}
NAMES = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero")
# Which part of [M, K] x [K, N] has a scale of its own: forms of a's, b's and y's.
FORMS: dict[str, tuple[str, str, str]] = {
    "tensor": ("one", "one", "one"),
    "rows": ("rows", "one", "one"),
    "columns": ("one", "columns", "one"),
    "both": ("rows", "columns", "rows"),
}


def run(kinds: list[int], values: list[Any], out: int, opset: int) -> Any:
    node = helper.make_node("QLinearMatMul", NAMES, ["y"])
    ports = [
        helper.make_tensor_value_info(n, k, v.shape)
        for n, k, v in zip(NAMES, kinds, values, strict=True)
    ]
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", out, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    return irc.compile_model(model, num_threads=1)(dict(zip(NAMES, values, strict=True)))[0]


def number(rng: np.random.Generator, kind: int, shape: tuple[int, ...]) -> Any:
    low = 0 if kind == P.UINT8 else -4
    return rng.integers(low, 5, shape).astype(TYPES[kind])


def shape_of(form: str, rank: int, m: int, n: int, batch: tuple[int, ...]) -> tuple[int, ...]:
    if form == "one":
        return () if rank == 2 else (1,)
    size = m if form == "rows" else n
    if rank == 2:
        return (size,)
    return (*batch, m, 1) if form == "rows" else (*batch, 1, n)


def spread(value: Any, column: bool) -> Any:
    """As broadcasting wants it, in f32."""
    wide = value.astype(np.float32)
    return wide[:, None] if wide.ndim == 1 and wide.size > 1 and not column else wide


def expected(values: list[Any], out: int) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = values
    # Small integers: the product is exact however it is summed.
    product = np.matmul(
        a.astype(np.float32) - spread(a_zero, False), b.astype(np.float32) - spread(b_zero, True)
    )
    scale = spread(a_scale, False) * spread(b_scale, True)
    value = product * (scale / spread(y_scale, False))
    zero = spread(y_zero, False)
    if out in INTEGERS:
        kind = INTEGERS[out]
        limits = np.iinfo(kind)
        return np.clip(np.rint(value) + zero, limits.min, limits.max).astype(kind)
    limit = float(ml_dtypes.finfo(FLOAT8[out]).max)
    return np.clip(value + zero, -limit, limit).astype(FLOAT8[out])


def check(a: int, b: int, out: int, scale: int, form: str, rank: int) -> None:
    rng = np.random.default_rng([a, b, out, scale, rank])
    m, k, n = 3, 5, 4
    batch = (2, 2) if rank == 4 else ()
    of_a, of_b, of_y = FORMS[form]
    values: list[Any] = []
    for kind, of, shape in (
        (a, of_a, (*batch, m, k)),
        (b, of_b, (*batch, k, n)),
        (out, of_y, None),
    ):
        own = shape_of(of, rank, m, n, batch)
        if shape is not None:
            values.append(number(rng, kind, shape))
        values.append(rng.choice([0.25, 0.5, 1, 2], own).astype(SCALES[scale]))
        values.append(number(rng, kind, own))
    kinds = [a, scale, a, b, scale, b, scale, out]
    opset = 10 if {a, b, out} <= INTEGERS.keys() and scale == P.FLOAT else 21
    found, wanted = run(kinds, values, out, opset), expected(values, out)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("out", TYPES, ids=lambda k: P.DataType.Name(k))
@pytest.mark.parametrize("a", TYPES, ids=lambda k: P.DataType.Name(k))
def test_every_combination_of_types(a: int, out: int) -> None:
    forms = list(FORMS)
    for place, b in enumerate(TYPES, [*TYPES].index(a) + [*TYPES].index(out)):
        check(a, b, out, P.FLOAT, forms[place % len(forms)], 2)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", SCALES, ids=lambda k: P.DataType.Name(k))
@pytest.mark.parametrize("rank", [2, 4])
def test_forms_of_scales(rank: int, scale: int, form: str) -> None:
    for a, b, out in (
        (P.UINT8, P.INT8, P.UINT8),
        (P.INT8, P.UINT8, P.INT8),
        (P.FLOAT8E4M3FN, P.FLOAT8E5M2, P.FLOAT8E4M3FN),
    ):
        check(a, b, out, scale, form, rank)
