"""MatMul-1 with rank-1 inputs: the rule that the declared output follows."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.verify import verify
from support.frontends.ir_text import MATMUL, matmul_net


def output_type(graph: Graph) -> str:
    return str(graph.node(graph.results[0]).types[0])


@pytest.mark.parametrize(
    ("name", "a", "b", "declared"),
    [
        ("vector_matrix", (1024,), (1024, 1000), (1, 1000)),
        ("matrix_matrix", (1, 1024), (1024, 1000), (1, 1000)),
        ("matrix_vector_transposed", (1, 1024), (1000, 1024), (1, 1000)),
        ("batch10", (10, 1024), (1024, 1000), (10, 1000)),
        ("batch5_broadcast", (5, 10, 1024), (1024, 1000), (5, 10, 1000)),
    ],
)
def test_examples_of_the_document(
    name: str, a: tuple[int, ...], b: tuple[int, ...], declared: tuple[int, ...]
) -> None:
    graph = read_xml(MATMUL / f"{name}.xml")
    verify(graph)
    assert output_type(graph) == f"f32[{', '.join(map(str, declared))}]"
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in (a, b))
    second = y.T if name == "matrix_vector_transposed" else y
    (found,) = interpret(graph, {"a": x, "b": y})
    np.testing.assert_array_equal(found, (x @ second).reshape(declared))


# a, b, transpose_a, transpose_b, declared, output, whether the old rule is taken
RULES = [
    ("4", "4,5", 0, 0, (), "f32[5]", False),
    ("4", "4,5", 0, 0, (5,), "f32[5]", False),
    ("4", "4,5", 0, 0, (-1,), "f32[5]", False),
    ("4", "4,5", 0, 0, (1, 5), "f32[1, 5]", True),
    ("4", "4,5", 0, 0, (-1, 5), "f32[1, 5]", True),
    ("4", "4,5", 0, 0, (-1, -1), "f32[1, 5]", True),
    ("4", "5,4", 0, 1, (5,), "f32[5]", False),
    ("4", "5,4", 0, 1, (1, 5), "f32[1, 5]", True),
    ("4", "4,5", 1, 0, (5,), "f32[5]", False),  # NumPy's rule ignores the transposition
    ("4", "1,5", 1, 0, (4, 5), "f32[4, 5]", True),  # the old rule does not
    ("4", "4", 0, 0, (), "f32[]", False),
    ("4", "4", 1, 1, (), "f32[]", False),
    ("4", "4", 0, 1, (1, 1), "f32[1, 1]", True),
    ("4", "5", 1, 0, (4, 5), "f32[4, 5]", True),
    ("5,4", "4", 0, 0, (5,), "f32[5]", False),
    ("5,4", "4", 0, 1, (5, 1), "f32[5, 1]", True),
    ("5,1", "4", 0, 0, (5, 4), "f32[5, 4]", True),
    ("4,5", "4", 1, 0, (5,), "f32[5]", False),
    ("4", "2,4,5", 0, 0, (2, 5), "f32[2, 5]", False),
    ("4", "2,4,5", 0, 0, (2, 1, 5), "f32[2, 1, 5]", True),
    ("2,3,5,4", "4", 0, 0, (2, 3, 5), "f32[2, 3, 5]", False),
]


@pytest.mark.parametrize(("a", "b", "ta", "tb", "declared", "output", "old"), RULES)
def test_rule_follows_the_declared_sizes(
    a: str, b: str, ta: int, tb: int, declared: tuple[int, ...], output: str, old: bool
) -> None:
    graph = read_xml(matmul_net(a, b, declared, ta=bool(ta), tb=bool(tb)))
    verify(graph)
    assert output_type(graph) == output
    assert ("Unsqueeze" in [graph.op(n).kind for n in graph.ids()]) is old
    rng = np.random.default_rng(1)
    shapes = [tuple(map(int, s.split(","))) for s in (a, b)]
    x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in shapes)
    (found,) = interpret(graph, [x, y])
    np.testing.assert_array_equal(found, _expected(x, y, bool(ta), bool(tb), old))


def _expected(
    x: np.ndarray, y: np.ndarray, ta: bool, tb: bool, old: bool
) -> np.ndarray:  # the two texts of the specification, word by word
    if old:
        x, y = (v.reshape(1, -1) if v.ndim == 1 else v for v in (x, y))
    x = x.swapaxes(-1, -2) if ta and x.ndim > 1 else x
    y = y.swapaxes(-1, -2) if tb and y.ndim > 1 else y
    return x @ y


def test_symbolic_vector() -> None:
    graph = read_xml(matmul_net("?", "4,5", (1, 5)))
    assert output_type(graph) == "f32[1, 5]"
    assert output_type(read_xml(matmul_net("?", "?,5", (5,)))) == "f32[5]"


def test_neither_rule_is_an_error_that_shows_both() -> None:
    with pytest.raises(ShapeError) as caught:
        read_xml(matmul_net("4", "4,5", (7, 7)))
    text = str(caught.value)
    for part in ("f32[5] (NumPy's rule)", "f32[1, 5] (2020.4's)", "[7, 7]", "product", "ignore"):
        assert part in text
    assert output_type(read_xml(matmul_net("4", "4,5", (7, 7)), declared_shapes="ignore")) == (
        "f32[5]"
    )


def test_operands_that_fit_no_rule_are_the_operations_error() -> None:
    with pytest.raises(ShapeError, match="inner sizes"):
        read_xml(matmul_net("3", "4,5", (1, 5)))


def test_tensor_names_stay_on_the_product() -> None:
    source = matmul_net("4", "4,5", (1, 5))
    graph = read_xml(source.replace(b'<port id="2"', b'<port id="2" names="y"'))
    source_node = graph.input(graph.results[0], 0).node
    assert graph.op(source_node).kind == "MatMul" and graph.node(source_node).name == "product"
    assert graph.node(graph.results[0]).names == [frozenset({"y"})]
