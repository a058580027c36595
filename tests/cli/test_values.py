"""Verbs on models whose outputs are not arrays: the arrays in them are outputs of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from irc_compiler.cli.commands.bench import worst_difference
from irc_compiler.cli.commands.compare import differences
from irc_compiler.cli.main import main
from irc_compiler.cli.values import arrays_of
from onnx import TensorProto, helper

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def listed(tmp_path: Path) -> str:
    """x and 2x as a sequence; x next to it as x.npy."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("SequenceConstruct", ["x", "twice"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "listed", [x], [y]),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    path = tmp_path / "listed.onnx"
    onnx.save(model, path)
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    return str(path)


def test_run(listed: str, tmp_path: Path, capsys: Captured) -> None:
    words = ["run", listed, "--input", f"x={tmp_path / 'x.npy'}"]
    assert main([*words, "-o", str(tmp_path / "o.npz")]) == 0
    assert capsys.readouterr().out.split("\n")[::2][:2] == ["y[0]  float32[3]", "y[1]  float32[3]"]
    with np.load(tmp_path / "o.npz") as stored:
        assert {n: a.tolist() for n, a in stored.items()} == {"y[0]": [0, 1, 2], "y[1]": [0, 2, 4]}
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["outputs"]
    assert [(o["name"], o["values"]) for o in found] == [("y[0]", [0, 1, 2]), ("y[1]", [0, 2, 4])]
    assert main([*words, "-o", str(tmp_path / "o.npy")]) == 2
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("how", [[], ["--layers"], ["--bisect"], ["--against", "onnxruntime"]])
def test_compare(listed: str, how: list[str], capsys: Captured) -> None:
    assert main(["compare", listed, *how, "--json"]) == 0
    names = [t["name"] for t in json.loads(capsys.readouterr().out)["tensors"]]
    assert names[-2:] == ["y[0]", "y[1]"]


def test_complex_numbers(tmp_path: Path, capsys: Captured) -> None:
    """They are made up with both parts, and differ where only the imaginary one does."""
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.COMPLEX64, s)
        for n, s in (("x", [2, 3]), ("y", [3, 2]))
    )
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"])], "turned", [x], [y])
    path = tmp_path / "turned.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["compare", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"]
    one = np.array([3 + 4j, 1], np.complex64)
    (found,) = differences("y", one + np.complex64(0.5j), one, 1e-4)
    assert (found.out_of_tolerance, found.largest, found.relative) == (2, 0.5, 0.1)


def test_bench(listed: str, capsys: Captured) -> None:
    assert main(["bench", listed, "--seconds", "0", "--against", "onnxruntime", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [r["error"] for r in rows] == [0, 0]


def test_arrays_of_values() -> None:
    one = np.ones(2)
    found = arrays_of("y", [{"a": 0.5, 3: one}, None, [one]])
    assert list(found) == ["y[0]['a']", "y[0][3]", "y[2][0]"] and found["y[0]['a']"] == 0.5
    wrong = differences("y", [one, one + 1], [one, one, one], 1e-4)
    assert [(d.name, d.is_within_tolerance) for d in wrong] == [
        ("y[0]", True),
        ("y[1]", False),
        ("y[2]", False),
    ]
    assert worst_difference([[one]], [[one, one]]) == float("inf")
    assert worst_difference([[one, 2 * one]], [[one, one]]) == 1


@pytest.mark.parametrize("verb", ["bench", "compare"])
def test_a_reference_engine_that_refuses_the_model(
    listed: str, verb: str, capsys: Captured
) -> None:
    """OpenVINO has no sequences."""
    assert main([verb, listed, "--against", "openvino"]) == 5
    said = capsys.readouterr()
    assert said.err.startswith("irc: error: openvino can't run this model\n  where: ")
    assert "SequenceMark" in said.err and not said.out
