"""The functions that kernels share (runtime/kernels/shared_functions.py), loaded once per process:
compiled, or taken from the code cache."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from ...plan.target import generic_target
from ..kernels.shared_functions import SHARED_FUNCTIONS, shared_functions_text
from .builtin_code import CodeCache, kept_code
from .code_image import OBJECT, CodeImage
from .fork_guard import reset_in_child
from .host_features import host_arch
from .image_loader import Library, load_objects

_library: Library | None = None
_lock = threading.Lock()


def _reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


reset_in_child(_reset_lock)


def shared_functions(
    images: Sequence[CodeImage], cache: CodeCache | None = None
) -> Mapping[str, int]:
    """Addresses by name, if one of the images may call such a function."""
    global _library
    if not any(
        i.kind == OBJECT or not i.imports.keys().isdisjoint(SHARED_FUNCTIONS) for i in images
    ):
        return {}
    with _lock:
        if _library is None:
            target = generic_target("plain" if host_arch() == "x86_64" else "neon")
            image = kept_code(shared_functions_text(target), target, cache)
            _library = load_objects([image], SHARED_FUNCTIONS, target)
        return {name: _library.address(name) for name in SHARED_FUNCTIONS}
