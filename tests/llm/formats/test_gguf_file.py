"""GGUF headers: hostile files, each with one clear error; and every type of block."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops import Constant, DeferredConstant
from irc_compiler.llm import read_language_model
from irc_compiler.llm.formats import gguf_blocks
from irc_compiler.llm.formats.gguf_blocks import read_matrix
from irc_compiler.llm.formats.gguf_file import TENSOR_TYPES, GgufFile


def text(value: str | bytes, count: int | None = None) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data) if count is None else count) + data


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str = "t", shape: tuple[int, ...] = (4,), kind: int = 0, at: int = 0) -> bytes:
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sizes + struct.pack("<IQ", kind, at)


def gguf_bytes(
    entries: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: int = 64,
    *,
    counts: tuple[int, int] | None = None,
    version: int = 3,
    magic: bytes = b"GGUF",
) -> bytes:
    entries, tensors = entries or [], tensors or []
    n, m = (len(tensors), len(entries)) if counts is None else counts
    head = magic + struct.pack("<IQQ", version, n, m) + b"".join(entries) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32 + data)


BIG = (1 << 63) - 1
U32 = struct.pack("<I", 7)
# What is wrong, the file, a part of the message.
HOSTILE: list[tuple[str, bytes, str]] = [
    ("empty", b"", "not a GGUF file"),
    ("short", b"GG", "not a GGUF file"),
    ("another format", b"PK\3\4" + b"\0" * 60, "not a GGUF file"),
    ("version 1", gguf_bytes(version=1), "version of GGUF"),
    ("big-endian", gguf_bytes(version=3 << 24), "version of GGUF"),
    ("no counts", b"GGUF\3\0\0\0", "ends inside the counts"),
    ("endless tensors", gguf_bytes(counts=(BIG, 0)), "too many tensors"),
    ("endless metadata", gguf_bytes(counts=(0, BIG)), "too many metadata"),
    ("more tensors than there are", gguf_bytes(counts=(60000, 0)), "impossible rank"),
    ("endless key", gguf_bytes([struct.pack("<Q", BIG)]), "too long"),
    ("endless text", gguf_bytes([entry("a", 8, text("x", BIG))]), "too long"),
    ("text behind the file", gguf_bytes([entry("a", 8, text("x", 1 << 20))]), "ends inside"),
    ("unknown type of metadata", gguf_bytes([entry("a", 77, b"")]), "unknown type"),
    ("endless array", gguf_bytes([entry("a", 9, struct.pack("<IQ", 4, BIG))]), "ends inside"),
    ("endless texts", gguf_bytes([entry("a", 9, struct.pack("<IQ", 8, BIG))]), "longer than"),
    ("array of arrays", gguf_bytes([entry("a", 9, struct.pack("<IQ", 9, 1))]), "unknown type"),
    ("a key twice", gguf_bytes([entry("a", 4, U32)] * 2), "occurs twice"),
    ("alignment 3", gguf_bytes([entry("general.alignment", 4, b"\3\0\0\0")]), "power of 2"),
    ("alignment 0", gguf_bytes([entry("general.alignment", 4, b"\0\0\0\0")]), "power of 2"),
    ("alignment of text", gguf_bytes([entry("general.alignment", 8, text("x"))]), "power of 2"),
    ("rank 0", gguf_bytes(tensors=[tensor(shape=())]), "impossible rank"),
    ("rank 9", gguf_bytes(tensors=[tensor(shape=(1,) * 9)]), "impossible rank"),
    ("no elements", gguf_bytes(tensors=[tensor(shape=(0, 4))]), "impossible shape"),
    ("a product beyond 64 bits", gguf_bytes(tensors=[tensor(shape=(1 << 40,) * 4)]), "impossible"),
    ("unknown type", gguf_bytes(tensors=[tensor(kind=4711)]), "unknown type"),
    ("removed type", gguf_bytes(tensors=[tensor(kind=4)]), "unknown type"),
    ("a type that is not read", gguf_bytes(tensors=[tensor(kind=16)]), "does not read"),
    ("half a block", gguf_bytes(tensors=[tensor(shape=(33,), kind=2)]), "not whole blocks"),
    ("behind the file", gguf_bytes(tensors=[tensor(shape=(4096,))]), "behind the file"),
    ("offset behind the file", gguf_bytes(tensors=[tensor(at=1 << 40)]), "behind the file"),
    ("not aligned", gguf_bytes(tensors=[tensor(at=4)]), "not aligned"),
    ("overlap", gguf_bytes(tensors=[tensor("a", (12,)), tensor("b", at=32)]), "overlap"),
    ("one name twice", gguf_bytes(tensors=[tensor(), tensor(at=32)]), "one name"),
    ("no architecture", gguf_bytes(), "'general.architecture' is missing"),
    ("architecture is a number", gguf_bytes([entry("general.architecture", 4, U32)]), "another"),
    ("unknown architecture", gguf_bytes([entry("general.architecture", 8, text("mamba"))]),
     "architecture is not supported"),
    ("no sizes", gguf_bytes([entry("general.architecture", 8, text("llama"))]), "is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
def test_hostile_headers(data: bytes, message: str, tmp_path: Path) -> None:
    """One error that names the file; memory stays a small multiple of the file."""
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(irc.Error) as caught:
            read_language_model(path)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert message in str(caught.value) and "hostile.gguf" in str(caught.value)
    assert most < 4 << 20


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    """Every length of a small header."""
    whole = gguf_bytes([entry("general.name", 8, text("x"))], [tensor()], 16)
    path = tmp_path / "cut.gguf"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(irc.Error):
            GgufFile(path)


def _changes() -> dict[str, tuple[Callable[[dict[str, Any]], None], str]]:
    def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
        return lambda m: m.__setitem__(key, value)

    return {
        "0 heads": (put("llama.attention.head_count", 0), "head_count"),
        "heads of several layers": (
            put("llama.attention.head_count_kv", np.array([1, 2])), "head_count_kv"),
        "3 heads for 2": (put("llama.attention.head_count", 3), "multiple"),
        "endless layers": (put("llama.block_count", 1 << 40), "block_count"),
        "more layers than tensors": (put("llama.block_count", 9), "lacks a tensor"),
        "another width": (put("llama.embedding_length", 64), "another shape"),
        "another head size": (put("llama.attention.key_length", 32), "different sizes"),
        "odd rotation": (put("llama.rope.dimension_count", 15), "even number"),
        "eps is NaN": (put("llama.attention.layer_norm_rms_epsilon", float("nan")), "finite"),
        "experts": (put("llama.expert_count", 8), "mixtures of experts"),
        "yarn": (put("llama.rope.scaling.type", "yarn"), "scaling of rotary"),
        "no tokens": (put("tokenizer.ggml.tokens", 3), "list of strings"),
        "a merge of nothing": (put("tokenizer.ggml.merges", ["q"]), "space between"),
        "a merge of unknown tokens": (put("tokenizer.ggml.merges", ["qq zz"]), "known tokens"),
        "an end beyond the vocabulary": (put("tokenizer.ggml.eos_token_id", 96), "below 96"),
        "unknown pre-tokenizer": (put("tokenizer.ggml.pre", "x"), "pre-tokenizer"),
        "unknown tokenizer": (put("tokenizer.ggml.model", "bert"), "kind of tokenizer"),
        "broken template": (put("tokenizer.chat_template", "{% for"), "template is broken"),
        "types of another length": (
            put("tokenizer.ggml.token_type", np.zeros(3, np.int32)), "96 numbers"),
    }  # fmt: skip


@pytest.mark.parametrize("name", _changes())
def test_hostile_metadata(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid file whose metadata are changed after they are read."""
    pytest.importorskip("gguf", reason="not run: needs gguf, which writes the file")
    from irc_compiler.llm.formats import gguf_model
    from support.models.tiny_gguf import write_gguf

    change, message = _changes()[name]

    class Changed(GgufFile):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            change(self.metadata)

    monkeypatch.setattr(gguf_model, "GgufFile", Changed)
    path = write_gguf(tmp_path / "tiny.gguf", "smollm")
    with pytest.raises(irc.Error) as caught:
        read_language_model(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("rows_at_a_time", [4, 2048])
@pytest.mark.parametrize("number", TENSOR_TYPES)
def test_blocks_have_the_values_of_the_gguf_library(
    number: int, rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random bits as blocks: the same floats, bit for bit."""
    monkeypatch.setattr(gguf_blocks, "_PIECE_ELEMENTS", rows_at_a_time * 512)
    gguf = pytest.importorskip("gguf", reason="not run: needs gguf, which has the reference")
    kind, block, size = TENSOR_TYPES[number]
    raw = np.random.default_rng(number).integers(0, 256, (6, 512 // block * size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(number))
        found = read_matrix(kind, lambda first, last: raw[first:last].reshape(-1), (6, 512))
        assert found.shape == (6, 512)
        np.testing.assert_array_equal(found.values(), wanted)
        index = np.array([3, 0, 5])
        np.testing.assert_array_equal(found.take_rows(index).values(), wanted[index])


@pytest.mark.parametrize("change", ["became shorter", "was written"])
def test_codes_are_read_from_the_file_when_constants_are_packed(
    change: str, tmp_path: Path
) -> None:
    """Reading holds none of them; a file that has changed by then is an error that names it."""
    pytest.importorskip("gguf", reason="not run: needs gguf, which writes the file")
    from support.models.tiny_gguf import write_gguf

    path = write_gguf(tmp_path / "tiny.gguf", "smollm", "Q8_0")
    graph = read_language_model(path).model.graph
    ops = [graph.op(n) for n in graph.ids()]
    deferred = [op for op in ops if isinstance(op, DeferredConstant)]
    codes = [op for op in ops if isinstance(op, Constant) and op.dtype is DType.i8]
    assert deferred == codes and len(codes) > 8
    with path.open("r+b") as file:
        if change == "became shorter":
            file.truncate(64)  # before all codes
        else:
            file.seek(-64, os.SEEK_END)
            file.write(bytes(64))
    with pytest.raises(irc.Error, match=change) as caught:
        irc.compile_model(irc.Model(graph))
    assert "tiny.gguf" in str(caught.value)
