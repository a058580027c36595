"""MurmurHash3_x86_32 of texts, as onnxruntime hashes them."""

from __future__ import annotations

from typing import Any

import numpy as np

_MASK = 0xFFFFFFFF


def hash_texts(texts: Any, seed: int, *, positive: bool) -> Any:
    """The hashes of texts in UTF-8, in u32 or i32."""
    array = np.asarray(texts, object)
    found = [_hash_bytes(str(t).encode("utf-8", "surrogatepass"), seed) for t in array.reshape(-1)]
    hashes = np.array(found, np.uint32).reshape(array.shape)
    return hashes if positive else hashes.view(np.int32)


def _rotate(x: int, by: int) -> int:
    return ((x << by) | (x >> (32 - by))) & _MASK


def _scramble(word: int) -> int:
    return _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _hash_bytes(data: bytes, seed: int) -> int:
    found, whole = seed & _MASK, len(data) & ~3
    for word in np.frombuffer(data[:whole], "<u4"):
        found = (_rotate(found ^ _scramble(int(word)), 13) * 5 + 0xE6546B64) & _MASK
    found ^= _scramble(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    return found ^ found >> 16
