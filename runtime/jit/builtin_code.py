"""Code that irc itself runs on, besides the kernels: made once, then taken from the cache.

What comes from the cache is loaded without LLVM; a module's text names it, so that another text is
other code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from typing import Protocol

from ...ir.errors import VerificationError
from ...plan.target import Target
from .code_image import FORMAT, CodeImage, read_image


class CodeCache(Protocol):
    """Where machine code is kept between processes; what comes back was checked by a digest."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, payload: bytes) -> None: ...


def kept_code(text: str, target: Target, cache: CodeCache | None) -> CodeImage:
    """The machine code of an LLVM module, from the cache where it holds it."""
    key = hashlib.sha256(f"{FORMAT} {target.key()} {text}".encode()).hexdigest()
    data = None if cache is None else cache.get(key)
    if data is not None:
        try:
            return read_image(data)
        except VerificationError:
            pass  # no code of ours: as good as none
    from .llvm import emit_object

    image = emit_object(text, target)
    if cache is not None:
        cache.put(key, image.to_bytes())
    return image


def identify_llvm() -> str:
    """What differs for another LLVM: the state of its package's file. (To load importlib.metadata
    takes as long as to start a model.)"""
    found = importlib.util.find_spec("llvmlite")
    if found is None or found.origin is None:
        return ""
    state = os.stat(found.origin)
    return f"{found.origin} {state.st_size} {state.st_mtime_ns}"
