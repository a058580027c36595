"""--declared-shapes and --max-memory, of every verb that takes a model."""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from irc_compiler.cli.arguments import bytes_of, load_inputs
from irc_compiler.cli.main import COMMANDS, main, make_parser
from irc_compiler.ir.errors import MemoryLimitError
from onnx import TensorProto, helper, numpy_helper

Captured = pytest.CaptureFixture[str]
VERBS_OF_MODELS = {
    "convert": ["-o", "out.xml"],
    "compile": ["-o", "out.irc"],
    "run": ["--input", "x=x.npy"],
    "bench": ["--seconds", "0.01"],
    "compare": [],
    "profile": ["--runs", "1"],
    "inspect": [],
    "graph": ["-o", "out.html"],
}


@pytest.fixture(autouse=True)
def contradicting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """m.onnx says [2, 4] where [2, 3] comes out, and holds 64 KiB of weights."""
    monkeypatch.chdir(tmp_path)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    weights = numpy_helper.from_array(np.ones((1 << 14, 1), np.float32), "w")
    nodes = [
        helper.make_node("ReduceMax", ["w"], ["most"], keepdims=0),
        helper.make_node("Add", ["x", "most"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "m", [x], [y], [weights])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), "m.onnx")
    np.save("x.npy", np.ones((2, 3), np.float32))


def test_every_verb_that_takes_a_model_has_them() -> None:
    taking = {
        name
        for name in COMMANDS
        if any(action.dest == "model" for action in make_parser(name)._actions)
    }
    # A server's limits are its own: --max-body, --max-queue and others. Language models are folders
    # and GGUF files, which declare no shapes.
    assert taking - {"serve", "quantize", "generate", "chat"} == set(VERBS_OF_MODELS)


def test_limits_of_quantize(capsys: Captured) -> None:
    """A model without products is read, and then refused because no layer can be quantized."""
    words = ["quantize", "m.onnx", "--weights", "int4"]
    assert main(words) == 3
    assert "declared_shapes" in capsys.readouterr().err
    words += ["--declared-shapes", "ignore"]
    assert main([*words, "--max-memory", "100k"]) == 4
    assert "can be quantized" in capsys.readouterr().err
    assert main([*words, "--max-memory", "60K"]) == 5
    assert "max_memory" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS_OF_MODELS)
def test_limits(verb: str, capsys: Captured) -> None:
    words = [verb, "m.onnx", *VERBS_OF_MODELS[verb]]
    assert main(words) == 3
    assert "declared_shapes" in capsys.readouterr().err
    words += ["--declared-shapes", "ignore"]
    assert main([*words, "--max-memory", "100k"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main([*words, "--max-memory", "60K"]) == 5
    assert "max_memory" in capsys.readouterr().err


def test_numbers_of_bytes() -> None:
    assert [bytes_of(t) for t in ("1", "4096", "3k", "500M", "2G")] == [
        1, 4096, 3 << 10, 500 << 20, 2 << 30,
    ]  # fmt: skip
    for text in ("", "0", "M", "-1", "1.5G", "2X", "2MB", "\u0663"):
        with pytest.raises(argparse.ArgumentTypeError):
            bytes_of(text)


def _header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(1 << 30,), (1 << 20, 1 << 20), (1 << 62, 1 << 62)])
def test_arrays_that_claim_more_than_they_hold(shape: tuple[int, ...]) -> None:
    """A header's sizes are compared with the limit before anything is allocated or inflated."""
    content = _header(shape) + bytes(24)
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("x.npy", content)
    with pytest.raises(MemoryLimitError, match="bomb.npz\n(.*\n)*.*raise max_memory"):
        load_inputs(["bomb.npz"], ["x"], 1 << 30)
