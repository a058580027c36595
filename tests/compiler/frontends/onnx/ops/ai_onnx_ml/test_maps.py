"""Dictionaries of ai.onnx.ml: ZipMap, DictVectorizer and CastMap against onnxruntime, and maps at
both ends of a model through everything that stores or runs one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from irc_compiler.cli.main import main
from irc_compiler.compat.onnxruntime import InferenceSession
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.types import parse_type
from onnx import helper

F32, F64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
I64, STRING = onnx.TensorProto.INT64, onnx.TensorProto.STRING
MODELS = Path(__file__).resolve().parents[5] / "support" / "models" / "sklearn"
X = np.array([[0.25, 0.75], [1.0, -2.5], [0.0, 3.0]], np.float32)
LABELS = {"classlabels_int64s": [7, -3]}, {"classlabels_strings": ['a, "<', "é"]}
VOCABULARY = {"string_vocabulary": ["a", "c", "b", "a"]}


def tensor(element: int, *shape: Any) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(element, shape)


def mapping(key: int, element: int) -> onnx.TypeProto:
    """With the shape [1], as converters of scikit-learn's models write it."""
    return helper.make_map_type_proto(key, tensor(element, 1))


def one_node(
    op_type: str, given: onnx.TypeProto, made: onnx.TypeProto, **attributes: Any
) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    ends = [helper.make_value_info(n, t) for n, t in (("x", given), ("y", made))]
    return helper.make_model(
        helper.make_graph([node], "one", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )


def zip_map(*shape: Any, **labels: Any) -> onnx.ModelProto:
    key = I64 if "classlabels_int64s" in labels else STRING
    made = helper.make_sequence_type_proto(mapping(key, F32))
    return one_node("ZipMap", tensor(F32, *shape), made, **labels)


def vectorizer(key: int, element: int, **vocabulary: Any) -> onnx.ModelProto:
    made = helper.make_tensor_type_proto(element, None)
    return one_node("DictVectorizer", mapping(key, element), made, **vocabulary)


def cast_map(element: int, made: int, **attributes: Any) -> onnx.ModelProto:
    result = helper.make_tensor_type_proto(made, None)
    return one_node("CastMap", mapping(I64, element), result, **attributes)


def session_of(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    text = model.SerializeToString()
    return onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])


def wanted(model: onnx.ModelProto, x: Any) -> Any:
    return session_of(model).run(None, {"x": x})[0]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("x", [X, X[:1], X[0]], ids=["rows", "row", "vector"])
def test_zip_map(labels: Any, x: Any) -> None:
    model = zip_map(*[None] * x.ndim, **labels)
    found = irc.compile_model(model)(x)[0]
    assert found == wanted(model, x)
    assert {type(v) for row in found for v in row.values()} == {float}
    assert {type(k) for row in found for k in row} == {type(next(iter(labels.values()))[0])}


def test_zip_map_of_no_rows_and_of_labels_that_repeat() -> None:
    model = zip_map("N", 2, classlabels_strings=["a", "a"])
    net = irc.compile_model(model)
    assert net(X)[0] == wanted(model, X) == [{"a": float(v)} for v in X[:, 1]]
    assert net(X[:0])[0] == []


def test_zip_map_of_a_constant() -> None:
    model = zip_map("N", 2, **LABELS[0])
    model.graph.node.insert(0, helper.make_node("Constant", [], ["k"], value_floats=[1.0, 2.0]))
    model.graph.node[1].input[0] = "k"
    assert irc.compile_model(model)(X)[0] == [{7: 1.0, -3: 2.0}]


def test_a_classifier_as_converters_write_it_by_default() -> None:
    model = onnx.load(MODELS / "logistic.onnx")
    labels, scores = [o.name for o in model.graph.output]
    classes = [0, 1, 2]
    node = helper.make_node(
        "ZipMap", [scores], ["zipped"], domain="ai.onnx.ml", classlabels_int64s=classes
    )
    model.graph.node.append(node)
    model.graph.output[1].CopyFrom(
        helper.make_value_info("zipped", helper.make_sequence_type_proto(mapping(I64, F32)))
    )
    x = np.random.default_rng(3).standard_normal((5, 6)).astype(np.float32)
    want = session_of(model).run(None, {"X": x})
    net = irc.compile_model(model)
    found = net(x)
    np.testing.assert_array_equal(found[labels], want[0])
    assert [list(row) for row in found["zipped"]] == [list(row) for row in want[1]]
    for got, row in zip(found["zipped"], want[1], strict=True):
        np.testing.assert_allclose(list(got.values()), list(row.values()), atol=1e-6)
    assert "ZipMap" in str(net.report())


@pytest.mark.parametrize("x", [{"a": 1.5, "b": 2.0}, {"c": 0.5, "not there": 9.0}])
def test_dict_vectorizer(x: Any) -> None:
    model = vectorizer(STRING, F32, **VOCABULARY)
    found, want = irc.compile_model(model)({"x": x})[0], wanted(model, x)
    np.testing.assert_array_equal(found, want)
    assert found.dtype == want.dtype and found.shape == want.shape == (1, 4)


@pytest.mark.parametrize(
    ("key", "element", "x", "want"),
    [
        (STRING, I64, {"a": 1, "c": np.int64(-2)}, [1, -2, 0, 1]),
        (STRING, F64, {"b": 0.1, "c": np.float64(3)}, [0, 3, 0.1, 0]),
        (I64, STRING, {5: "u", np.int64(1): "v"}, ["", "u", "v"]),
        (I64, F32, {}, [0, 0, 0]),
    ],
)
def test_dict_vectorizer_of_types_that_onnxruntime_does_not_take_from_python(
    key: int, element: int, x: Any, want: Any
) -> None:
    words = VOCABULARY if key == STRING else {"int64_vocabulary": [-9, 5, 1]}
    found = irc.compile_model(vectorizer(key, element, **words))({"x": x})[0]
    assert found.tolist() == [want]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(element)


@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
@pytest.mark.parametrize(("to", "made"), [("FLOAT", F32), ("STRING", STRING), ("INT64", I64)])
def test_cast_map(form: str, to: str, made: int) -> None:
    model = cast_map(F32, made, cast_to=f"TO_{to}", map_form=form, max_map=4)
    for x in ({3: 0.1, 1: -2.75, 9: 5.5}, {0: 16777217.0, 2: 1e-7, 4: 2.0}):
        found, want = irc.compile_model(model)({"x": x})[0], wanted(model, x)
        np.testing.assert_array_equal(found, want)
        assert found.dtype == want.dtype and found.shape == want.shape


def test_cast_map_of_text() -> None:
    def run(made: int, to: str, x: Any) -> list[Any]:
        return irc.compile_model(cast_map(STRING, made, cast_to=to))({"x": x})[0].tolist()

    assert run(F32, "TO_FLOAT", {2: "1.5", 1: "-4"}) == [[-4, 1.5]]
    assert run(I64, "TO_INT64", {2: "15", 1: "-4"}) == [[-4, 15]]
    assert run(STRING, "TO_STRING", {2: "u", -1: "v"}) == [["v", "u"]]
    with pytest.raises(irc.ExecutionError, match="not a number") as caught:
        run(I64, "TO_INT64", {0: "many"})
    assert "CastMap" in str(caught.value)


def test_a_negative_key_is_no_index() -> None:
    model = cast_map(F32, F32, map_form="SPARSE", max_map=4)
    with pytest.raises(irc.ExecutionError, match="not an index"):
        irc.compile_model(model)({"x": {-1: 2.0}})


def stored(model: onnx.ModelProto, x: Any, folder: Path) -> list[Any]:
    """What each form of the model gives."""
    net = irc.compile_model(model)
    net.export(folder / "m.irc")
    text, weights = to_xml_text(irc.read_model(model).graph, dialect=True)
    through_session = InferenceSession(model.SerializeToString()).run(None, {"x": x})
    ways: list[Callable[[], Any]] = [
        lambda: net({"x": x})[0],
        lambda: irc.compile_model(folder / "m.irc")({"x": x})[0],
        lambda: pickle.loads(pickle.dumps(net))({"x": x})[0],
        lambda: interpret(read_xml(text.encode(), weights), [x])[0],
        lambda: through_session[0],
    ]
    return [way() for way in ways]


@pytest.mark.parametrize("labels", LABELS)
def test_maps_come_out_of_every_form_of_a_model(labels: Any, tmp_path: Path) -> None:
    model = zip_map("N", 2, **labels)
    want = wanted(model, X)
    assert stored(model, X, tmp_path) == [want] * 5
    ours, theirs = InferenceSession(model.SerializeToString()), session_of(model)
    assert ours.get_outputs()[0].type == theirs.get_outputs()[0].type


def test_maps_go_into_every_form_of_a_model(tmp_path: Path) -> None:
    model, x = vectorizer(STRING, F32, **VOCABULARY), {"c": 2.5, "a": 1.0}
    assert [y.tolist() for y in stored(model, x, tmp_path)] == [[[1, 2.5, 0, 1]]] * 5
    model = cast_map(F32, I64, cast_to="TO_INT64", map_form="SPARSE", max_map=3)
    assert [y.tolist() for y in stored(model, {1: 2.5}, tmp_path)] == [[[0, 2, 0]]] * 5
    ours, theirs = InferenceSession(model.SerializeToString()), session_of(model)
    assert ours.get_inputs()[0].type == theirs.get_inputs()[0].type == "map(int64,tensor(float))"


def test_a_map_that_passes_through_is_copied() -> None:
    given = mapping(STRING, F32)
    model = one_node("Identity", given, given)
    model.graph.node[0].domain = ""
    x = {"a": 1.0}
    found = irc.compile_model(model)({"x": x})[0]
    assert found == x and found is not x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "parts"),
    [
        (3.0, ["'x' is not a map", "float", "map(string, f32[])"]),
        (None, ["'x' is not a map"]),
        ([("a", 1.0)], ["'x' is not a map", "list"]),
        ({1: 1.0}, ["key of another type", "1 (int)", "string"]),
        ({"a": "1"}, ["x['a']", "another element type", "float32"]),
        ({"a": np.float64(1)}, ["x['a']", "float64", "float32"]),
        ({"a": np.ones(2, np.float32)}, ["x['a']", "number of dimensions"]),
        ({"a": None}, ["x['a']", "missing"]),
    ],
)
def test_what_is_no_such_map_is_refused(x: Any, parts: list[str]) -> None:
    with pytest.raises(irc.InputError) as caught:
        irc.compile_model(vectorizer(STRING, F32, **VOCABULARY))({"x": x})
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize("key", ["a", True, 2**63, 1.0])
def test_keys_are_integers_of_their_type(key: Any) -> None:
    with pytest.raises(irc.InputError, match="key of another type"):
        irc.compile_model(cast_map(F32, F32))({"x": {key: 1.0}})


@pytest.mark.parametrize("value", [1.0, True, 2**63])
def test_integers_are_not_made_of_other_values(value: Any) -> None:
    with pytest.raises(irc.InputError, match="not an array"):
        irc.compile_model(vectorizer(STRING, I64, **VOCABULARY))({"x": {"a": value}})


def test_labels_and_columns_differ_in_number() -> None:
    with pytest.raises(irc.ShapeError, match="differ from its columns"):
        irc.read_model(zip_map("N", 3, **LABELS[0]))
    net = irc.compile_model(zip_map("N", "C", **LABELS[0]))
    with pytest.raises(irc.ExecutionError, match="differ from its columns"):
        net(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (zip_map("N", 2), ["ZipMap", "keys are needed", "none"]),
        (zip_map("N", 2, **LABELS[0], **LABELS[1]), ["ZipMap", "both"]),
        (vectorizer(STRING, F32, int64_vocabulary=[1]), ["DictVectorizer", "map(i64, f32[])"]),
        (cast_map(F64, F32), ["CastMap", "another map", "f64"]),
        (cast_map(F32, F32, cast_to="TO_BOOL"), ["TO_BOOL", "TO_INT64"]),
        (cast_map(F32, F32, map_form="THIN"), ["THIN", "SPARSE"]),
        (cast_map(F32, F32, map_form="SPARSE", max_map=0), ["CastMap", "at least 1"]),
        (one_node("DictVectorizer", tensor(F32, 2), tensor(F32, 1, 2), int64_vocabulary=[1]),
         ["DictVectorizer"]),
        (vectorizer(F32, F32, **VOCABULARY), ["a map has keys", "f32", "string, i8"]),
    ],
)  # fmt: skip
def test_models_that_cannot_be(model: onnx.ModelProto, parts: list[str]) -> None:
    with pytest.raises(irc.Error) as caught:
        irc.read_model(model)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_maps_inside_sequences_and_optionals() -> None:
    inner = helper.make_sequence_type_proto(mapping(STRING, F32))
    model = one_node("Identity", inner, inner)
    model.graph.node[0].domain = ""
    net = irc.compile_model(model)
    assert parse_type(net.inputs[0].dtype) == net.plan.inputs[0].type
    assert net({"x": [{"a": 1.0}, {}]})[0] == [{"a": 1.0}, {}]
    with pytest.raises(irc.InputError, match=r"x\[1\]"):
        net({"x": [{}, 3]})


@pytest.mark.parametrize("take", [True, False])
def test_branches_that_give_maps(take: bool) -> None:
    """Both branches of an If by one of two lists of labels."""
    made = helper.make_sequence_type_proto(mapping(I64, F32))
    bodies = {
        name: helper.make_graph(
            [helper.make_node("ZipMap", ["x"], [name], domain="ai.onnx.ml", classlabels_int64s=k)],
            name,
            [],
            [helper.make_value_info(name, made)],
        )
        for name, k in (("then_branch", [1, 2]), ("else_branch", [3, 4]))
    }
    model = zip_map("N", 2, **LABELS[0])
    choice = helper.make_tensor_value_info("choice", onnx.TensorProto.BOOL, [])
    model.graph.input.append(choice)
    model.graph.node[0].CopyFrom(helper.make_node("If", ["choice"], ["y"], **bodies))
    found = irc.compile_model(model)({"x": X[:1], "choice": np.array(take)})[0]
    assert found == [{1: 0.25, 2: 0.75} if take else {3: 0.25, 4: 0.75}]


def test_the_command_line_prints_each_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(zip_map("N", 2, classlabels_strings=["a", "b"]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", X[:1])
    words = ["run", str(tmp_path / "m.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["outputs"]
    assert [(o["name"], o["values"]) for o in found] == [
        ("y[0]['a']", [0.25]), ("y[0]['b']", [0.75])
    ]  # fmt: skip
    assert main(words) == 0
    assert "y[0]['a']" in capsys.readouterr().out


def test_maps_are_the_callers_own() -> None:
    model = zip_map("n", 2, classlabels_int64s=[7, -3])
    # The same value twice: as an output, and in another sequence.
    model.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
    made = helper.make_sequence_type_proto(mapping(I64, F32))
    model.graph.output.append(helper.make_value_info("z", made))
    net = irc.compile_model(model.SerializeToString())
    first = net(X)
    want = [{7: 0.25, -3: 0.75}, {7: 1.0, -3: -2.5}, {7: 0.0, -3: 3.0}]
    assert list(first) == [want, want]
    first[0][0][7] = "changed"
    first[0].clear()
    assert first[1] == want and list(net(X)) == [want, want]
