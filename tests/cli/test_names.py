"""Layers of one name, which an IR may have, are told apart in reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.main import main
from irc_compiler.compiler.report import distinguish_names
from onnx import TensorProto, helper


@pytest.fixture
def doubled(here: Path) -> Path:
    """An IR with two NonZero and two Abs, all named `same`."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    outputs = [helper.make_tensor_value_info(n, TensorProto.INT64, None) for n in "ab"]
    outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4]))
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], "first"),
        helper.make_node("Abs", ["x"], ["y"], "second"),
        helper.make_node("NonZero", ["y"], ["b"], "third"),
        helper.make_node("Abs", ["a"], ["c"], "fourth"),
        helper.make_node("Softmax", ["y"], ["z"], "fifth"),
    ]
    graph = helper.make_graph(nodes, "g", [x], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    irc.save_model(irc.read_model(model), "m.xml")
    kinds = "NonZero|Abs|SoftMax|Softmax"
    text, count = re.subn(
        rf'(<layer id="\d+" name=")[^"]*(" type="(?:{kinds})")',
        r"\1same\2",
        Path("m.xml").read_text(),
    )
    assert count >= 4
    Path("m.xml").write_text(text)
    return here / "m.xml"


def test_duplicate_layer_names_are_accepted(doubled: Path) -> None:
    net = irc.compile_model(doubled)
    x = np.zeros((2, 4), np.float32)
    assert (net(x)[2] == 0.25).all()
    named = re.findall(r"in Python  (.*?):", net.report())
    assert len(named) == len(set(named)) == 2 and "NonZero 'same' (2)" in named


def test_reports_distinguish_layers_of_one_name(
    doubled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(doubled), "--layers", "--json"]) == 0
    names = [t["name"] for t in json.loads(capsys.readouterr().out)["tensors"]]
    assert len(names) == len(set(names)) and {"same", "same (2)"} <= set(names)
    assert main(["profile", str(doubled), "--runs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split("  ")[-1] for line in lines if "same" in line]
    assert len(shown) == len(set(shown)) > 1


def test_distinguish_names() -> None:
    assert distinguish_names([]) == []
    assert distinguish_names(["a", "b"]) == ["a", "b"]
    assert distinguish_names(["a", "a", "a (2)", "a"]) == ["a", "a (3)", "a (2)", "a (4)"]
