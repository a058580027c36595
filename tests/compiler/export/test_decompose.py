"""The dialect in standard operations: irc and OpenVINO compute what the dialect's op computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.compiler.export.decompose import decompose
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Array, Op
from irc_compiler.ir.ops import (
    ACTIVATIONS,
    Activation,
    Assign,
    Attention,
    Gemm,
    Group,
    If,
    LayerNorm,
    Parameter,
    ReadValue,
    Result,
    RMSNorm,
)
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.ir.scalar.program import SCALAR_OPS
from irc_compiler.ir.verify import verify
from support.frontends.small_graphs import constant, graph_of
from support.models.exact_int8 import OPENVINO_CONFIG


def kinds(graph: Graph) -> list[str]:
    return [graph.op(n).kind for n in graph.order()]


def run_openvino(graph: Graph, inputs: list[Array]) -> list[Array]:
    import openvino as ov

    text, weights = to_xml_text(graph)
    core = ov.Core()
    model = core.read_model(text.encode(), ov.Tensor(np.frombuffer(weights, np.uint8)))
    options: dict[str, Any] = OPENVINO_CONFIG | {"INFERENCE_NUM_THREADS": 1}
    found = core.compile_model(model, "CPU", options)(inputs)
    return [np.array(found[i]) for i in range(len(model.outputs))]


def check(graph: Graph, inputs: list[Array], *, tolerance: float = 1e-5) -> Graph:
    """Compare the dialect's evaluate, the decomposition's, and OpenVINO. Returns the latter's."""
    standard = decompose(graph)
    verify(standard)
    assert all(standard.op(n).version > 0 for n in standard.ids())
    expected = interpret(graph, inputs)
    assert [standard.node(r).types for r in standard.results] == [
        graph.node(r).types for r in graph.results
    ]
    for found in (interpret(standard, inputs), run_openvino(graph, inputs)):
        for one, two in zip(found, expected, strict=True):
            assert one.shape == two.shape and one.dtype == two.dtype
            np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
    return standard


def one_op(op: Op, *shapes: tuple[int, ...], dtype: DType = DType.f32) -> Graph:
    nodes = [(Parameter(dtype, shape), list[int]()) for shape in shapes]
    inputs = list(range(len(shapes)))
    return graph_of(*nodes, (op, inputs), (Result(), [len(shapes)]))


def floats(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation(name: str) -> None:
    x = np.concatenate([np.linspace(-6, 6, 97, dtype=np.float32), np.float32([0, -0.0, 30, -30])])
    check(one_op(Activation(name), x.shape), [x])
    given = tuple(1.25 * v + 0.125 for _, v in ACTIVATIONS[name].parameters if np.isfinite(v))
    if given:
        check(one_op(Activation(name, given), x.shape), [x])


def test_activations_become_the_operation_of_their_name() -> None:
    for name, kind in {"relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "elu": "Elu"}.items():
        assert kinds(decompose(one_op(Activation(name), (3,))))[1] == kind


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["identity", "relu", "tanh", "hard_swish"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 2.0), (1.0, 0.0), (2.0, 1.0)])
@pytest.mark.parametrize("c", [None, (4,), (3, 1), (1, 1)])
def test_gemm(activation: str, alpha: float, beta: float, c: tuple[int, ...] | None) -> None:
    shapes = [(5, 3), (5, 4), *([c] if c else [])]
    op = Gemm(alpha, beta, True, False, activation)
    standard = check(one_op(op, *shapes), floats(*shapes))
    expected = 1 + (alpha != 1) + (beta not in (0, 1) and c is not None)
    found = kinds(standard)
    assert found.count("MatMul") == 1
    if activation == "identity":
        assert found.count("MatMul") + found.count("Multiply") == expected
        assert found.count("Add") == int(c is not None and beta != 0)


def test_gemm_names_go_to_the_last_operation() -> None:
    graph = Graph("g")
    a, b = (graph.add(Parameter(DType.f32, (2, 2)), name=n) for n in "ab")
    gemm = graph.add(
        Gemm(activation="relu"), [Value(a), Value(b)], name="fc", names=[frozenset({"y"})]
    )
    graph.add(Result(), [Value(gemm)], name="out")
    infer_graph(graph)
    standard = decompose(graph)
    source = standard.input(standard.results[0], 0).node
    record = standard.node(source)
    assert (record.op.kind, record.name, record.names) == ("Relu", "fc", [{"y"}])
    assert graph.op(gemm).kind == "Gemm"


def test_batched_gemm_with_symbolic_sizes() -> None:
    n = symbol("N")
    graph = graph_of(
        (Parameter(DType.f32, (n, 3, 4)), []),
        (constant(np.ones((4, 2))), []),
        (constant([1, 2]), []),
        (Gemm(activation="clip", activation_params=(0.0, 2.5)), [0, 1, 2]),
        (Result(), [3]),
    )
    check(graph, floats((2, 3, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("axis", [-1, 1, -2, 0])
@pytest.mark.parametrize("cls", [LayerNorm, RMSNorm])
def test_normalisations(cls: type[LayerNorm], axis: int) -> None:
    shapes = [(2, 3, 4), (4,), (3, 4)] if axis != -1 else [(2, 3, 4), (4,), (4,)]
    check(one_op(cls(axis=axis, eps=1e-3), *shapes), floats(*shapes))
    check(one_op(cls(axis=axis), (2, 3, 4)), floats((2, 3, 4)))


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (Gemm(alpha=0.125), [(2, 64), (64, 3)]),
        (Gemm(alpha=0.125, beta=2), [(2, 64), (64, 3), (3,)]),
        (RMSNorm(-1), [(2, 64)]),
        (RMSNorm(-1), [(2, 64), (64,)]),
        (Attention(0.125), [(1, 2, 64), (1, 3, 64), (1, 3, 4)]),
    ],
)
def test_nothing_between_two_operations_is_too_large_for_f16(
    op: Op, shapes: list[tuple[int, ...]]
) -> None:
    """64 products of 40 x 40, and squares of 400, are beyond 65504."""
    scale = 400 if isinstance(op, RMSNorm) else 40
    inputs = [np.full(shapes[0], scale, np.float16)]
    inputs += [np.full(shape, 40, np.float16) for shape in shapes[1:]]
    graph = one_op(op, *shapes, dtype=DType.f16)
    standard = check(graph, inputs, tolerance=1e-3)
    assert np.isfinite(interpret(standard, inputs)[0]).all()


def test_normalisation_with_bias_only() -> None:
    graph = Graph("g")
    x, bias = (graph.add(Parameter(DType.f32, s), name="p") for s in ((2, 3), (3,)))
    norm = graph.add(LayerNorm(), [Value(x), None, Value(bias)])
    graph.add(Result(), [Value(norm)])
    infer_graph(graph)
    check(graph, floats((2, 3), (3,)))


_DOMAIN = {"log": (0.1, 4), "sqrt": (0, 4), "rsqrt": (0.1, 4), "log1p": (-0.5, 4), "pow": (0.1, 3)}
_DOMAIN |= {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.9, 0.9), "acosh": (1, 4)}
_DOMAIN |= {"recip": (0.5, 4)}
_BITS = {"shl", "shr", "bitand", "bitor", "bitxor", "bitnot"}
_LOGIC = {"and", "or", "xor", "not"}
_FLOAT_OPS = [
    name
    for name in SCALAR_OPS
    if name not in {"input", "const", "cast", "select", "atan2", *_BITS, *_LOGIC}
]


@pytest.mark.slow
@pytest.mark.parametrize("name", _FLOAT_OPS)
def test_every_scalar_operation(name: str) -> None:
    count = SCALAR_OPS[name]
    b = Builder()
    out = b.op(name, *(b.input(i, DType.f32) for i in range(count)))
    low, high = _DOMAIN.get(name, (-3, 3))
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(low, high, 50).astype(np.float32) for _ in range(count)]
    if name in ("isnan", "isinf", "trunc"):  # OpenVINO's Maximum drops NaN
        inputs[0][:3] = np.nan, np.inf, -np.inf
    if name == "clip":
        inputs[1], inputs[2] = np.full(50, -1, np.float32), np.full(50, 1, np.float32)
    check(one_op(Group(b.finish(out)), *[(50,)] * count), inputs)


def test_groups_of_several_types_and_results() -> None:
    b = Builder()
    x, y = b.input(0, DType.f32), b.input(1, DType.f32)
    positive = b.op("gt", x, b.const(0, DType.f32))
    whole = b.cast(b.op("mul", x, b.const(10, DType.f32)), DType.i32)
    chosen = b.op("select", positive, b.op("add", x, y), b.op("neg", y))
    program = b.finish(chosen, whole, b.op("and", positive, b.op("isnan", y)))
    graph = graph_of(
        (Parameter(DType.f32, (symbol("N"), 1)), []),
        (Parameter(DType.f32, (symbol("M"),)), []),
        (Group(program), [0, 1]),
    )
    for port in range(3):
        graph.add(Result(), [Value(2, port)])
    infer_graph(graph)
    # The second result depends on x alone: it is still broadcast to the shape of all inputs.
    check(graph, floats((3, 1), (4,)))


def test_dialect_inside_bodies() -> None:
    def body(op: Op) -> Graph:
        return graph_of((Parameter(DType.f32, (2, 2)), []), (op, [0]), (Result(), [1]))

    graph = Graph("g")
    condition = graph.add(Parameter(DType.boolean, ()), name="c")
    x = graph.add(Parameter(DType.f32, (2, 2)), name="x")
    op = If(body(Activation("relu")), body(Activation("celu", (0.5,))), (1,), (1,), (0,), (0,))
    chosen = graph.add(op, [Value(condition), Value(x)], name="if")
    graph.add(Result(), [Value(chosen)], name="y")
    infer_graph(graph)
    for taken in (True, False):
        check(graph, [np.array(taken), *floats((2, 2))])
    assert kinds(op.then_body)[1] == "Activation"


@pytest.mark.slow
@pytest.mark.parametrize("causal", ["", "first", "last"])
@pytest.mark.parametrize("dtype", [None, DType.f32, DType.boolean])
def test_attention(causal: str, dtype: DType | None) -> None:
    """Over symbolic sizes; a boolean mask hides one row's keys altogether."""
    s, t = symbol("S"), symbol("T")
    op = Attention(0.5, causal, fill=-1e30)
    shapes = [(2, 3, s, 8), (2, 1, t, 8), (1, 3, t, 6)]
    nodes: list[tuple[Op, list[int]]] = [(Parameter(DType.f32, x), []) for x in shapes]
    inputs = floats((2, 3, 5, 8), (2, 1, 7, 8), (1, 3, 7, 6))
    if dtype is not None:
        nodes.append((Parameter(dtype, (s, t)), []))
        mask = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
        mask[2] = -1
        inputs.append(mask if dtype is DType.f32 else mask > 0)
    count = len(nodes)
    check(graph_of(*nodes, (op, list(range(count))), (Result(), [count])), inputs)


def test_attention_whose_hidden_rows_are_zeros() -> None:
    op = Attention(1.0, "last", zeros=True)
    graph = one_op(op, (1, 4, 8), (1, 2, 8), (1, 2, 5))
    inputs = floats((1, 4, 8), (1, 2, 8), (1, 2, 5))
    standard = decompose(graph)
    expected = interpret(graph, inputs)
    assert not expected[0][0, :2].any() and expected[0][0, 2:].all()
    for found in (interpret(standard, inputs), run_openvino(graph, inputs)):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 1, 1), (2, 3, 5, 1)])
def test_attention_with_sinks(shape: tuple[int, ...]) -> None:
    op, mask = Attention(0.5, "last"), (5, 7)
    shapes = ((2, 3, 5, 8), (2, 1, 7, 8), (1, 3, 7, 6), mask, shape)
    check(one_op(op, *shapes), floats(*shapes))


@pytest.mark.parametrize("centred", [False, True])
def test_attention_of_bytes(centred: bool) -> None:
    op = Attention(0.0005, "last")
    shapes = [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 6)]
    types = (DType.u8, DType.u8, DType.f32)
    rng = np.random.default_rng(3)
    inputs: list[Array] = [rng.integers(0, 256, s).astype(np.uint8) for s in shapes[:2]]
    graph = Graph("g")
    made = [Value(graph.add(Parameter(t, s), [])) for t, s in zip(types, shapes, strict=True)]
    made += [Value(graph.add(constant(n, DType.u8), [])) for n in (117, 140)]
    zeros = made[3:] if centred else []
    found = graph.add(op, [*made[:3], *[None] * (2 if centred else 0), *zeros])
    graph.add(Result(), [Value(found)])
    infer_graph(graph)
    check(graph, [*inputs, *floats(shapes[2])])


def test_readers_of_an_assigned_value_read_what_is_assigned() -> None:
    """OpenVINO's CPU plugin refuses readers of an Assign."""
    x = ops.parameter("x", [2, 3], "f32")
    past = ops.apply(ReadValue("v", DType.f32, "2,3"), ops.constant(np.zeros((2, 3), np.float32)))
    total = ops.apply(Assign("v"), x + past)
    graph = ops.model({"y": total * 2.0}, inputs=[x], name="sum").graph
    (sink,) = decompose(graph).sinks
    assert not decompose(graph).uses(Value(sink))
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run_openvino(graph, [data])[0], data * 2)
