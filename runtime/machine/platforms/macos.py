"""macOS: mappings with MAP_JIT, os_sync_wait_on_address, sysctlbyname. Prepared, not proven: its
logic is tested with a library that records calls.

Code memory is mapped once with all permissions and MAP_JIT; on Apple silicon each thread then
chooses whether such memory is writable or executable for it (pthread_jit_write_protect_np).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .platform_interface import SystemName, code_memory_error
from .symbols import found_addresses

_READ_WRITE_EXECUTE: Final = 7
_MAP_PRIVATE, _MAP_ANON, _MAP_JIT = 0x2, 0x1000, 0x800
_FAILED: Final = ctypes.c_void_p(-1).value
# The first two since macOS 14.4.
_WAIT_FUNCTIONS: Final = (
    "os_sync_wait_on_address",
    "os_sync_wake_by_address_all",
    "sched_yield",
    "clock_gettime",
)
# LLVM's name by that of sysctl below hw.optional.
_FEATURES: Final = {
    "neon": "AdvSIMD",
    "fp-armv8": "floatingpoint",
    "crc": "armv8_crc32",
    "lse": "arm.FEAT_LSE",
    "fullfp16": "arm.FEAT_FP16",
    "fp16fml": "arm.FEAT_FHM",
    "rdm": "arm.FEAT_RDM",
    "rcpc": "arm.FEAT_LRCPC",
    "jsconv": "arm.FEAT_JSCVT",
    "complxnum": "arm.FEAT_FCMA",
    "dotprod": "arm.FEAT_DotProd",
    "i8mm": "arm.FEAT_I8MM",
    "bf16": "arm.FEAT_BF16",
}


class MacPlatform:
    """system: libSystem, or another for tests."""

    name: SystemName = "macos"

    def __init__(self, system: Any = None) -> None:
        self._system = ctypes.CDLL(None, use_errno=True) if system is None else system
        word, flags = ctypes.c_size_t, ctypes.c_int
        self._system.mmap.argtypes = [ctypes.c_void_p, word, flags, flags, flags, ctypes.c_longlong]
        self._system.mmap.restype = ctypes.c_void_p
        self._system.munmap.argtypes = [ctypes.c_void_p, word]
        self._system.sys_icache_invalidate.argtypes = [ctypes.c_void_p, word]
        self._system.sys_icache_invalidate.restype = None
        self._system.pthread_jit_write_protect_np.argtypes = [flags]
        self._system.pthread_jit_write_protect_np.restype = None

    def allocate_code(self, size: int) -> int:
        flags = _MAP_PRIVATE | _MAP_ANON | _MAP_JIT
        base = self._system.mmap(None, size, _READ_WRITE_EXECUTE, flags, -1, 0)
        if base is None or base == _FAILED:
            raise code_memory_error("allocated", os.strerror(ctypes.get_errno()))
        return base

    @contextmanager
    def writing_code(self) -> Generator[None]:
        switches = self._system.pthread_jit_write_protect_supported_np()
        if switches:
            self._system.pthread_jit_write_protect_np(0)
        try:
            yield
        finally:
            if switches:
                self._system.pthread_jit_write_protect_np(1)

    def seal_code(self, address: int, size: int) -> None:
        self._system.sys_icache_invalidate(address, size)

    def free_code(self, address: int, size: int) -> None:
        self._system.munmap(address, size)

    def wait_functions(self) -> dict[str, int]:
        return found_addresses(self._system, _WAIT_FUNCTIONS)

    def affinity(self) -> frozenset[int] | None:
        return None

    def physical_memory(self) -> int | None:
        return self._read_number("hw.memsize")

    def cache_folder(self) -> Path:
        return Path(os.path.expanduser("~"), "Library", "Caches")

    def processor_features(self) -> frozenset[str]:
        """LLVM's names of what an Apple processor has."""
        return frozenset(
            name for name, key in _FEATURES.items() if self._read_number(f"hw.optional.{key}")
        )

    def _read_number(self, name: str) -> int | None:
        value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)
        wanted = (name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
        return None if self._system.sysctlbyname(*wanted) else value.value
