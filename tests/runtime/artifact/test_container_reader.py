"""Artefacts that are damaged, cut short, of another format: each ends in one clear error."""

from __future__ import annotations

import os
import random
from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.runtime.artifact.container_reader import Container
from support.artifacts import MORE, Parts, refused
from support.models.small import mlp

pytestmark = pytest.mark.usefixtures("own_cache")


def test_every_truncation_is_refused(tiny_artifact: bytes) -> None:
    for size in range(len(tiny_artifact)):
        with pytest.raises(irc.ArtifactError) as caught:
            Container(tiny_artifact[:size])
        assert caught.value.where and caught.value.got is not None
    refused(
        tiny_artifact[:-1],
        "cut short",
        f"{len(tiny_artifact) - 1} bytes",
        f"{len(tiny_artifact)} bytes",
        "copy",
    )
    refused(tiny_artifact + b"x", "header")


@pytest.mark.slow
def test_every_changed_byte_is_refused(tiny_artifact: bytes) -> None:
    rng = random.Random(7)
    positions = [
        *range(128),
        *rng.sample(range(128, len(tiny_artifact)), min(len(tiny_artifact) - 128, 2500 * MORE)),
    ]
    for at in positions:
        changed = bytearray(tiny_artifact)
        changed[at] ^= 1 << rng.randrange(8)
        with pytest.raises(irc.ArtifactError) as caught:
            file = Container(bytes(changed))
            file.fill([])
        assert "<artefact>" in str(caught.value)


def test_damage_says_where(tiny_artifact: bytes) -> None:
    parts = Parts(tiny_artifact)
    for n, (kind, offset, size) in enumerate(parts.manifest["sections"]):
        changed = bytearray(tiny_artifact)
        changed[offset + size // 2] ^= 0x20
        refused(bytes(changed), f"{n} ({kind})", "SHA-256", "copy the file again")


OTHERS = {
    "onnx": (lambda: mlp((2, 2)).SerializeToString(), "ONNX"),
    "xml": (lambda: b'<?xml version="1.0"?><net/>', "XML"),
    "zip": (lambda: b"PK\x03\x04" + bytes(300), "zip"),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
    "zeros": (lambda: bytes(5000), "bytes b'\\x00"),
    "empty": (lambda: b"", "an empty file"),
    "line ends changed": (lambda: b"\x89IRC\n\x1a\n" + bytes(300), "not an irc artefact"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_format_renamed(name: str, tmp_path: Path) -> None:
    make, word = OTHERS[name]
    path = tmp_path / "model.irc"
    path.write_bytes(make())
    with pytest.raises(irc.ArtifactError) as caught:
        irc.compile_model(path)
    text = str(caught.value)
    assert "not an irc artefact" in text and word in text and str(path) in text


def test_another_version_of_the_format(tiny_artifact: bytes) -> None:
    changed = bytearray(tiny_artifact)
    changed[8] = 2
    refused(bytes(changed), "version 2", "version 1", "compile the model again")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "NUL", "device"])
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.irc"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    name = {"NUL": "a\0.irc", "device": "/dev/zero"}.get(kind, str(path))
    with pytest.raises(irc.ArtifactError) as caught:
        irc.CompiledModel.load(name)
    assert caught.value.where and caught.value.got


def test_a_file_that_shrinks_while_it_is_read(
    tiny_artifact: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.irc"
    path.write_bytes(tiny_artifact)
    file = Container(path)
    os.truncate(path, 300)
    with pytest.raises(irc.ArtifactError, match="shorter"):
        file.read(1)


def test_weights_beyond_max_memory(tiny_artifact: bytes) -> None:
    with pytest.raises(irc.MemoryLimitError, match="max_memory"):
        irc.CompiledModel.load(tiny_artifact, max_memory=100)
