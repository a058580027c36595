"""Machine code as images: laid out flat, read as if forged, loaded without LLVM."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from irc_compiler.ir.errors import Error, VerificationError
from irc_compiler.plan.target import Isa, generic_target
from irc_compiler.runtime.jit import builtin_code as kept_code
from irc_compiler.runtime.jit import cpuid, program
from irc_compiler.runtime.jit import elf_flatten as flat
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.jit.code_image import FLAT, OBJECT, CodeImage, read_image
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.machine.detect import host_target
from support.artifacts import X, alike, kernels, with_other_code
from support.models.small import mlp

# A table in memory of its own alignment, a local function, memset and a branch table's constants.
TEXT = """
@table = internal constant [16 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5, i32 9, i32 2, i32 6,
  i32 5, i32 3, i32 5, i32 8, i32 9, i32 7, i32 9, i32 3], align 64
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal i32 @inner(i32 %i) noinline {
  %p = getelementptr i32, ptr @table, i32 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @read(i32 %i) {
  %v = call i32 @inner(i32 %i)
  %w = add i32 %v, 100
  ret i32 %w
}
define ptr @place() {
  ret ptr @table
}
define void @fill(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %n, i1 0)
  ret void
}
"""
COUNTER = """
@count = internal global i32 41
define i32 @next() {
  %v = load i32, ptr @count
  %w = add i32 %v, 1
  store i32 %w, ptr @count
  ret i32 %w
}
"""
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="not run: only Linux has flat images"
)
on_x86 = pytest.mark.skipif(
    not sys.platform.startswith("linux") or host.host_arch() != "x86_64",
    reason="not run: only x86-64 has CPUID",
)
LEAST: Isa = "plain" if host.host_arch() == "x86_64" else "neon"


@pytest.fixture(scope="module")
def image() -> CodeImage:
    return emit_object(TEXT, generic_target(LEAST))


def protection(address: int) -> str:
    """What may be done with the page at an address, as /proc/self/maps writes it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    return ""


@pytest.mark.aarch64
@on_linux
def test_flat_code_runs_where_it_is_laid(image: CodeImage) -> None:
    assert image.kind == FLAT and set(image.exports) == {"read", "place", "fill"}
    assert list(image.imports) == ["memset"]
    images = [image, emit_object(other(), generic_target(LEAST))]
    library = load_objects(images, ["read", "place", "fill", "alone"], host_target(LEAST))
    read = library.function("read", ctypes.c_int32)
    assert [read(i) for i in range(16)] == [100 + int(c) for c in "3141592653589793"]
    assert library.function("place", returns=ctypes.c_int64)() % 64 == 0
    assert library.function("alone")() == 1
    memory = np.zeros(300, np.uint8)
    library.function("fill", ctypes.c_void_p, ctypes.c_int64, returns=None)(memory.ctypes.data, 299)
    assert memory.tolist() == [7] * 299 + [0]


def other() -> str:
    return "define i32 @alone() {\n ret i32 1\n}"


@pytest.mark.aarch64
@on_linux
def test_no_page_is_writable_and_executable(image: CodeImage) -> None:
    library = load_objects([image], ["read"], host_target(LEAST))
    address = library.address("read")
    assert protection(address) == "r-xp" and library.linked == 0
    library.close()
    assert protection(address) != "r-xp"
    with pytest.raises(KeyError):
        library.address("read")


@pytest.mark.aarch64
def test_what_cannot_be_laid_out_is_linked_by_llvm(image: CodeImage) -> None:
    """Data that is written to: no kernel has any, and here is the way of other systems, too."""
    counter = emit_object(COUNTER, generic_target(LEAST))
    assert counter.kind == OBJECT and read_image(counter.to_bytes()) == counter
    library = load_objects([counter, image], ["next", "read"], host_target(LEAST))
    assert library.function("next")() == 42 and library.function("next")() == 43
    assert library.function("read", ctypes.c_int32)(0) == 103
    assert library.linked == (1 if image.kind == FLAT else 2)


def test_the_report_names_the_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    net = irc.compile_model(mlp((3, 5, 2), integers=True))
    assert "by LLVM" not in net.report() or net.program.count_linked
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program, "_loaded", {})
    monkeypatch.setattr(flat.sys, "platform", "another")
    linked = irc.compile_model(mlp((3, 5, 2), integers=True))
    assert f"linked     {len(linked.plan.specs())} kernels by LLVM" in linked.report()
    assert alike(linked(X), net(X))
    # From the cache the same objects come back.
    program._loaded.clear()
    again = irc.compile_model(mlp((3, 5, 2), integers=True))
    assert again.program.compiled == 0 and again.program.count_linked == linked.program.count_linked


@pytest.mark.slow
def test_a_library_needs_what_it_is_asked_for(image: CodeImage) -> None:
    target = host_target(LEAST)
    with pytest.raises(Error, match="could not be linked"):
        load_objects([image], ["write"], target)
    stray = CodeImage(FLAT, image.code, image.exports, {"system": len(image.code) - 8})
    with pytest.raises(Error, match="do not have") as caught:
        load_objects([stray], ["read"], target)
    assert "system" in str(caught.value)
    gc.collect()


# -- images as if forged ---------------------------------------------------------------------------

CODE = b"\xc3" * 64


def packed(*entries: tuple[int, int, bytes], kind: int = FLAT, code: bytes = CODE) -> bytes:
    table = b"".join(struct.pack("<IBB", at, what, len(n)) + n for at, what, n in entries)
    return struct.pack("<4sIII", b"ircI", kind, len(table), len(code)) + table + code


def test_images_round_trip(image: CodeImage) -> None:
    assert read_image(image.to_bytes()) == image
    assert read_image(packed((3, 0, b"f"), (8, 1, b"g"))) == CodeImage(
        FLAT, CODE, {"f": 3}, {"g": 8}
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ircI",
        b"\x7fELF" + bytes(60),
        packed(kind=0),
        packed(kind=7),
        packed(code=b""),
        packed() + b"\xc3",
        packed()[:-1],
        packed((64, 0, b"f")),
        packed((1 << 32 - 1, 0, b"f")),
        packed((64, 1, b"g")),
        packed((57, 1, b"g")),
        packed((3, 1, b"g")),
        packed((8, 1, b"f"), (8, 1, b"g")),
        packed((8, 0, b"f"), (9, 0, b"f")),
        packed((8, 0, b"f"), (8, 1, b"f")),
        packed((8, 2, b"f")),
        packed((8, 0, b"")),
        packed((8, 0, b"a b")),
        packed((8, 0, b"\xff")),
        packed((8, 0, b"f"), kind=OBJECT),
        packed(*((0, 0, b"f%d" % n) for n in range(5000))),
        struct.pack("<4sIII", b"ircI", FLAT, 3, 61) + CODE,
        struct.pack("<4sIII", b"ircI", FLAT, 6, 58) + b"\0\0\0\0\0\xff" + CODE[:58],
    ],
)
def test_broken_images_are_refused(data: bytes) -> None:
    with pytest.raises(VerificationError, match="machine code"):
        read_image(data)


def test_cut_images_are_refused(image: CodeImage) -> None:
    data = image.to_bytes()
    for end in range(len(data)):
        with pytest.raises(VerificationError):
            read_image(data[:end])


@given(st.data())
def test_whatever_is_accepted_can_be_laid_out(data: st.DataObject) -> None:
    whole = bytearray(packed((3, 0, b"f"), (8, 1, b"g"), (16, 1, b"hij")))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - len(CODE) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    try:
        image = read_image(bytes(whole))
    except VerificationError:
        return
    assert all(0 <= at < len(image.code) for at in image.exports.values())
    words = sorted(image.imports.values())
    assert all(at % 8 == 0 and 0 <= at <= len(image.code) - 8 for at in words)
    assert len(set(words)) == len(words)


# -- where images come from ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:8] + b"no machine code",
        lambda d: d[:-1],
        lambda d: d[:8] + packed((0, 0, b"another")),
        lambda d: d[:8] + CodeImage(FLAT, CODE, {}, {"system": 0}).to_bytes(),
        lambda d: b"",
    ],
)
def test_broken_code_of_a_trusted_file_is_the_files_fault(
    change: Any, cold: Path, with_code: bytes
) -> None:
    """All digests are right: the checks of what they cover refuse it, before anything runs."""
    with pytest.raises(irc.ArtifactError):
        irc.CompiledModel.load(with_other_code(with_code, change), trust_code=True)


@pytest.mark.slow
def test_a_cache_entry_that_is_no_image_is_a_miss(
    cold: Path, with_code: bytes, tiny_net: irc.CompiledModel
) -> None:
    irc.CompiledModel.load(with_code)
    program._loaded.clear()
    cache = irc.runtime.jit.disk_cache.default_cache()
    keys = [key for key, _, _ in kernels(with_code)]
    for key in keys:
        cache.put(key, bytes(8) + b"ircI")
    net = irc.CompiledModel.load(with_code)
    assert net.program.compiled == len(keys) and alike(net(X), tiny_net(X))


def test_kept_code_is_made_again_where_the_cache_has_something_else(tmp_path: Path) -> None:
    class Cache(dict[str, bytes]):
        def put(self, key: str, payload: bytes) -> None:
            self[key] = payload

    cache, target = Cache(), generic_target(LEAST)
    made = kept_code.kept_code(other(), target, cache)
    assert list(cache.values()) == [made.to_bytes()]
    cache[next(iter(cache))] = b"something else"
    assert kept_code.kept_code(other(), target, cache) == made
    assert list(cache.values()) == [made.to_bytes()]


WARM = """
import json, sys
import irc_compiler as irc, numpy as np
net = irc.compile_model(sys.argv[1])
out = net(np.ones((2, 64), np.float32))[0].tolist()
print(json.dumps([net.program.compiled, "llvmlite" in sys.modules, out]))
"""


@pytest.mark.aarch64
@pytest.mark.slow
@on_linux
def test_a_warm_cache_needs_no_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    digits = Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx"
    rounds = []
    for _ in range(2):
        words = [sys.executable, "-c", WARM, str(digits)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rounds.append(json.loads(done.stdout))
    assert rounds[0][0] > 0 and rounds[0][1]
    assert rounds[1] == [0, False, rounds[0][2]]


# -- features --------------------------------------------------------------------------------------


@on_x86
def test_features_are_llvms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once; what is kept is of this machine, and what is not a list of names is not
    believed."""
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path))
    asked: list[int] = []

    def ask() -> frozenset[str]:
        asked.append(1)
        return host._features_of_llvm()

    assert cpuid.known_features(ask) == cpuid.known_features(ask) == host._features_of_llvm()
    assert len(asked) == 1
    cache = irc.runtime.jit.disk_cache.default_cache()
    kept = [e.key for e in cache.entries() if cache.get(e.key)[:1] == b"["]
    for wrong in (b"[", b"{}", b"[1]", b'["-avx2,+x"]', b"\xff"):
        cache.put(kept[0], wrong)
        assert cpuid.known_features(ask) == host._features_of_llvm()
    assert len(asked) == 6
    monkeypatch.setattr(cpuid, "identify_llvm", lambda: "another LLVM")
    cpuid.known_features(ask)
    monkeypatch.setenv("IRC_CACHE_DIR", "off")
    cpuid.known_features(ask)
    assert len(asked) == 8


@on_x86
def test_the_words_are_the_same_on_every_cpu(tmp_path: Path) -> None:
    cache = irc.runtime.jit.disk_cache.DiskCache(tmp_path)
    before, found = os.sched_getaffinity(0), set()
    try:
        for cpu in before:
            os.sched_setaffinity(0, {cpu})
            found.add(cpuid._feature_words(cache))
    finally:
        os.sched_setaffinity(0, before)
    assert len(found) == 1
