"""What identifies a model in bytes: all but its graph's name and the order of operator sets."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.files.content import identify_content
from irc_compiler.compiler.frontends.onnx.files.wire import encode_varint
from onnx import TensorProto, helper, numpy_helper

OPSETS = [("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1)]


def make(name: str = "g", opsets: list[tuple[str, int]] = OPSETS) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    one = numpy_helper.from_array(np.ones(2, np.float32), "one")
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], name, [x], [y], [one])
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def digest_of(model: onnx.ModelProto) -> str:
    content = identify_content(model.SerializeToString())
    assert content is not None
    assert content.graph_name == model.graph.name
    return content.digest


def test_names_of_graphs_and_the_order_of_operator_sets_do_not_count() -> None:
    names = ["", "g", "b44aa5ef" * 4, "name of more than 127 letters " * 8, "Straße"]
    orders = list(itertools.permutations(OPSETS))
    digests = {digest_of(make(name, list(order))) for name in names for order in orders}
    assert len(digests) == 1


def _edit(model: onnx.ModelProto, change: str) -> onnx.ModelProto:
    graph = model.graph
    match change:
        case "operator":
            graph.node[0].op_type = "Sub"
        case "weights":
            graph.initializer[0].raw_data = np.zeros(2, np.float32).tobytes()
        case "description":
            graph.doc_string = "g"
        case "producer":
            model.producer_name = "p"
        case "version":
            model.opset_import[0].version = 18
        case "one more":
            model.opset_import.add(domain="d", version=1)
        case "metadata":
            helper.set_model_props(model, {"a": "b"})
        case _:
            raise AssertionError(change)
    return model


def test_all_else_counts() -> None:
    changes = ("operator", "weights", "description", "producer", "version", "one more", "metadata")
    digests = [digest_of(make()), *(digest_of(_edit(make(), change)) for change in changes)]
    assert len(set(digests)) == len(digests)


def test_a_field_of_the_graph_is_none_of_the_model() -> None:
    """producer_name of a model and name of a graph have one number, and the same bytes."""
    inner, outer = make(), make()
    inner.graph.ClearField("name")
    outer.graph.ClearField("name")
    outer.producer_name = "name"
    inner.graph.name = "name"
    assert digest_of(inner) != digest_of(outer)


def _in_two_graphs() -> bytes:
    """Protobuf merges them."""
    first, second = make(), onnx.ModelProto()
    second.graph.name = "other"
    return first.SerializeToString() + second.SerializeToString()


def _with_two_names() -> bytes:
    """The last name counts for protobuf."""
    graph = make().graph.SerializeToString() + make("h").graph.SerializeToString()
    return b"\x3a" + encode_varint(len(graph)) + graph


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<?xml version='1.0'?><net/>",
        make().SerializeToString()[:-1],
        _in_two_graphs(),
        _with_two_names(),
        make("name").SerializeToString().replace(b"\x12\x04name", b"\x12\x04\xff\xff\xff\xff"),
        b"\x3b\x3c",  # a group
        b"\x38\x01",  # a graph that is a number
        b"\x40\x01" * ((1 << 20) + 1),
    ],
    ids=["empty", "xml", "cut", "two graphs", "two names", "not UTF-8", "group", "number", "many"],
)
def test_unusual_bytes_have_no_content_of_their_own(data: bytes) -> None:
    assert identify_content(data) is None


def test_a_number_takes_as_many_bytes_as_in_protobuf() -> None:
    for number in (0, 127, 128, 300, 1 << 31):
        message = onnx.OperatorSetIdProto(version=number)
        assert message.SerializeToString() == b"\x10" + encode_varint(number)
