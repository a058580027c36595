"""The interface of an operating system: code memory, waiting, CPUs, memory, cache folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

from ....ir.errors import Error

SystemName = Literal["linux", "macos", "windows"]


class Platform(Protocol):
    """One operating system. Addresses are integers; no page is ever writable and executable for
    the same thread. `Error` where the system refuses memory."""

    @property
    def name(self) -> SystemName: ...

    def allocate_code(self, size: int) -> int:
        """The address of `size` bytes, a multiple of the page, that can be written between
        `writing_code` and `seal_code`."""
        ...

    def writing_code(self) -> AbstractContextManager[None]:
        """Around what this thread writes to memory of `allocate_code`."""
        ...

    def seal_code(self, address: int, size: int) -> None:
        """Make written code executable, and visible to every processor's instruction fetch."""
        ...

    def free_code(self, address: int, size: int) -> None:
        """Give the memory back."""
        ...

    def wait_functions(self) -> dict[str, int]:
        """Addresses of what the native driver calls to wait, wake and yield, by name; a function
        that the system lacks is left out, and without them there are no workers."""
        ...

    def affinity(self) -> frozenset[int] | None:
        """The CPUs that this process may use; None where the system has no such set."""
        ...

    def physical_memory(self) -> int | None:
        """Bytes of the machine's memory; None where the system does not say."""
        ...

    def cache_folder(self) -> Path:
        """The folder of this user for files that can be made again."""
        ...


def code_memory_error(action: str, reason: str) -> Error:
    """The system refuses memory for generated code."""
    return Error(
        f"memory for generated code could not be {action}",
        got=reason,
        fix="allow this process to run code that it has generated (SELinux: execmem; macOS: the "
        "entitlement com.apple.security.cs.allow-jit)",
    )
