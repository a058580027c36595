"""Tensors in files next to the model: read, and never from outside its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.errors import MemoryLimitError, ModelFormatError
from irc_compiler.ir.interpret import interpret
from onnx import TensorProto
from support.models import small
from support.models.oracles import random_inputs

SIZE = 4 * 3 * 5


def saved(folder: Path, **entries: str) -> Path:
    """A model whose only weight, f32 [3, 5], lies where `entries` say."""
    model = small.mlp((3, 5), 2, bias=False)
    weight = model.graph.initializer[0]
    (folder / "weights.bin").write_bytes(b"\0" * 8 + weight.raw_data + b"\0" * 4)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (
        {"location": "weights.bin", "offset": "8", "length": "60"} | entries
    ).items():
        weight.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def refused(path: Any, *parts: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        read_onnx(path)
    for part in (*parts, "initialiser"):
        assert part in str(caught.value), str(caught.value)


def test_external_weights_are_read(tmp_path: Path) -> None:
    inside = small.mlp((3, 5), 2, bias=False)
    x = random_inputs(inside)
    want = interpret(read_onnx(inside), x)
    graph = read_onnx(saved(tmp_path))
    # What was read is ours: the file may go.
    (tmp_path / "weights.bin").unlink()
    np.testing.assert_array_equal(interpret(graph, x)[0], want[0])
    (tmp_path / "sub").mkdir()
    path = saved(tmp_path, location="sub/w", offset="0")
    (tmp_path / "sub" / "w").write_bytes(inside.graph.initializer[0].raw_data)
    np.testing.assert_array_equal(interpret(read_onnx(path), x)[0], want[0])


def test_models_saved_by_onnx_with_external_data(tmp_path: Path) -> None:
    model = small.mlp((64, 64, 32), 2)
    x = random_inputs(model)
    want = interpret(read_onnx(model), x)
    path = tmp_path / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    np.testing.assert_array_equal(interpret(read_onnx(path), x)[0], want[0])
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        np.testing.assert_array_equal(interpret(read_onnx("m.onnx"), x)[0], want[0])
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ({"location": "/etc/passwd"}, "absolute"),
        ({"location": "C:\\secret"}, "absolute"),
        ({"location": "../weights.bin"}, "climbs out"),
        ({"location": "sub/../../weights.bin"}, "climbs out"),
        ({"location": "..\\weights.bin"}, "climbs out"),
        ({"location": ""}, "no location"),
        ({"location": "weights.bin\0.txt"}, "NUL"),
        ({"location": "none.bin"}, "cannot open"),
        ({"location": "."}, "link out of"),
        ({"location": "folder"}, "not a regular file"),
        ({"location": "pipe"}, "not a regular file"),
        ({"location": "link_out"}, "link out of"),
        ({"location": "link_folder/secret.bin"}, "link out of"),
        ({"offset": "9"}, "expected: offset + length at most 72"),
        ({"offset": "13"}, "outside its file"),
        ({"offset": "99999999999999999999"}, "outside its file"),
        ({"offset": "-4"}, "not a number"),
        ({"offset": "1e1"}, "not a number"),
        ({"offset": "\u0661"}, "not a number"),
        ({"length": "59"}, "wrong size"),
        ({"length": "64"}, "wrong size"),
        ({"length": "999"}, "outside its file"),
    ],
)
def test_locations_that_are_refused(tmp_path: Path, entries: dict[str, str], part: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "folder").mkdir()
    (folder / "sub").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(100))
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    os.mkfifo(folder / "pipe")
    os.symlink(tmp_path / "secret.bin", folder / "link_out")
    os.symlink(tmp_path, folder / "link_folder")
    if entries.get("offset") == "9":
        entries = entries | {"length": "64"}
    refused(saved(folder, **entries), part)


def test_links_inside_the_folder_and_without_length(tmp_path: Path) -> None:
    path = saved(tmp_path, location="link.bin", offset="8")
    os.symlink("weights.bin", tmp_path / "link.bin")
    read_onnx(path)
    model = onnx.load(path, load_external_data=False)
    del model.graph.initializer[0].external_data[2]
    path.write_bytes(model.SerializeToString())
    read_onnx(path)


def test_bytes_and_protos_have_no_folder(tmp_path: Path) -> None:
    path = saved(tmp_path)
    refused(path.read_bytes(), "not read from a file", "pass the model's path")
    refused(onnx.load(path, load_external_data=False), "not read from a file")


def test_two_payloads_and_doubled_entries(tmp_path: Path) -> None:
    path = saved(tmp_path)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].raw_data = bytes(SIZE)
    path.write_bytes(model.SerializeToString())
    refused(path, "twice", "external_data")
    model = onnx.load(saved(tmp_path), load_external_data=False)
    model.graph.initializer[0].external_data.add(key="offset", value="0")
    path.write_bytes(model.SerializeToString())
    refused(path, "twice", "offset")


def test_external_files_keep_to_max_memory(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with open(tmp_path / "weights.bin", "ab") as file:
        file.truncate(1 << 30)
    size = path.stat().st_size
    read_onnx(path, max_memory=size)  # of a gigabyte, 60 bytes are referred to
    model = onnx.load(path, load_external_data=False)
    weight = model.graph.initializer[0]
    weight.dims[:] = [3, 5 << 20]
    weight.external_data[2].value = str(60 << 20)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(MemoryLimitError, match="max_memory"):
        read_onnx(path, max_memory=1 << 20)
