"""Linux: code memory of this machine, and the flush of aarch64's instruction cache, recorded."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest
from irc_compiler.ir.errors import Error
from irc_compiler.runtime.machine.platforms.linux import LinuxPlatform
from support.recorded_calls import RecordedLibrary

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="not run: only Linux has this layer"
)


def libc(**changes: Any) -> RecordedLibrary:
    return RecordedLibrary(**{"mmap": 0x7000, "mprotect": 0, "munmap": 0} | changes)


@on_linux
@pytest.mark.aarch64
def test_memory_is_written_and_read_back_until_it_is_freed() -> None:
    linux = LinuxPlatform()
    address = linux.allocate_code(4096)
    with linux.writing_code():
        ctypes.memmove(address, b"code", 4)
    linux.seal_code(address, 4096)
    assert ctypes.string_at(address, 4) == b"code"
    linux.free_code(address, 4096)


def test_the_cache_is_flushed_before_code_is_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    library, flush = libc(), RecordedLibrary(clear=None)
    monkeypatch.setattr(LinuxPlatform, "_load_clear_cache", staticmethod(lambda: flush.clear))
    LinuxPlatform(library, "aarch64").seal_code(0x7000, 4096)
    assert flush.calls == [("clear", 0x7000, 0x8000)]
    assert library.calls == [("mprotect", 0x7000, 4096, 5)]
    LinuxPlatform(library, "x86_64").seal_code(0x7000, 4096)
    assert len(flush.calls) == 1


def test_a_missing_flush_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Any:
        raise OSError("libgcc_s.so.1: no such file")

    monkeypatch.setattr(LinuxPlatform, "_load_clear_cache", staticmethod(load))
    with pytest.raises(Error, match="made executable") as caught:
        LinuxPlatform(libc(), "aarch64").seal_code(0x7000, 4096)
    assert "libgcc_s.so.1" in str(caught.value)


@pytest.mark.parametrize("changes", [{"mprotect": 1}, {"mmap": None}])
def test_refused_memory_is_an_error(changes: dict[str, Any]) -> None:
    linux = LinuxPlatform(libc(**changes), "x86_64")
    with pytest.raises(Error, match="could not be (allocated|made executable)"):
        linux.seal_code(linux.allocate_code(4096), 4096)


@on_linux
def test_facts_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    linux = LinuxPlatform()
    assert linux.affinity()
    assert (linux.physical_memory() or 0) > 1 << 20
    assert all(linux.wait_functions().values())
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert str(linux.cache_folder()) == "/elsewhere"
