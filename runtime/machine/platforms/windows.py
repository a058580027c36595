"""Windows: VirtualAlloc and VirtualProtect, WaitOnAddress, process affinity. Prepared, not proven:
its logic is tested with a library that records calls.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from .platform_interface import SystemName, code_memory_error
from .symbols import found_addresses

_COMMIT_RESERVE, _RELEASE = 0x3000, 0x8000
_READ_WRITE, _EXECUTE_READ = 0x04, 0x20
_SYNC_FUNCTIONS: Final = ("WaitOnAddress", "WakeByAddressAll")
_KERNEL_FUNCTIONS: Final = (
    "SwitchToThread",
    "GetCurrentProcessorNumber",
    "QueryUnbiasedInterruptTime",
)


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX."""

    _fields_ = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("total", "free", "total_page", "free_page")),
        *((name, ctypes.c_uint64) for name in ("total_virtual", "free_virtual", "extended")),
    ]


class WindowsPlatform:
    """kernel32, sync: kernel32.dll and api-ms-win-core-synch-l1-2-0.dll, or others for tests."""

    name: SystemName = "windows"

    def __init__(self, kernel32: Any = None, sync: Any = None) -> None:
        load = getattr(ctypes, "WinDLL", ctypes.CDLL)
        self._kernel32 = load("kernel32", use_last_error=True) if kernel32 is None else kernel32
        self._sync = load("api-ms-win-core-synch-l1-2-0") if sync is None else sync
        pointer, word, flags = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
        k = self._kernel32
        k.VirtualAlloc.argtypes, k.VirtualAlloc.restype = [pointer, word, flags, flags], pointer
        k.VirtualProtect.argtypes = [pointer, word, flags, pointer]
        k.VirtualFree.argtypes = [pointer, word, flags]
        k.FlushInstructionCache.argtypes = [pointer, pointer, word]
        k.GetCurrentProcess.restype = pointer
        k.GetProcessAffinityMask.argtypes = [pointer, pointer, pointer]

    def allocate_code(self, size: int) -> int:
        base = self._kernel32.VirtualAlloc(None, size, _COMMIT_RESERVE, _READ_WRITE)
        if not base:
            raise code_memory_error("allocated", self._reason())
        return base

    def writing_code(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seal_code(self, address: int, size: int) -> None:
        before = ctypes.c_uint32()
        k = self._kernel32
        if not k.VirtualProtect(address, size, _EXECUTE_READ, ctypes.byref(before)):
            raise code_memory_error("made executable", self._reason())
        if not k.FlushInstructionCache(k.GetCurrentProcess(), address, size):
            raise code_memory_error("made executable", self._reason())

    def free_code(self, address: int, size: int) -> None:
        self._kernel32.VirtualFree(address, 0, _RELEASE)

    def wait_functions(self) -> dict[str, int]:
        found = found_addresses(self._sync, _SYNC_FUNCTIONS)
        return found | found_addresses(self._kernel32, _KERNEL_FUNCTIONS)

    def affinity(self) -> frozenset[int] | None:
        """Of the process's own group of at most 64 processors."""
        process, system = ctypes.c_size_t(), ctypes.c_size_t()
        k = self._kernel32
        masks = (ctypes.byref(process), ctypes.byref(system))
        if not k.GetProcessAffinityMask(k.GetCurrentProcess(), *masks):
            return None
        return frozenset(n for n in range(64) if process.value >> n & 1)

    def physical_memory(self) -> int | None:
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        found = self._kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return status.total if found else None

    def cache_folder(self) -> Path:
        chosen = os.environ.get("LOCALAPPDATA")
        return Path(chosen or os.path.join(os.path.expanduser("~"), "AppData", "Local"))

    @staticmethod
    def _reason() -> str:
        number = getattr(ctypes, "get_last_error", lambda: 0)()
        return f"Windows error {number}"
