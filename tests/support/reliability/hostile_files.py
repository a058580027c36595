"""Every class of hostile and broken file, by name: how one is made, what irc says, with what code.

`make(folder)` writes files and returns the arguments of the command that meets them. Every class
of the reliability page stands here (those of ONNX in hostile_onnx.py); the readers' own tests have
many more cases of each.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from support.reliability.hostile_case import DIGITS, Hostile, inspect, sparse
from support.reliability.hostile_onnx import onnx_classes

# isort: split
from irc_compiler.ir.errors import UnsupportedOperationError

from support.artifacts import Parts
from support.frontends.xml_broken_nets import CONST, NETS
from support.frontends.xml_broken_values import VALUES

# XML ------------------------------------------------------------------------------------------

# Classes, and the cases of tests/support/frontends/xml_broken_*.py that belong to them.
XML_CLASSES: dict[str, tuple[str, ...]] = {
    "not XML": ("empty", "spaces", "garbage", "not utf-8", "nul"),
    "git-lfs pointers": ("git-lfs", "bin is a git-lfs pointer"),
    "DOCTYPE or entities": ("doctype", "entity", "undefined entity", "billion laughs"),
    "deep nesting": ("deep nesting", "deep and closed"),
    "wrong root or version": ("root", "version 9", "version 12", "version 011", "no version"),
    "missing numbers": ("no id", "port without id", "edge without from-port", "const without size"),
    "duplicate numbers": ("duplicate id", "two ports of one id"),
    "negative numbers": ("negative id", "negative layer in edge", "negative offset", "dim -2"),
    "huge numbers": ("huge id", "offset + size overflows"),
    "non-ASCII numbers": ("non-ASCII id",),
    "mixed content": ("mixed content", "text after a layer", "text in ports"),
    "unknown layer, opset": ("unknown type", "unknown opset", "too early opset"),
    "unknown port": ("edge from unknown port", "edge to unknown port", "edge from a result"),
    "missing bodies": ("loop without body", "if without bodies"),
    "overlong text": ("long attribute",),
    "unknown element type": ("unknown precision", "const element type", "type attribute"),
    "unconnected inputs": ("unconnected input 0", "unconnected input 1", "result without edge"),
    "doubly connected inputs": ("two edges into one port",),
    "cycles": ("cycle", "self-loop"),
    "no Result": ("no result", "empty net"),
    "bad booleans": ("bool attribute",),
    "bad lists": ("const shape 2,,3", "const shape 2,3,", "parameter shape"),
    "overflowing shapes": ("shape product overflows", "empty shape overflows"),
    "contradicting declarations": ("declared shape", "declared rank", "declared type"),
    ".bin missing": ("no weights",),
    ".bin short": ("bin short by one", "offset past end", "size too small"),
}


def xml_classes() -> Iterator[Hostile]:
    cases = NETS | VALUES
    for kind, names in XML_CLASSES.items():
        for name in names:
            source, weights, error, parts = cases[name]
            code = 4 if error is UnsupportedOperationError else 3
            words = tuple(parts) if name != "no weights" else ("weights is missing", "m.bin")
            yield Hostile(kind, name, functools.partial(_xml, source, weights), code, words)
    whole = cases["declared shape"][0]
    for share in (0.1, 0.5, 0.9, 0.99):
        cut = whole[: int(len(whole) * share)]
        make = functools.partial(_xml, cut, None)
        yield Hostile("XML truncated", f"at {share:.0%}", make, words=("not well-formed", "line"))
    yield Hostile("huge files", "xml", functools.partial(sparse, "m.xml"), words=("too large",))
    yield Hostile(".bin a directory", "folder", _bin_folder, words=("a directory", "m.bin"))
    yield Hostile(".bin a FIFO", "pipe", _bin_pipe, words=("a pipe", "m.bin"))
    yield Hostile(".bin a device", "zero", _bin_device, words=("a device", "m.bin"))


def _xml(source: bytes, weights: bytes | None, folder: Path) -> Sequence[str]:
    (folder / "m.xml").write_bytes(source)
    if weights is not None:
        (folder / "m.bin").write_bytes(weights)
    return inspect("m.xml")


def _bin_folder(folder: Path) -> Sequence[str]:
    (folder / "m.bin").mkdir()
    return _xml(CONST, None, folder)


def _bin_pipe(folder: Path) -> Sequence[str]:
    os.mkfifo(folder / "m.bin")
    return _xml(CONST, None, folder)


def _bin_device(folder: Path) -> Sequence[str]:
    os.symlink("/dev/zero", folder / "m.bin")
    return _xml(CONST, None, folder)


# Artefacts and arrays ----------------------------------------------------------------------------


@functools.cache
def artifact() -> bytes:
    import irc_compiler as irc

    stream = io.BytesIO()
    irc.compile_model(DIGITS)._write(stream)
    return stream.getvalue()


def _irc(change: Callable[[bytes], bytes], folder: Path) -> Sequence[str]:
    (folder / "m.irc").write_bytes(change(artifact()))
    np.save(folder / "x.npy", np.zeros((1, 64), np.float32))
    return ["run", "m.irc", "--input", "image=x.npy"]


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def reseal(kind: str, old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """A change inside a section, every digest right again."""

    def change(data: bytes) -> bytes:
        parts = Parts(data)
        content = parts.section(kind)
        assert old in content
        parts.replace(kind, content.replace(old, new, 1))
        if kind == "graph":
            parts.manifest["plans"].clear()
        return parts.seal()

    return change


def artifact_classes() -> Iterator[Hostile]:
    def case(kind: str, name: str, change: Callable[[bytes], bytes], *words: str) -> Hostile:
        return Hostile(kind, name, functools.partial(_irc, change), words=words)

    for keep, said in ((0, "empty file"), (7, "not an irc artefact"), (100, "cut"), (5000, "cut")):
        yield case("artefact truncated", str(keep), lambda d, n=keep: d[:n], said)
    yield case("artefact truncated", "-1", lambda d: d[:-1], "cut short")
    places = {3: "not an irc", 20: "cut short", 130: "SHA-256", 3000: "SHA-256", -30: "manifest"}
    for at, said in places.items():
        yield case("artefact changed", f"byte {at}", lambda d, n=at: flip(d, n % len(d)), said)
    forged = {
        "plan": (reseal("plan", b'"strides"', b'"strikes"'), "stored Operand is broken"),
        "a buffer": (reseal("plan", b'"arena"', b'"marena"'), "kind is not known"),
        "graph": (reseal("graph", b'type="', b'type="No'), "graph is broken"),
    }
    for name, (change, said) in forged.items():
        yield case("artefact forged", name, change, said)
    yield case("artefact of another version", "9", lambda d: d[:8] + b"\x09" + d[9:], "version 9")
    yield case(
        "another format renamed", "onnx", lambda _: DIGITS.read_bytes(), "not an irc artefact"
    )
    yield case("another format renamed", "text", lambda _: b"<net/>", "XML")


def _npy(data: bytes, folder: Path) -> Sequence[str]:
    shutil.copy(DIGITS, folder / "m.onnx")
    (folder / "x.npy").write_bytes(data)
    return ["run", "m.onnx", "--input", "image=x.npy"]


def _npy_pipe(folder: Path) -> Sequence[str]:
    words = _npy(b"", folder)
    (folder / "x.npy").unlink()
    os.mkfifo(folder / "x.npy")
    return words


def npz_bomb(name: str, path: Path) -> None:
    """A few hundred kilobytes that are 320 MiB, besides an array of a good size."""
    header = io.BytesIO()
    np.save(header, np.zeros((0, 64), np.float32))
    rows = 320 << 12
    start = header.getvalue().replace(b"(0, 64), }      ", f"({rows}, 64), }}".encode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        with made.open(f"{name}.npy", "w") as member:
            member.write(start)
            for _ in range(320):
                member.write(bytes(1 << 20))


def _npz(folder: Path) -> Sequence[str]:
    shutil.copy(DIGITS, folder / "m.onnx")
    npz_bomb("bomb", folder / "x.npz")
    return ["run", "m.onnx", "--input", "x.npz"]


def _npz_of_inputs(folder: Path) -> Sequence[str]:
    shutil.copy(DIGITS, folder / "m.onnx")
    npz_bomb("image", folder / "x.npz")
    return ["run", "m.onnx", "--input", "x.npz", "--max-memory", "300M"]


def array_classes() -> Iterator[Hostile]:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], object), allow_pickle=True)
    pickled, stream = stream.getvalue(), io.BytesIO()
    np.save(stream, np.zeros((1, 64), np.float32))
    good = stream.getvalue()
    cases = {
        "a pickled object": pickled,
        "cut short": good[:-5],
        "empty": b"",
        "garbage": b"\x00\xff" * 100,
        "an open bracket": good.replace(b"'shape'", b"'shap(("),
        "a shape that lies": good.replace(b"(1, 64), }", b"(9, 64), }"),
        "a huge shape": good.replace(b"(1, 64), }          ", b"(99999999999, 64), }"),
        "a broken zip": b"PK\x03\x04" + bytes(100),
    }
    for name, data in cases.items():
        assert data != good, name
        make = functools.partial(_npy, data)
        yield Hostile("bad .npy inputs", name, make, words=("x.npy", "not an array of numbers"))
    yield Hostile("bad .npy inputs", "a FIFO", _npy_pipe, words=("x.npy", "a pipe"))
    yield Hostile(".npz bombs", "an input", _npz_of_inputs, 5, ("x.npz", "max_memory", "320 MiB"))
    yield Hostile(".npz bombs", "an array of no input", _npz, 5, ("unknown input", "bomb", "image"))


ALL: tuple[Hostile, ...] = (
    *xml_classes(), *onnx_classes(), *artifact_classes(), *array_classes()
)  # fmt: skip
