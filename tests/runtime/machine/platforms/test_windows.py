"""Windows: the calls that its layer makes, recorded on any machine."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from irc_compiler.ir.errors import Error
from irc_compiler.runtime.machine.platforms.windows import WindowsPlatform
from support.recorded_calls import RecordedLibrary

ADDRESS, PROCESS = 0x10000, 0xFFFF


def set_masks(process: int, mine: Any, system: Any) -> int:
    ctypes.cast(mine, ctypes.POINTER(ctypes.c_size_t))[0] = 0b1011
    return 1


def kernel32(**changes: Any) -> RecordedLibrary:
    functions = {
        "VirtualAlloc": ADDRESS,
        "VirtualProtect": 1,
        "VirtualFree": 1,
        "FlushInstructionCache": 1,
        "GetCurrentProcess": PROCESS,
        "GetProcessAffinityMask": set_masks,
        "GlobalMemoryStatusEx": 0,
    }
    return RecordedLibrary(**functions | changes)


def test_code_is_written_then_sealed_then_flushed() -> None:
    library = kernel32()
    windows = WindowsPlatform(library, RecordedLibrary())
    address = windows.allocate_code(8192)
    assert library.calls == [("VirtualAlloc", None, 8192, 0x3000, 0x04)]
    with windows.writing_code():
        pass
    windows.seal_code(address, 8192)
    assert library.calls[1][:4] == ("VirtualProtect", ADDRESS, 8192, 0x20)
    assert library.calls[-1] == ("FlushInstructionCache", PROCESS, ADDRESS, 8192)
    windows.free_code(address, 8192)
    assert library.calls[-1] == ("VirtualFree", ADDRESS, 0, 0x8000)


@pytest.mark.parametrize("name", ["VirtualProtect", "FlushInstructionCache"])
def test_refused_execution_is_an_error(name: str) -> None:
    windows = WindowsPlatform(kernel32(**{name: 0}), RecordedLibrary())
    with pytest.raises(Error, match="could not be made executable"):
        windows.seal_code(ADDRESS, 4096)


def test_refused_memory_is_an_error() -> None:
    windows = WindowsPlatform(kernel32(VirtualAlloc=None), RecordedLibrary())
    with pytest.raises(Error, match="could not be allocated"):
        windows.allocate_code(4096)


def test_masks_are_sets_of_cpus() -> None:
    assert WindowsPlatform(kernel32(), RecordedLibrary()).affinity() == {0, 1, 3}
    refused = kernel32(GetProcessAffinityMask=0)
    assert WindowsPlatform(refused, RecordedLibrary()).affinity() is None


def test_no_answer_is_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = WindowsPlatform(kernel32(), RecordedLibrary())
    assert windows.physical_memory() is None
    monkeypatch.setenv("LOCALAPPDATA", "D:/local")
    assert windows.cache_folder().parts[-1] == "local"
