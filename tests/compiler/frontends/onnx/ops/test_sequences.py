"""Values that are not tensors: sequences, optionals and strings, inside graphs and at their
ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import helper

F32 = onnx.TensorProto.FLOAT
I64 = onnx.TensorProto.INT64
STRING = onnx.TensorProto.STRING

tensor = helper.make_tensor_value_info
sequence = helper.make_tensor_sequence_value_info


def optional(name: str, element: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, helper.make_optional_type_proto(element))


def model(nodes: list[Any], inputs: list[Any], outputs: list[str], opset: int = 21) -> Any:
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def rows(*sizes: int) -> list[np.ndarray]:
    return [np.full((n, 3), n, np.float32) for n in sizes]


def sequence_net() -> Any:
    nodes = [
        helper.make_node("SequenceInsert", ["s", "x"], ["longer"]),
        helper.make_node("SequenceLength", ["longer"], ["count"]),
        helper.make_node("ConcatFromSequence", ["longer"], ["joined"], axis=0),
        helper.make_node("Relu", ["joined"], ["y"]),
        helper.make_node("SequenceErase", ["longer", "first"], ["rest"]),
        helper.make_node("SequenceAt", ["rest", "last"], ["at"]),
    ]
    given = [sequence("s", F32, [None, 3]), tensor("x", F32, ["N", 3])]
    given += [tensor("first", I64, []), tensor("last", I64, [])]
    return irc.compile_model(model(nodes, given, ["longer", "count", "y", "rest", "at"]))


def fed(s: Any, x: Any, first: int = 0, last: int = -1) -> dict[str, Any]:
    return {"s": s, "x": x, "first": np.int64(first), "last": np.int64(last)}


def test_sequences_pass_through_a_graph() -> None:
    net = sequence_net()
    a, b = rows(2, 1)
    found = net(fed([a], -b))
    assert [v.shape for v in found["longer"]] == [(2, 3), (1, 3)]
    assert found["count"] == 2 and found["count"].shape == ()
    np.testing.assert_array_equal(found["y"], np.concatenate([a, 0 * b]))
    np.testing.assert_array_equal(found["at"], -b)
    assert len(found["rest"]) == 1


def test_results_alias_neither_inputs_nor_each_other() -> None:
    a, b = rows(2, 1)
    found = sequence_net()(fed([a], b))
    found["longer"][0][:] = 9
    found["rest"][0][:] = 7
    assert (a == 2).all() and (b == 1).all()
    assert (found["longer"][1] == 1).all() and (found["at"] == 1).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rows(2)[0], "not a sequence"),
        (None, "not a sequence"),
        ([np.zeros((2, 3), np.int64)], r"'s\[0\]' has another element type"),
        ([*rows(2), np.zeros(3, np.float32)], r"'s\[1\]' has another number of dimensions"),
    ],
)
def test_wrong_sequences_are_refused(given: Any, message: str) -> None:
    with pytest.raises(irc.InputError, match=message):
        sequence_net()(fed(given, rows(1)[0]))


def test_a_position_outside_is_an_error_that_names_the_node() -> None:
    with pytest.raises(irc.ExecutionError, match="outside the sequence") as caught:
        sequence_net()(fed(rows(1), rows(1)[0], first=5))
    assert "SequenceErase" in str(caught.value)


def test_elements_taken_out_may_differ_in_size() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=0),
        helper.make_node("SequenceAt", ["s", "i"], ["a"]),
        helper.make_node("SequenceAt", ["s", "j"], ["b"]),
        helper.make_node("Relu", ["a"], ["ra"]),
        helper.make_node("Relu", ["b"], ["rb"]),
        helper.make_node("Concat", ["ra", "rb"], ["both"], axis=0),
    ]
    given = [tensor("x", F32, [5]), tensor("sizes", I64, [2])]
    given += [tensor("i", I64, []), tensor("j", I64, [])]
    net = irc.compile_model(model(nodes, given, ["ra", "rb", "both"]))
    x = np.arange(5, dtype=np.float32)
    i, j = np.int64(0), np.int64(1)
    found = net({"x": x, "sizes": np.array([4, 1]), "i": i, "j": j})
    np.testing.assert_array_equal(found["ra"], x[:4])
    np.testing.assert_array_equal(found["rb"], x[4:])
    np.testing.assert_array_equal(found["both"], x)
    with pytest.raises(irc.ExecutionError, match="don't add up"):
        net({"x": x, "sizes": np.array([4, 2]), "i": i, "j": j})


@pytest.mark.parametrize("given", [None, np.array([1.0, -1.0], np.float32)])
def test_optionals_hold_a_value_or_none(given: Any) -> None:
    element = helper.make_tensor_type_proto(F32, ["N"])
    then = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["o"], ["t"])],
        "then",
        [],
        [tensor("t", F32, None)],
    )
    zero = helper.make_tensor("zero", F32, [1], [0.0])
    other = helper.make_graph(
        [helper.make_node("Constant", [], ["e"], value=zero)], "else", [], [tensor("e", F32, None)]
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("If", ["has"], ["v"], then_branch=then, else_branch=other),
        helper.make_node("Identity", ["o"], ["same"]),
    ]
    net = irc.compile_model(model(nodes, [optional("o", element)], ["has", "v", "same"]))
    found = net({"o": given})
    assert found["has"] == (given is not None)
    np.testing.assert_array_equal(found["v"], [0.0] if given is None else given)
    if given is None:
        assert found["same"] is None
    else:
        np.testing.assert_array_equal(found["same"], given)


def test_an_empty_optional_has_no_element() -> None:
    element = helper.make_tensor_type_proto(F32, ["N"])
    nodes = [helper.make_node("OptionalGetElement", ["o"], ["v"])]
    net = irc.compile_model(model(nodes, [optional("o", element)], ["v"]))
    with pytest.raises(irc.ExecutionError, match="no element"):
        net({"o": None})


def test_a_missing_tensor_is_not_taken_for_none() -> None:
    with pytest.raises(irc.InputError, match="missing"):
        sequence_net()({"s": rows(1)})


def test_strings_and_sequences_survive_the_artefact(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("StringConcat", ["a", "k"], ["t"]),
        helper.make_node("SequenceConstruct", ["t", "a"], ["s"]),
        helper.make_node("Constant", [], ["k"], value_strings=["!"]),
    ]
    net = irc.compile_model(model(nodes, [tensor("a", STRING, ["N"])], ["t", "s"]))
    net.export(tmp_path / "m.irc")
    words = np.array(["x", "é"], object)
    for each in (net, irc.compile_model(tmp_path / "m.irc")):
        found = each({"a": words})
        assert found["t"].tolist() == ["x!", "é!"] and found["t"].dtype == object
        assert [v.tolist() for v in found["s"]] == [["x!", "é!"], ["x", "é"]]
