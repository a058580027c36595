"""`irc_compiler.builder.gemm` against DML_GEMM_OPERATOR_DESC, computed here with NumPy in float64.

Every activation, f32 and f16, 2 to 4 axes, transposes, alpha and beta, C of the output's sizes or
broadcast; through the compiler, the dialect's XML, and standard operation sets in OpenVINO.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler import ops
from irc_compiler.compiler.export.xml import to_xml_text, write_xml
from support.formulas import sigmoid
from support.models.exact_int8 import OPENVINO_CONFIG

Array = Any
_erf = np.vectorize(math.erf)


def _elu(x: Array, a: float) -> Array:
    return np.where(x > 0, x, a * np.expm1(x))


# DirectML's formulas (DML_ACTIVATION_*_OPERATOR_DESC), in float64.
FORMULAS: dict[str, Callable[..., Array]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, a: np.where(x >= 0, x, a * x),
    "thresholded_relu": lambda x, a: np.where(x > a, x, 0),
    "parametrised_relu": lambda x, a: np.where(x >= 0, x, a * x),
    "elu": _elu,
    "celu": lambda x, a: np.maximum(0, x) + np.minimum(0, a * np.expm1(x / a)),
    "scaled_elu": lambda x, a, g: g * _elu(x, a),
    "sigmoid": sigmoid,
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "tanh": np.tanh,
    "scaled_tanh": lambda x, a, b: a * np.tanh(b * x),
    "softplus": lambda x, s: np.log1p(np.exp(s * x)) / s,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "linear": lambda x, a, b: a * x + b,
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x, b: x * sigmoid(b * x),
    "hard_swish": lambda x, a, b: x * np.clip(a * x + b, 0, 1),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "clip": lambda x, low, high: np.clip(x, low, high),
}
GIVEN: dict[str, tuple[float, ...]] = {
    "leaky_relu": (0.2,),
    "thresholded_relu": (0.75,),
    "parametrised_relu": (0.4,),
    "elu": (1.5,),
    "celu": (0.6,),
    "scaled_elu": (1.6, 1.1),
    "hard_sigmoid": (0.3, 0.4),
    "scaled_tanh": (1.7, 0.6),
    "softplus": (2.5,),
    "linear": (-1.5, 0.25),
    "swish": (1.3,),
    "hard_swish": (0.25, 0.4),
    "clip": (-0.5, 1.25),
}
# What a missing parameter is: ONNX's attributes, DirectML's formulas.
DEFAULTS: dict[str, tuple[float, ...]] = {
    "leaky_relu": (0.01,),
    "thresholded_relu": (1.0,),
    "parametrised_relu": (0.25,),
    "elu": (1.0,),
    "celu": (1.0,),
    "scaled_elu": (1.67326319217681884765625, 1.05070102214813232421875),
    "hard_sigmoid": (0.2, 0.5),
    "scaled_tanh": (1.0, 0.5),
    "softplus": (1.0,),
    "linear": (1.0, 0.0),
    "swish": (1.0,),
    "hard_swish": (1 / 6, 0.5),
    "clip": (-math.inf, math.inf),
}
CASES = [(name, ()) for name in FORMULAS if name != "clip"]
CASES += [*GIVEN.items()]
TOLERANCE = {"float32": 2e-6, "float16": 1e-3}


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def expected(
    a: Array, b: Array, c: Array | None, name: str, params: tuple[float, ...], **flags: Any
) -> Array:
    a, b = a.astype(np.float64), b.astype(np.float64)
    a = a.swapaxes(-1, -2) if flags.get("trans_a") else a
    b = b.swapaxes(-1, -2) if flags.get("trans_b") else b
    y = flags.get("alpha", 1.0) * (a @ b)
    if c is not None:
        y = y + flags.get("beta", 1.0) * c.astype(np.float64)
    defaults = DEFAULTS.get(name, ())
    with np.errstate(over="ignore"):
        return FORMULAS[name](y, *params, *defaults[len(params) :])


def built(a: Array, b: Array, c: Array | None, **options: Any) -> irc.Model:
    element = {"float32": "f32", "float16": "f16"}[a.dtype.name]
    x = ops.parameter("a", a.shape, element)
    y = ops.gemm(x, b, c, **options)
    assert y.dtype == element
    return ops.model({"y": y})


def close(got: Array, want: Array, dtype: str) -> None:
    assert got.dtype == dtype and got.shape == want.shape
    np.testing.assert_allclose(
        got.astype(np.float64), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 4
    )


def test_every_activation_of_the_table_is_here() -> None:
    assert FORMULAS.keys() == ops.ACTIVATIONS.keys()
    listed = {name: tuple(given.values()) for name, given in ops.ACTIVATIONS.items() if given}
    assert listed == DEFAULTS and listed.keys() == GIVEN.keys()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda v: str(v))
def test_activations(name: str, params: tuple[float, ...], dtype: str) -> None:
    a, b = numbers(3, 5, dtype=dtype), numbers(5, 9, dtype=dtype)
    c = numbers(3, 9, dtype=dtype, seed=1)
    options = {"alpha": 0.5, "beta": -1.5}
    model = built(a, b, c, activation=name, activation_params=params, **options)
    want = expected(a, b, c, name, params, **options)
    close(irc.compile_model(model)(a)["y"], want, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda v: str(v))
def test_the_dialects_xml_keeps_it(name: str, params: tuple[float, ...]) -> None:
    a, b, c = numbers(3, 5), numbers(5, 9), numbers(1, 9, seed=1)
    options = {"alpha": 0.5, "beta": -1.5, "trans_b": False}
    model = built(a, b, c, activation=name, activation_params=params, **options)
    text, weights = to_xml_text(model.graph, dialect=True)
    again = irc.read_model(text.encode(), weights)
    kinds = {again.graph.op(n).kind: again.graph.op(n) for n in again.graph.ids()}
    assert kinds["Gemm"] == next(
        model.graph.op(n) for n in model.graph.ids() if model.graph.op(n).kind == "Gemm"
    )
    np.testing.assert_array_equal(
        irc.compile_model(again)(a)["y"], irc.compile_model(model)(a)["y"]
    )


def test_openvino_computes_the_same_from_standard_sets(tmp_path: Path) -> None:
    a, b, c = numbers(2, 3, 4, 5), numbers(2, 3, 9, 5), numbers(4, 1, seed=1)
    x = ops.parameter("a", a.shape)
    options = {"alpha": 0.5, "beta": -1.5, "trans_b": True}
    outputs = {
        f"{name}{'_given' * bool(params)}": ops.gemm(
            x, b, c, activation=name, activation_params=params, **options
        )
        for name, params in CASES
    }
    path = tmp_path / "gemm.xml"
    irc.save_model(ops.model(outputs), path)
    assert 'version="irc"' not in path.read_text()
    net = ov.Core().compile_model(path, "CPU", OPENVINO_CONFIG)
    got = net([a])
    for (name, params), key in zip(CASES, outputs, strict=True):
        want = expected(a, b, c, name, params, **options)
        # OpenVINO approximates erf and exp less closely than irc.
        np.testing.assert_allclose(got[key], want, rtol=2e-5, atol=2e-5, err_msg=key)


LEADING = [(), (3,), (2, 3)]
SHAPES_OF_C = ["absent", "full", "row", "column", "one", "scalar"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("leading", LEADING, ids=lambda v: f"{len(v) + 2}d")
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_axes_transposes_and_c(
    leading: tuple[int, ...], trans_a: int, trans_b: int, dtype: str
) -> None:
    m, n, k = 4, 7, 6
    a = numbers(*leading, *((k, m) if trans_a else (m, k)), dtype=dtype)
    b = numbers(*leading, *((n, k) if trans_b else (k, n)), dtype=dtype)
    sizes = {"full": (*leading, m, n), "row": (n,), "column": (m, 1), "one": (1,), "scalar": ()}
    for number, kind in enumerate(SHAPES_OF_C):
        c = None if kind == "absent" else numbers(*sizes[kind], dtype=dtype, seed=3)
        options: dict[str, Any] = {"trans_a": bool(trans_a), "trans_b": bool(trans_b)}
        options |= {"alpha": 1.5, "beta": 0.5} if number % 2 else {}
        got = irc.compile_model(built(a, b, c, activation="relu", **options))(a)["y"]
        close(got, expected(a, b, c, "relu", (), **options), dtype)


def test_beta_zero_leaves_c_unread(tmp_path: Path) -> None:
    a, b, c = numbers(2, 3), numbers(3, 4), np.full((2, 4), np.nan, np.float32)
    model = built(a, b, c, beta=0.0)
    assert np.isfinite(irc.compile_model(model)(a)["y"]).all()
    write_xml(model.graph, tmp_path / "g.xml", dialect=True)
    assert np.isfinite(irc.compile_model(tmp_path / "g.xml")(a)["y"]).all()


def test_alpha_zero_computes_the_product() -> None:
    a, b = np.full((2, 3), np.nan, np.float32), numbers(3, 4)
    assert np.isnan(irc.compile_model(built(a, b, None, alpha=0.0))(a)["y"]).all()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3,), (3, 4), None), "rank"),
        (((1, 1, 1, 2, 3), (3, 4), None), "rank"),
        (((2, 3), (4, 5), None), "inner sizes"),
        (((2, 2, 3), (3, 3, 5), None), "batch"),
        (((2, 3), (3, 4), (3, 4)), "C does not broadcast"),
        (((2, 3), (3, 4), (2, 2, 4)), "C does not broadcast"),
    ],
)
def test_sizes_that_do_not_fit(shapes: Any, message: str) -> None:
    arrays = [None if s is None else np.zeros(s, np.float32) for s in shapes]
    with pytest.raises(irc.ShapeError, match=message):
        ops.gemm(*arrays)


def test_names_and_types_that_do_not_fit() -> None:
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(irc.UnsupportedOperationError, match="unknown activation"):
        ops.gemm(a, a, activation="reluu")
    with pytest.raises(irc.ShapeError, match="too many parameters"):
        ops.gemm(a, a, activation="relu", activation_params=(1,))
    with pytest.raises(irc.ShapeError, match="one element type"):
        ops.gemm(a, a.astype(np.float16))
