"""Inference of nodes: known values, symbols of data-dependent sizes, errors that name the node."""

from __future__ import annotations

import pytest
from irc_compiler.ir.errors import ModelFormatError, ShapeError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph, infer_node
from irc_compiler.ir.ops import Exp, NonZero
from irc_compiler.ir.text.graph_text import parse_graph


def known(graph: Graph) -> list[str]:
    """The known value of the first result's input, element by element."""
    found = graph.known_value(graph.input(graph.results[0], 0))
    return [] if found is None else [str(v) for v in found.reshape(-1).tolist()]


def test_shape_arithmetic_of_symbols() -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", "S", 32]} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {data=[0], dtype=i64, shape=[]}
%3 = Constant.1() {data=[1, 0], dtype=i64, shape=[2]}
%4 = Gather.8(%1, %3, %2)
%5 = Constant.1() {data=[2], dtype=i64, shape=[1]}
%6 = Multiply.1(%4, %5)
%7 = Concat.1(%6, %5) {axis=0}
%8 = Result.1(%7)
""")
    assert known(graph) == ["2*S", "2*N", "2"]


@pytest.mark.parametrize(
    ("shape", "numbers", "lines", "expected"),
    [
        # Of what is not negative; of a difference they are not decided.
        ('"N", "S"', "0, 3", "Subtract Abs", ["N", "max(-S + 3, S - 3)"]),
        # C's remainders and Python's are equal: sizes are not negative.
        ('"9*N", "S"', "9, 4", "Mod", ["0", "S - 4*(S//4)"]),
    ],
    ids=["magnitudes", "remainders"],
)
def test_arithmetic_of_sizes_and_numbers(
    shape: str, numbers: str, lines: str, expected: list[str]
) -> None:
    first, *others = lines.split()
    text = f"%3 = {first}.1(%1, %2)" + "".join(f"\n%4 = {op}.1(%3)" for op in others)
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[{shape}]}} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {{data=[{numbers}], dtype=i64, shape=[2]}}
{text}
%5 = Result.1(%{3 + len(others)})
""")
    assert known(graph) == expected


def test_sizes_are_padded_and_converted_like_others() -> None:
    """As OpenVINO's converter of TensorFlow passes paddings on."""
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", "S"]} "x"
%1 = ShapeOf.3(%0)
%2 = Constant.1() {data=[1], dtype=i32, shape=[1]}
%3 = ConvertLike.1(%1, %2)
%4 = Constant.1() {data=[2], dtype=i32, shape=[1]}
%5 = Constant.1() {data=[7], dtype=i32, shape=[]}
%6 = Pad.12(%3, %2, %4, %5)
%7 = Result.1(%6)
""")
    assert known(graph) == ["7", "N", "S", "7", "7"]


@pytest.mark.parametrize(("op", "decided"), [("LogicalAnd", "False"), ("LogicalOr", "True")])
def test_one_operand_decides_about_logic(op: str, decided: str) -> None:
    """As in the floor that OpenVINO's converter of TensorFlow takes of a quotient of sizes: less
    one where the quotient is inexact (not decided) and the size is negative."""
    zero = "%2 = Constant.1() {data=[0], dtype=i64, shape=[1]}"
    compare = "Less" if decided == "False" else "GreaterEqual"
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=["N"]}} "x"
%1 = ShapeOf.3(%0)
{zero}
%3 = Constant.1() {{data=[4], dtype=i64, shape=[1]}}
%4 = Equal.1(%1, %3)
%5 = {compare}.1(%1, %2)
%6 = {op}.1(%4, %5)
%7 = Result.1(%6)
""")
    assert known(graph) == [decided]


def test_all_static_values_become_integers() -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 4]} "x"
%1 = ShapeOf.3(%0) {output_type=i32}
%2 = Constant.1() {data=[1], dtype=i64, shape=[1]}
%3 = Constant.1() {data=[0], dtype=i64, shape=[]}
%4 = Gather.8(%1, %2, %3)
%5 = Result.1(%4)
""")
    found = graph.known_value(Value(graph.results[0]))
    assert found is not None and found.dtype.name == "int32" and found.tolist() == [4]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [("300, 500", ["160", "256"]), ('"H", 500', [])],
    ids=["known", "symbolic"],
)
def test_sizes_scaled_as_floats_and_rounded_are_known(sizes: str, expected: list[str]) -> None:
    """As torchvision's detectors resize an image, and pad it to a multiple of 32; symbolic sizes
    have no arithmetic with floats."""
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=[{sizes}]}} "x"
%1 = ShapeOf.3(%0)
%2 = Convert.1(%1) {{destination_type=f32}}
%3 = Constant.1() {{data=[150.0], dtype=f32, shape=[]}}
%4 = Constant.1() {{data=[0], dtype=i64, shape=[1]}}
%5 = ReduceMin.1(%2, %4)
%6 = Divide.1(%3, %5)
%7 = Multiply.1(%2, %6)
%8 = Floor.1(%7)
%9 = Constant.1() {{data=[32.0], dtype=f32, shape=[1]}}
%10 = Divide.1(%8, %9)
%11 = Ceiling.1(%10)
%12 = Multiply.1(%11, %9)
%13 = Convert.1(%12) {{destination_type=i64}}
%14 = Result.1(%13)
""")
    assert known(graph) == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%2 = Exp.1(%1)", "of floats"),
        ("%2 = Convert.1(%0) {destination_type=i64}", "of data"),
        ("%2 = Greater.1(%1, %1)", "not decided"),
    ],
)
def test_what_is_not_known(line: str, why: str) -> None:
    if "Exp" in line:
        line = "%3 = Convert.1(%1) {destination_type=f32}\n%2 = Exp.1(%3)"
    if "Greater" in line:
        line = "%3 = Constant.1() {data=[3], dtype=i64, shape=[1]}\n%2 = Greater.1(%1, %3)"
    graph = parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type=f32, shape=["N"]}} "x"
%1 = ShapeOf.3(%0)
{line}
%9 = Result.1(%2)
""")
    assert known(graph) == [], why


def test_values_up_to_the_limit() -> None:
    text = """graph "g"
%0 = Constant.1() {{data=~1, dtype=i64, shape=[{n}]}}
%1 = Constant.1() {{data=[1], dtype=i64, shape=[]}}
%2 = Add.1(%0, %1)
%3 = Result.1(%2)
"""
    assert len(known(parse_graph(text.format(n=64)))) == 64
    assert known(parse_graph(text.format(n=65))) == []


def test_symbols_of_data_dependent_sizes_belong_to_their_node() -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N"]} "x"
%1 = NonZero.3(%0)
%2 = NonZero.3(%0)
%3 = Result.1(%1)
""")
    first, second = (graph.type(Value(n)) for n in (1, 2))
    assert str(first) == "i64[1, _1_0]" and str(second) == "i64[1, _2_0]"
    infer_graph(graph)
    assert graph.type(Value(1)) == first
    assert isinstance(graph.op(1), NonZero)


def test_errors_name_the_node() -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 3]} "x"
%1 = Exp.1(%0) "e"
""")
    node = graph.add(Exp(), [], name="second")
    with pytest.raises(ShapeError, match="needs input 0") as caught:
        infer_node(graph, node)
    assert caught.value.where == "Exp 'second'"
    graph.node(node).origin = "layer 7 'second', line 12"
    with pytest.raises(ShapeError) as caught:
        infer_node(graph, node)
    assert caught.value.where == "Exp: layer 7 'second', line 12"


def test_a_broken_text_names_its_line() -> None:
    with pytest.raises(ModelFormatError) as caught:
        parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=[2, 3]} "x"

%1 = MatMul.1(%0, %0) "mm"
""")
    assert caught.value.where == "line 4, MatMul 'mm'"
