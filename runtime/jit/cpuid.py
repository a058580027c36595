"""Reads the processor's features by a generated function that runs CPUID.

LLVM knows how to read it, but to load LLVM for that costs more than to load a model whose code is
cached. So LLVM's answer is kept in the code cache, under a digest of everything that it is made
of: the words of `cpuid`, the state that the operating system saves, and the LLVM that is installed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable
from typing import Final

from ...plan.target import generic_target
from .builtin_code import CodeCache, identify_llvm, kept_code
from .disk_cache import default_cache
from .image_loader import load_objects

_TEXT: Final = """
define void @irc_cpuid(ptr %words, i32 %leaf, i32 %part) {
  %w = call { i32, i32, i32, i32 } asm sideeffect "cpuid",
    "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %leaf, i32 %part)
  store { i32, i32, i32, i32 } %w, ptr %words, align 4
  ret void
}
define i32 @irc_xcr0() {
  %w = call { i32, i32 } asm sideeffect "xgetbv",
    "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %low = extractvalue { i32, i32 } %w, 0
  ret i32 %low
}
"""
# CPUID leaves and the registers that hold feature bits: the names of LLVM's X86 features come from
# these.
_LEAVES: Final = (
    *((leaf, 0) for leaf in (0, 1, 0x14, 0x19, 0x1D, 0x21, 0x29)),  # a range's first comes first
    *((0x7, part) for part in range(3)),
    *((leaf, part) for leaf in (0xD, 0x1E, 0x24) for part in range(2)),
    *((0x80000000 + n, 0) for n in (0, 1, 7, 8, 0x21)),
)
_OSXSAVE: Final = 1 << 27
_FEATURE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def known_features(detect: Callable[[], frozenset[str]]) -> frozenset[str]:
    """The features that `detect` finds on this x86-64 machine; called only where the cache does not
    hold them."""
    cache = default_cache()
    if cache is None or not sys.platform.startswith("linux"):
        return detect()
    key = hashlib.sha256(
        b"features " + identify_llvm().encode() + _feature_words(cache)
    ).hexdigest()
    data = cache.get(key)
    found = None if data is None else _decode_features(data)
    if found is None:
        found = detect()
        cache.put(key, json.dumps(sorted(found)).encode())
    return found


def _decode_features(data: bytes) -> frozenset[str] | None:
    try:
        names = json.loads(data)
    except ValueError:
        return None
    good = isinstance(names, list) and all(
        isinstance(n, str) and _FEATURE.fullmatch(n) for n in names
    )
    return frozenset(names) if good else None


def _feature_words(cache: CodeCache) -> bytes:
    """Everything that features are read from. Nothing in it depends on the CPU it is read on."""
    target = generic_target("plain")
    library = load_objects([kept_code(_TEXT, target, cache)], ["irc_cpuid", "irc_xcr0"], target)
    cpuid = library.function("irc_cpuid", ctypes.c_void_p, *[ctypes.c_uint32] * 2, returns=None)
    words = (ctypes.c_uint32 * 4)()
    found = b""
    saves = False
    last: dict[int, int] = {}  # by the first leaf of a range
    for leaf, part in _LEAVES:
        first = leaf & 0x80000000
        if leaf > last.get(first, leaf):
            continue  # Intel answers for another one then
        cpuid(words, leaf, part)
        a, b, c, d = words
        last.setdefault(first, a)
        if leaf == 1:
            b, saves = 0, bool(c & _OSXSAVE)  # its second word has the number of the CPU
        elif leaf == 0xD:
            b = 0  # the size of the state that is in use
        found += struct.pack("<6I", leaf, part, a, b, c, d)
    state = library.function("irc_xcr0", returns=ctypes.c_uint32)() if saves else 0
    return found + struct.pack("<I", state)
