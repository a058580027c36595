"""Model-local functions and bodies of control flow: names, attributes, nesting, limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx import importer
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import ModelFormatError, UnsupportedOperationError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.verify import verify
from onnx import TensorProto, helper, numpy_helper
from support.frontends.cpu_seconds import at_most
from support.models.oracles import run_onnxruntime

F32, FLOAT, INT64, BOOL = np.float32, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], F32)
SETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **attributes)


def own(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return node(op_type, inputs, outputs, domain="own", **attributes)


def reference(op_type: str, inputs: list[str], outputs: list[str], **names: str) -> onnx.NodeProto:
    """A node whose attributes are those of the function around it."""
    made = node(op_type, inputs, outputs)
    for name, outer in names.items():
        made.attribute.add(name=name, ref_attr_name=outer, type=onnx.AttributeProto.FLOAT)
    return made


def function(
    name: str,
    inputs: list[str],
    outputs: list[str],
    nodes: list[onnx.NodeProto],
    attributes: Sequence[str] = (),
    defaults: Sequence[onnx.AttributeProto] = (),
) -> onnx.FunctionProto:
    return helper.make_function(
        "own", name, inputs, outputs, nodes, SETS, list(attributes), list(defaults)
    )


def model_of(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    functions: Sequence[onnx.FunctionProto] = (),
    inputs: Sequence[tuple[str, int, list[Any] | None]] = (("x", FLOAT, ["N", 3]),),
) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(*port) for port in inputs]
    ends = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    return helper.make_model(
        helper.make_graph(nodes, "g", ports, ends),
        functions=list(functions),
        opset_imports=SETS,
        ir_version=10,
    )


def compare(model: onnx.ModelProto, **inputs: Any) -> Graph:
    feeds = {name: np.asarray(value) for name, value in (inputs or {"x": X}).items()}
    graph = read_onnx(model)
    verify(graph)
    want = list(run_onnxruntime(model, feeds).values())
    for one, two in zip(interpret(graph, feeds), want, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, rtol=1e-6)
    return graph


# Functions --------------------------------------------------------------------------------------

SCALED = function(
    "Scaled",
    ["a", "b"],
    ["sum", "product"],
    [
        reference("LeakyRelu", ["a"], ["t"], alpha="slope"),
        node("Add", ["t", "b"], ["sum"]),
        node("Mul", ["t", "b"], ["product"]),
    ],
    ["slope"],
)


def test_functions_are_expanded_in_place() -> None:
    twice = function("Twice", ["v"], ["w"], [
        own("Scaled", ["v", "v"], ["s", "p"], name="inner", slope=0.5),
        node("Sub", ["p", "s"], ["w"]),
    ])  # fmt: skip
    nodes = [own("Twice", ["x"], ["t"], name="first"), own("Twice", ["t"], ["y"], name="second")]
    graph = compare(model_of(nodes, ["y"], [twice, SCALED]))
    kinds = sorted(graph.op(n).kind for n in graph.ids() if graph.op(n).kind != "Constant")
    assert kinds == sorted(["Parameter", "Result", *["PRelu", "Add", "Multiply", "Subtract"] * 2])
    assert any(graph.node(n).name.startswith("first/inner/") for n in graph.ids())
    (value,) = [Value(n) for n in graph.ids() if {"t"} in graph.node(n).names]
    assert graph.op(value.node).kind == "Subtract"


def test_attributes_reach_the_body_or_have_defaults() -> None:
    default = function(
        "Soft",
        ["a"],
        ["b"],
        [reference("LeakyRelu", ["a"], ["b"], alpha="slope")],
        defaults=[helper.make_attribute("slope", 0.25)],
    )
    nodes = [own("Soft", ["x"], ["t"]), own("Soft", ["t"], ["y"], slope=3.0)]
    compare(model_of(nodes, ["y"], [default]))
    # A reference without a value is absent: the operator's own default holds.
    nodes = [own("Scaled", ["x", "x"], ["y", "z"])]
    (got, _) = interpret(read_onnx(model_of(nodes, ["y", "z"], [SCALED])), [X])
    np.testing.assert_allclose(got, np.where(X < 0, X * F32(0.01), X) + X)


def test_optional_inputs_and_outputs_of_functions() -> None:
    clip = function("Limit", ["a", "low", "high"], ["b", "rest"], [
        node("Clip", ["a", "low", "high"], ["b"]),
        node("NoSuch", ["a"], ["rest"]),
    ])  # fmt: skip
    high = node("Constant", [], ["c"], value_float=1.0)
    model = model_of([high, own("Limit", ["x", "", "c"], ["y"])], ["y"], [clip])
    (got,) = interpret(read_onnx(model), [X])
    np.testing.assert_array_equal(got, np.minimum(X, 1))
    model = model_of([high, own("Limit", ["x", "", "c"], ["y", "z"])], ["y", "z"], [clip])
    with pytest.raises(UnsupportedOperationError, match="NoSuch of ai.onnx 17"):
        read_onnx(model)


def test_functions_that_call_themselves() -> None:
    one = function("One", ["a"], ["b"], [own("Two", ["a"], ["b"])])
    two = function("Two", ["a"], ["b"], [own("One", ["a"], ["b"])])
    with at_most(5), pytest.raises(ModelFormatError, match="calls itself") as caught:
        read_onnx(model_of([own("One", ["x"], ["y"])], ["y"], [one, two]))
    assert "own.One" in str(caught.value) and "->" in str(caught.value)


def test_exponential_expansion_is_refused_at_once() -> None:
    functions = [function("F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])])]
    for i in range(1, 60):
        body = [own(f"F{i - 1}", ["a"], ["t"]), own(f"F{i - 1}", ["t"], ["b"])]
        functions.append(function(f"F{i}", ["a"], ["b"], body))
    with at_most(5), pytest.raises(ModelFormatError, match="too many nodes") as caught:
        read_onnx(model_of([own("F59", ["x"], ["y"])], ["y"], functions))
    assert "1000000" in str(caught.value)
    # A deep chain that does not grow is fine.
    chain = [functions[0]]
    for i in range(1, 2000):
        chain.append(function(f"F{i}", ["a"], ["b"], [own(f"F{i - 1}", ["a"], ["b"])]))
    graph = read_onnx(model_of([own("F1999", ["x"], ["y"])], ["y"], chain))
    assert len(graph) == 3


def test_calls_inside_bodies_are_counted_as_they_are_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Branches that call the function before, twice each: 4^5 nodes, of which the limit is 500."""
    functions = [function("F0", ["a", "c"], ["b"], [node("Relu", ["a"], ["b"])])]
    for i in range(1, 6):
        calls = [own(f"F{i - 1}", ["a", "c"], ["t"]), own(f"F{i - 1}", ["t", "c"], ["r"])]
        branch = body(calls, [], ["r"])
        choice = node("If", ["c"], ["b"], then_branch=branch, else_branch=branch)
        functions.append(function(f"F{i}", ["a", "c"], ["b"], [choice]))
    monkeypatch.setattr(importer, "NODE_LIMIT", 500)
    inputs = [("c", BOOL, []), ("x", FLOAT, [2, 3])]
    model = model_of([own("F5", ["x", "c"], ["y"])], ["y"], functions, inputs=inputs)
    with at_most(5), pytest.raises(ModelFormatError, match="too many nodes"):
        read_onnx(model)


def test_broken_calls() -> None:
    model = model_of([own("Scaled", ["x", "x", "x"], ["y", "z"])], ["y", "z"], [SCALED])
    with pytest.raises(ModelFormatError, match="too many inputs"):
        read_onnx(model)
    with pytest.raises(ModelFormatError, match="defined twice"):
        read_onnx(model_of([own("Scaled", ["x", "x"], ["y"])], ["y"], [SCALED, SCALED]))
    broken = function("Bad", ["a"], ["b"], [node("Relu", ["nothing"], ["b"])])
    with pytest.raises(ModelFormatError, match="nothing defines") as caught:
        read_onnx(model_of([own("Bad", ["x"], ["y"])], ["y"], [broken]))
    assert "Bad" in str(caught.value)


# Bodies -----------------------------------------------------------------------------------------


def body(
    nodes: list[onnx.NodeProto],
    inputs: Sequence[tuple[str, int, list[Any] | None]],
    outputs: Sequence[str],
    **initializers: Any,
) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items()]
    ends = [helper.make_tensor_value_info(o, BOOL if o == "go" else FLOAT, None) for o in outputs]
    ports = [helper.make_tensor_value_info(*port) for port in inputs]
    return helper.make_graph(nodes, "body", ports, ends, tensors)


def test_if_takes_names_from_around_it() -> None:
    then = body([node("Mul", ["x", "scale"], ["a"])], [], ["a"], scale=F32(2))
    other = body([node("Relu", ["t"], ["b"])], [], ["b"])
    nodes = [
        node("Neg", ["x"], ["t"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    inputs = [("c", BOOL, []), ("x", FLOAT, ["N", 3])]
    model = model_of(nodes, ["y"], inputs=inputs)
    for choice in (True, False):
        graph = compare(model, c=choice, x=X)
    assert str(graph.node(graph.results[0]).types[0]) == "f32[N, 3]"


def test_if_with_a_known_condition_leaves_its_branch() -> None:
    then = body([node("Mul", ["x", "x"], ["a"])], [], ["a"])
    other = body([node("NoSuch", ["x"], ["b"])], [], ["b"])
    condition = node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    nodes = [condition, node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="i")]
    graph = read_onnx(model_of(nodes, ["y"]))
    assert {graph.op(n).kind for n in graph.ids()} == {
        "Parameter", "Multiply", "Result", "Constant"
    }  # fmt: skip
    np.testing.assert_array_equal(interpret(graph, [X])[0], X * X)


def test_unsupported_operations_inside_bodies_are_listed() -> None:
    then = body([node("NoSuch", ["x"], ["a"], name="deep")], [], ["a"])
    other = body([node("Relu", ["x"], ["b"])], [], ["b"])
    nodes = [node("If", ["c"], ["t"], then_branch=then, else_branch=other)]
    nodes.append(node("Another", ["t"], ["y"]))
    model = model_of(nodes, ["y"], inputs=[("c", BOOL, []), ("x", FLOAT, [2, 3])])
    with pytest.raises(UnsupportedOperationError, match="2 nodes") as caught:
        read_onnx(model)
    assert '"deep"' in str(caught.value) and "Another" in str(caught.value)
    assert "If of" not in str(caught.value)


def test_loop_carries_stacks_and_captures() -> None:
    nodes = [
        node("Add", ["v", "x"], ["w"]),
        node("ReduceSum", ["w"], ["total"], keepdims=0),
        node("Identity", ["cond"], ["go"]),
    ]
    inputs = [("i", INT64, []), ("cond", BOOL, []), ("v", FLOAT, None)]
    inner = body(nodes, inputs, ["go", "w", "total"])
    outer = [node("Loop", ["n", "", "x"], ["y", "sums"], body=inner)]
    model = model_of(outer, ["y", "sums"], inputs=[("n", INT64, []), ("x", FLOAT, ["N", 3])])
    graph = compare(model, n=np.int64(4), x=X)
    types = [str(graph.node(r).types[0]) for r in graph.results]
    assert types[0] == "f32[N, 3]"


def test_loop_whose_carried_value_grows() -> None:
    nodes = [
        node("Concat", ["v", "x"], ["w"], axis=0),
        node("Identity", ["cond"], ["go"]),
    ]
    inputs = [("i", INT64, []), ("cond", BOOL, []), ("v", FLOAT, None)]
    inner = body(nodes, inputs, ["go", "w"])
    outer = [node("Loop", ["n", "", "x"], ["y"], body=inner)]
    model = model_of(outer, ["y"], inputs=[("n", INT64, []), ("x", FLOAT, ["N", 3])])
    compare(model, n=np.int64(3), x=X)
    compare(model, n=np.int64(0), x=X)


def test_loop_ends_by_its_condition() -> None:
    nodes = [
        # The iteration's factor: a loop that did not end would run out of them.
        node("Gather", ["twos", "i"], ["two"]),
        node("Mul", ["v", "two"], ["w"]),
        node("ReduceMax", ["w"], ["m"], keepdims=0),
        node("Less", ["m", "limit"], ["go"]),
    ]
    inputs = [("i", INT64, []), ("cond", BOOL, []), ("v", FLOAT, None)]
    inner = body(nodes, inputs, ["go", "w"], twos=np.full(20, 2, F32), limit=F32(100))
    outer = [node("Loop", ["", "c", "x"], ["y"], body=inner)]
    model = model_of(outer, ["y"], inputs=[("c", BOOL, []), ("x", FLOAT, ["N", 3])])
    compare(model, c=True, x=X)
    compare(model, c=False, x=X)


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_sums_along_an_axis(axis: int, backwards: int) -> None:
    nodes = [node("Add", ["s", "part"], ["t"]), node("Identity", ["t"], ["each"])]
    width = X.shape[1 - axis]
    inner = body(nodes, [("s", FLOAT, [width]), ("part", FLOAT, [width])], ["t", "each"])
    attributes = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    attributes |= {"scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    outer = [
        node("Constant", [], ["z"], value=numpy_helper.from_array(np.zeros(width, F32))),
        node("Scan", ["z", "x"], ["y", "all"], body=inner, num_scan_inputs=1, **attributes),
    ]
    graph = compare(model_of(outer, ["y", "all"], inputs=[("x", FLOAT, [2, 3])]))
    assert str(graph.node(graph.results[1]).types[0]) == "f32[2, 3]"


def test_deep_nesting_is_refused() -> None:
    leaf = inner = body([node("Relu", ["x"], ["a0"])], [], ["a0"])
    for i in range(1, 24):
        branch = node("If", ["c"], [f"a{i}"], then_branch=inner, else_branch=leaf)
        inner = body([branch], [], [f"a{i}"])
    top = node("If", ["c"], ["y"], then_branch=inner, else_branch=leaf)
    model = model_of([top], ["y"], inputs=[("c", BOOL, []), ("x", FLOAT, [2, 3])])
    with at_most(5), pytest.raises(ModelFormatError, match="nested too deeply"):
        read_onnx(model)
