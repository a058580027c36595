"""Programs as files of the code cache: what was written comes back, or the damage is noticed."""

from __future__ import annotations

import gc
import io
import threading
from pathlib import Path
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.errors import ArtifactError
from irc_compiler.runtime.artifact import program_file
from irc_compiler.runtime.artifact.program_file import ProgramFile, write_program
from irc_compiler.runtime.execution.session import Session
from irc_compiler.runtime.jit.program import CompiledPlan, build_program


def program_with(net: irc.CompiledModel, constants: list[Any]) -> CompiledPlan:
    """The net's program with other constants."""
    p = net.program
    return CompiledPlan(p.plan, p.target, p.kernels, constants, 0, p.driver, p.layout)


def write(path: Path, program: CompiledPlan, **attached: Any) -> Path:
    with path.open("w+b") as stream:
        write_program(stream, program, attached)
    return path


def test_a_program_comes_back(tiny_net: irc.CompiledModel, tmp_path: Path) -> None:
    path = write(tmp_path / "p", tiny_net.program, name={"key": [1, 2]})
    with ProgramFile(path.open("rb")) as file:
        constants = file.read_constants()
    assert file.plan == tiny_net.plan
    assert file.attached == {"name": {"key": [1, 2]}}
    program = build_program(
        file.plan, {}, tiny_net.program.target, constants=constants, prepared=file.prepared
    )
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(Session(program).run([x])[0], tiny_net(x)[0])
    assert all(not c.flags.writeable for c in constants)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3, dtype=np.uint8),
        np.arange(8, dtype=np.int64).reshape(2, 2, 2),
        np.arange(5).astype(ml_dtypes.bfloat16),
        np.zeros((0, 4), np.float32),
        np.full((), 2.5, np.float16),
        np.array(["a", "bc"], object),
        np.arange(5 << 20, dtype=np.uint8)[::-1],
    ],
    ids=["three bytes", "rank 3", "bf16", "empty", "scalar", "strings", "several pieces"],
)
def test_constants_of_any_type_and_size(
    tiny_net: irc.CompiledModel, tmp_path: Path, array: Any
) -> None:
    other = np.arange(7, dtype=np.float64)
    path = write(tmp_path / "p", program_with(tiny_net, [array, other, array]))
    with ProgramFile(path.open("rb")) as file:
        found = file.read_constants()
    for made, want in zip(found, [array, other, array], strict=True):
        assert made.dtype == want.dtype and made.shape == want.shape
        assert (made == want).all()
    assert path.stat().st_size < 2 * array.nbytes + (256 << 10)


def test_a_system_without_preadv(
    tiny_net: irc.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(3 << 20, dtype=np.float32)
    path = write(tmp_path / "p", program_with(tiny_net, [array]))
    monkeypatch.delattr("os.preadv", raising=False)
    with ProgramFile(path.open("rb")) as file:
        np.testing.assert_array_equal(file.read_constants()[0], array)


def test_models_of_one_file_share_its_constants(
    tiny_net: irc.CompiledModel, tmp_path: Path
) -> None:
    array = np.arange(1 << 20, dtype=np.float32)
    path = write(tmp_path / "p", program_with(tiny_net, [array]))
    found: list[Any] = [None] * 4

    def read(n: int) -> None:
        with ProgramFile(path.open("rb")) as file:
            found[n] = file.read_constants()[0]

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({f.ctypes.data for f in found}) == 1
    before = len(program_file._shared)
    found.clear()
    gc.collect()
    assert len(program_file._shared) < before


def test_any_damage_is_noticed(tiny_net: irc.CompiledModel, tmp_path: Path) -> None:
    path = write(tmp_path / "p", tiny_net.program)
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with ProgramFile(path.open("rb")) as file:
            file.read_constants()

    read(whole)
    for at in {*range(28), *range(64, len(whole), 97), len(whole) - 1}:
        damaged = bytearray(whole)
        damaged[at] ^= 1
        with pytest.raises(ArtifactError, match="stored program is damaged"):
            read(bytes(damaged))
    for length in (0, 10, 63, 64, 200, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ArtifactError):
            read(whole[:length])


def test_what_cannot_be_pickled_is_an_error_of_writing(tiny_net: irc.CompiledModel) -> None:
    with pytest.raises(OSError, match="pickle"):
        write_program(io.BytesIO(), tiny_net.program, {"f": lambda: 0})
