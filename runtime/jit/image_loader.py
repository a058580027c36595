"""Images into memory: one mapping for all that are loaded together, without LLVM.

The mapping is written first and made executable then, by the platform's means: no page is ever
both. Names are resolved among the images, the imports and the few functions of libc that code
generation calls on its own; whatever else an image wants is a fault of its kernel, and is named.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ...ir.errors import Error
from ...plan.target import Target
from ..machine.platforms.host_platform import host_platform
from .code_image import FLAT, OBJECT, CodeImage, missing_functions_error
from .elf_relocations import image_alignment
from .llvm_linker import link_objects

# What code generation may call on its own.
_IMPORTS: Final = ("memcpy", "memmove", "memset")


class _Part(Protocol):
    """Some of a library: memory that is given back by `close`."""

    def close(self) -> None: ...


class Library:
    """Loaded code. Its addresses are valid as long as the Library lives.

    When the last reference goes, the code is unmapped: an owner of an address keeps the Library.
    linked: how many of its images LLVM had to link.
    """

    def __init__(
        self, parts: Sequence[_Part], addresses: Mapping[str, int], linked: int = 0
    ) -> None:
        self._parts, self._addresses = parts, dict(addresses)
        self.linked = linked

    def address(self, symbol: str) -> int:
        """The address of an exported symbol; KeyError for others."""
        return self._addresses[symbol]

    def symbols(self) -> tuple[str, ...]:
        """The exported symbols, sorted."""
        return tuple(sorted(self._addresses))

    def function(self, symbol: str, *argtypes: Any, returns: Any = ctypes.c_int32) -> Any:
        """A ctypes function that keeps the Library alive. For tests and one-off calls."""
        made = ctypes.CFUNCTYPE(returns, *argtypes)(self.address(symbol))
        made.library = self  # type: ignore[attr-defined]
        return made

    def close(self) -> None:
        """Unload now. Idempotent."""
        parts, self._parts, self._addresses = self._parts, (), {}
        for part in parts:
            part.close()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit threads may still be in the code; the process takes the pages.
        if not _ending():
            self.close()


def load_objects(
    images: Sequence[CodeImage],
    symbols: Iterable[str],
    target: Target,
    imports: Mapping[str, int] | None = None,
) -> Library:
    """Load images (of emit_object, or trusted as if they were).

    symbols: the names whose addresses are wanted. imports: further addresses by name. Images must
    not define the same external name twice. Error where a name is missing.
    """
    flat = [i for i in images if i.kind == FLAT]
    objects = [i.code for i in images if i.kind == OBJECT]
    known = {**_libc(), **(imports or {})}
    parts: list[_Part] = []
    addresses: dict[str, int] = {}
    if flat:
        mapping = _Mapping(flat, known, image_alignment(target.arch))
        parts.append(mapping)
        addresses = mapping.addresses
    wanted = sorted(set(symbols))
    if objects:
        linked = link_objects(objects, [s for s in wanted if s not in addresses], target, known)
        parts.append(linked)
        addresses = addresses | linked.addresses
    library = Library(parts, {s: addresses[s] for s in wanted if s in addresses}, len(objects))
    if missing := [s for s in wanted if s not in addresses]:
        raise Error("generated code could not be linked", got=f"no {', '.join(missing)[:500]}")
    return library


class _Mapping:
    """Flat images in memory, ready to be called."""

    def __init__(
        self, images: Sequence[CodeImage], known: Mapping[str, int], alignment: int
    ) -> None:
        offsets: list[int] = []
        size = 0
        for image in images:
            offsets.append(size)
            size += -(-len(image.code) // alignment) * alignment
        self._platform = host_platform()
        self._size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._base = self._platform.allocate_code(self._size)
        self.addresses = {
            name: self._base + at + offset
            for at, image in zip(offsets, images, strict=True)
            for name, offset in image.exports.items()
        }
        try:
            given = {**self.addresses, **known}
            _check_names(images, given)
            with self._platform.writing_code():
                for at, image in zip(offsets, images, strict=True):
                    ctypes.memmove(self._base + at, image.code, len(image.code))
                    for name, offset in image.imports.items():
                        word = struct.pack("<Q", given[name])
                        ctypes.memmove(self._base + at + offset, word, len(word))
            self._platform.seal_code(self._base, self._size)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._platform.free_code(self._base, self._size)


def _check_names(images: Sequence[CodeImage], given: Mapping[str, int]) -> None:
    if missing := {name for image in images for name in image.imports} - given.keys():
        raise missing_functions_error(missing, given)


@functools.cache
def _libc() -> dict[str, int]:
    process = ctypes.CDLL(None)
    found = {n: ctypes.cast(getattr(process, n), ctypes.c_void_p).value for n in _IMPORTS}
    return {name: address for name, address in found.items() if address is not None}
