"""macOS: the calls that its layer makes, recorded on any machine."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from irc_compiler.ir.errors import Error
from irc_compiler.runtime.machine.platforms.macos import MacPlatform
from support.recorded_calls import RecordedLibrary

NUMBERS = {b"hw.memsize": 16 << 30, b"hw.optional.arm.FEAT_DotProd": 1, b"hw.optional.AdvSIMD": 1}


def read_number(name: bytes, value: Any, *_: Any) -> int:
    if name not in NUMBERS:
        return -1
    ctypes.cast(value, ctypes.POINTER(ctypes.c_uint64))[0] = NUMBERS[name]
    return 0


def system(**changes: Any) -> RecordedLibrary:
    functions = {
        "mmap": 0x7000,
        "munmap": 0,
        "sys_icache_invalidate": None,
        "pthread_jit_write_protect_np": None,
        "pthread_jit_write_protect_supported_np": 1,
        "sysctlbyname": read_number,
    }
    return RecordedLibrary(**functions | changes)


def test_code_is_written_by_a_thread_that_may_write() -> None:
    library = system()
    mac = MacPlatform(library)
    address = mac.allocate_code(8192)
    assert library.calls == [("mmap", None, 8192, 7, 0x2 | 0x1000 | 0x800, -1, 0)]
    with mac.writing_code():
        assert library.calls[-1] == ("pthread_jit_write_protect_np", 0)
    assert library.calls[-1] == ("pthread_jit_write_protect_np", 1)
    mac.seal_code(address, 8192)
    assert library.calls[-1] == ("sys_icache_invalidate", 0x7000, 8192)
    mac.free_code(address, 8192)
    assert library.calls[-1] == ("munmap", 0x7000, 8192)


def test_a_failing_writer_leaves_code_executable() -> None:
    library = system()
    with pytest.raises(KeyError), MacPlatform(library).writing_code():
        raise KeyError
    assert library.calls[-1] == ("pthread_jit_write_protect_np", 1)


def test_intel_has_no_switch() -> None:
    library = system(pthread_jit_write_protect_supported_np=0)
    with MacPlatform(library).writing_code():
        pass
    assert library.names() == ["pthread_jit_write_protect_supported_np"]


def test_refused_memory_is_an_error() -> None:
    with pytest.raises(Error, match="could not be allocated"):
        MacPlatform(system(mmap=ctypes.c_void_p(-1).value)).allocate_code(4096)


def test_numbers_come_from_sysctl() -> None:
    mac = MacPlatform(system())
    assert mac.physical_memory() == 16 << 30
    assert mac.processor_features() == {"dotprod", "neon"}
    assert mac.affinity() is None
    assert mac.cache_folder().parts[-2:] == ("Library", "Caches")
