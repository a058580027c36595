"""Devices, allocators and memory as onnxruntime describes them: the CPU's."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ...ir.errors import UnsupportedOperationError
from ..nearest import NamesNearest
from .errors import NotImplemented, join_error
from .values import require_cpu


class OrtAllocatorType(IntEnum):
    """Kinds of allocators; irc plans one arena per call."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(IntEnum):
    """Where a tensor is read: the default is the device."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    DEFAULT = 0


class OrtDeviceMemoryType(IntEnum):
    """Kinds of memory of a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfo(NamesNearest):
    """A memory of the CPU."""

    def __init__(
        self,
        name: str,
        allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR,
        id: int = 0,
        mem_type: OrtMemType = OrtMemType.DEFAULT,
    ) -> None:
        require_cpu(name)
        self.name, self.allocator_type, self.id = name, allocator_type, id
        self.mem_type = mem_type


class SparseTensor(NamesNearest):
    """Refused: irc has no sparse tensors."""

    def __init__(self, *given: Any, **named: Any) -> None:
        error = UnsupportedOperationError("irc has no sparse tensors", fix="pass a dense array")
        raise join_error(error, NotImplemented)
