"""External data is opened inside the model's folder, whatever links and races lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import pytest
from irc_compiler.compiler.frontends.onnx.files import folder_files
from irc_compiler.compiler.frontends.onnx.files.folder_files import (
    HAS_DIR_FD,
    LeavesFolderError,
    open_inside,
)
from onnx import TensorProto, helper

pytestmark = pytest.mark.skipif(not HAS_DIR_FD, reason="not run: the system has no openat")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a model with a secret next to it."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "w").write_bytes(b"secret")
    (tmp_path / "model" / "a" / "b").mkdir(parents=True)
    for name in ("w", "a/w", "a/b/w"):
        (tmp_path / "model" / name).write_bytes(name.encode())
    return tmp_path / "model"


def content_of(folder: Path, location: str) -> bytes:
    with os.fdopen(open_inside(str(folder), location), "rb") as file:
        return file.read()


def test_plain_locations(folder: Path) -> None:
    for location, want in (("w", "w"), ("./w", "w"), ("a//w", "a/w"), ("a/./b/w", "a/b/w")):
        assert content_of(folder, location) == want.encode()


LINKS_INSIDE: dict[str, Callable[[Path], str]] = {
    "a file": lambda folder: "a/w",
    "a folder": lambda folder: "a/b/../../a/w",
    "absolute": lambda folder: f"{folder}/a/w",
    "the folder again": lambda folder: f"{folder}/./a/b/../w",
}
LINKS_OUTSIDE: dict[str, Callable[[Path], str]] = {
    "a file": lambda folder: "../secret",
    "absolute": lambda folder: f"{folder.parent}/secret",
    "out and in again": lambda folder: "../model/w",
    "a name that begins alike": lambda folder: f"{folder}2/w",
    "the folder itself": lambda folder: ".",
    "above": lambda folder: "a/../../secret",
    "root": lambda folder: "/",
}


@pytest.mark.parametrize("what", LINKS_INSIDE)
def test_links_inside(what: str, folder: Path) -> None:
    (folder / "link").symlink_to(LINKS_INSIDE[what](folder))
    (folder / "chain").symlink_to("link")
    (folder / "a" / "b" / "up").symlink_to("../../link")
    for location in ("link", "chain", "a/b/up"):
        assert content_of(folder, location) == b"a/w"


@pytest.mark.parametrize("what", LINKS_OUTSIDE)
def test_links_outside(what: str, folder: Path) -> None:
    (folder.parent / "model2").mkdir()
    (folder.parent / "model2" / "w").write_bytes(b"secret")
    (folder / "link").symlink_to(LINKS_OUTSIDE[what](folder))
    (folder / "chain").symlink_to("link")
    (folder / "out").symlink_to("../outside")
    for location in ("link", "chain", "out/w", "out/../w"):
        with pytest.raises(LeavesFolderError):
            content_of(folder, location)


def test_endless_links_and_what_is_not_a_folder(folder: Path) -> None:
    (folder / "round").symlink_to("round")
    (folder / "ping").symlink_to("pong")
    (folder / "pong").symlink_to("ping/x")
    for location in ("round", "ping", "round/w", "w/w", "a/none", "none/w"):
        with pytest.raises(OSError):
            content_of(folder, location)


def save_model(folder: Path, location: str) -> Path:
    weight = TensorProto(name="w", dims=[6], data_type=2, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    y = helper.make_tensor_value_info("y", 2, [6])
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def replace_by_link(path: Path, target: str) -> None:
    path.rename(path.with_name("old"))
    path.symlink_to(target)


Swap = Callable[[Path], object]
SWAPS: dict[str, tuple[str, str, Swap]] = {
    "the file becomes a link out": (
        "sub/w", "w", lambda f: ((f / "sub/w").unlink(), (f / "sub/w").symlink_to("../../secret")),
    ),
    "its folder becomes a link out": (
        "sub/w", "sub", lambda f: replace_by_link(f / "sub", "../outside"),
    ),
    "its folder moves out, then goes back by a link": (
        "sub/up/secret", "sub", lambda f: (f / "sub").rename(f.parent / "outside" / "sub"),
    ),
    "the model's folder is replaced": (
        "sub/w", "sub", lambda f: (f.rename(f.parent / "old"), f.symlink_to("outside")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SWAPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_races(what: str, when: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is replaced right before or right after a component is opened: the data of the
    model is read, or an error raised; never what is outside the folder."""
    location, component, swap = SWAPS[what]
    (folder / "sub").mkdir()
    (folder / "sub" / "w").write_bytes(b"inside")
    (folder / "sub" / "up").symlink_to("..")
    (folder / "secret").write_bytes(b"inside")
    path, of, done = save_model(folder, location), os.open, list[bool]()

    def open_and_swap(name: Any, *args: Any, dir_fd: int | None = None, **more: Any) -> int:
        mine = dir_fd is not None and name == component and not done
        if mine and when == "before":
            done.append(True)
            swap(folder)
        fd = of(name, *args, dir_fd=dir_fd, **more)
        if mine and when == "after":
            done.append(True)
            swap(folder)
        return fd

    monkeypatch.setattr(folder_files.os, "open", open_and_swap)
    try:
        found = irc.compile_model(irc.read_model(path))([])[0].tobytes()
    except irc.Error as error:
        assert "external data" in str(error)
    else:
        assert found == b"inside"
    assert done


def test_hard_links_are_files(folder: Path) -> None:
    """A hard link cannot be told from a file: docs/security.md."""
    os.link(folder.parent / "secret", folder / "hard")
    assert content_of(folder, "hard") == b"secret"


def test_the_weights_of_an_ir_may_be_links(tmp_path: Path) -> None:
    """The .bin's name is the .xml's, which the caller gave; caches of models hold links."""
    x = irc.builder.parameter("x", [4])
    irc.save_model(irc.builder.model(irc.builder.add(x, [1.0, 2.0, 3.0, 4.0])), tmp_path / "m.xml")
    (tmp_path / "links").mkdir()
    for name in ("m.xml", "m.bin"):
        (tmp_path / "links" / name).symlink_to(tmp_path / name)
    assert irc.read_model(tmp_path / "links" / "m.xml").inputs[0].name == "x"
