"""LLVM's own linker, for objects that elf_flatten.py could not lay out: other systems and
processors."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.errors import Error
from ...plan.target import Target
from .code_image import missing_functions_error
from .elf_read import read_object
from .fork_guard import inside_llvm, reset_in_child
from .llvm_binding import load_binding, target_machine

_link_lock = threading.Lock()


def _reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _link_lock
    _link_lock = threading.Lock()


reset_in_child(_reset_lock)


class Linked:
    """Objects that LLVM has linked and loaded."""

    def __init__(self, jit: Any, tracker: Any, addresses: dict[str, int]) -> None:
        self._parts, self.addresses = (tracker, jit), addresses  # the tracker goes first

    def close(self) -> None:
        parts, self._parts = self._parts, ()
        for part in parts:
            part.close()


def link_objects(
    objects: Sequence[bytes], symbols: Sequence[str], target: Target, imports: Mapping[str, int]
) -> Linked:
    """Link object files (trusted: LLVM dies on forged ones) and load them.

    symbols: the names whose addresses are wanted. imports: addresses by name. Error where a name
    is missing.
    """
    _check_names(objects, set(imports))
    with inside_llvm():
        return _link(objects, symbols, target, imports)


def _link(
    objects: Sequence[bytes], symbols: Sequence[str], target: Target, imports: Mapping[str, int]
) -> Linked:
    llvm = load_binding()
    builder = llvm.JITLibraryBuilder()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for content in objects:
        builder.add_object_img(content)
    for name in symbols:
        builder.export_symbol(name)
    # One JIT per library: a library's name inside a JIT can never be given back.
    with _link_lock:
        jit = llvm.create_lljit_compiler(
            target_machine(target), use_jit_link=True, suppress_errors=True
        )
        try:
            tracker = builder.link(jit, "kernels")
        except RuntimeError as e:
            jit.close()
            raise Error("generated code could not be linked", got=str(e).strip()[:2000]) from e
    return Linked(jit, tracker, {name: tracker[name] for name in symbols})


def _check_names(objects: Sequence[bytes], given: set[str]) -> None:
    found = [o for data in objects if (o := read_object(data)) is not None]
    known = given.union(*(o.defined_names() for o in found))
    if missing := set[str]().union(*(o.needed_names() for o in found)) - known:
        raise missing_functions_error(missing, known)
