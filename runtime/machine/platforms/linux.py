"""Linux: mmap and mprotect, futex, affinity masks, cgroups, XDG folders."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from .platform_interface import SystemName, code_memory_error
from .symbols import address_of

_FAILED: Final = ctypes.c_void_p(-1).value
_WAIT_FUNCTIONS: Final = ("syscall", "sched_yield", "sched_getcpu", "clock_gettime")


class LinuxPlatform:
    """libc: the process's own, or another for tests. machine: as the kernel names the processor."""

    name: SystemName = "linux"

    def __init__(self, libc: Any = None, machine: str | None = None) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if libc is None else libc
        self._machine = platform.machine() if machine is None else machine
        self._clear_cache: Any = None
        word, flags = ctypes.c_size_t, ctypes.c_int
        self._libc.mmap.argtypes = [ctypes.c_void_p, word, flags, flags, flags, ctypes.c_long]
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mprotect.argtypes = [ctypes.c_void_p, word, flags]
        self._libc.munmap.argtypes = [ctypes.c_void_p, word]

    def allocate_code(self, size: int) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = self._libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if base is None or base == _FAILED:
            raise code_memory_error("allocated", os.strerror(ctypes.get_errno()))
        return base

    def writing_code(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seal_code(self, address: int, size: int) -> None:
        self._flush_instruction_cache(address, size)
        if self._libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise code_memory_error("made executable", os.strerror(ctypes.get_errno()))

    def free_code(self, address: int, size: int) -> None:
        self._libc.munmap(address, size)

    def wait_functions(self) -> dict[str, int]:
        return {name: address_of(self._libc, name) for name in _WAIT_FUNCTIONS}

    def affinity(self) -> frozenset[int] | None:
        return frozenset(os.sched_getaffinity(0))

    def physical_memory(self) -> int | None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def cache_folder(self) -> Path:
        chosen = os.environ.get("XDG_CACHE_HOME")
        return Path(chosen or os.path.join(os.path.expanduser("~"), ".cache"))

    def _flush_instruction_cache(self, address: int, size: int) -> None:
        """aarch64 fetches instructions through a cache that does not see stores: lines are written
        back, then dropped from it on all processors. libgcc has the loop over both line sizes."""
        if self._machine != "aarch64":
            return
        if self._clear_cache is None:
            try:
                self._clear_cache = self._load_clear_cache()
            except (OSError, AttributeError) as error:
                raise code_memory_error(
                    "made executable", f"{error}: __clear_cache of libgcc_s.so.1 flushes it"
                ) from error
        self._clear_cache(address, address + size)

    @staticmethod
    def _load_clear_cache() -> Any:
        function = getattr(ctypes.CDLL("libgcc_s.so.1"), "__clear_cache")
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        return function
