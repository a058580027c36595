"""MurmurHash3 of texts: published values, and texts of each length modulo 4."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.ops.murmur_hash import hash_texts


@pytest.mark.parametrize(
    ("text", "seed", "wanted"),
    [
        ("", 0, 0),
        ("", 1, 0x514E28B7),
        ("test", 0, 0xBA6BD213),
        ("Hello, world!", 0x9747B28C, 0x24884CBA),
        ("The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
    ],
)
def test_published_values(text: str, seed: int, wanted: int) -> None:
    found = hash_texts(np.array([[text]], object), seed, positive=True)
    assert found.shape == (1, 1) and found.dtype == np.uint32
    assert found[0, 0] == wanted


def test_signed_hashes_have_the_same_bits() -> None:
    texts = np.array(["a", "ab", "abc", "abcd", "abcde"], object)
    signed = hash_texts(texts, 7, positive=False)
    assert signed.dtype == np.int32 and (signed < 0).any()
    np.testing.assert_array_equal(signed.view(np.uint32), hash_texts(texts, 7, positive=True))
