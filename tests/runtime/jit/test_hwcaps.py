"""Features of aarch64 from the kernel's words."""

from __future__ import annotations

import platform

import pytest
from irc_compiler.plan.processors import PROCESSORS
from irc_compiler.runtime.jit.host_features import detected_features
from irc_compiler.runtime.jit.hwcaps import decode_hwcaps, read_hwcap_features

# What QEMU's processors give, AT_HWCAP and AT_HWCAP2.
N1 = (1 << 20 | 1 << 15 | 1 << 12 | 0b111 << 8 | 1 << 7 | 0b11, 0)
V1 = (N1[0] | 1 << 22 | 1 << 23 | 1 << 13 | 1 << 14, 1 << 13 | 1 << 14)


def test_words_of_known_processors() -> None:
    assert decode_hwcaps(1 << 7 | 0b11, 0) == PROCESSORS["cortex-a72"]
    assert decode_hwcaps(*N1) == PROCESSORS["neoverse-n1"]
    assert decode_hwcaps(*V1) == PROCESSORS["neoverse-v1"]


def test_f16_needs_scalars_and_vectors() -> None:
    assert "fullfp16" not in decode_hwcaps(0b11 | 1 << 9, 0)


@pytest.mark.aarch64
@pytest.mark.skipif(platform.machine() != "aarch64", reason="not run: not an aarch64 machine")
def test_this_machine() -> None:
    assert read_hwcap_features() >= PROCESSORS["cortex-a72"]
    assert detected_features() == read_hwcap_features()
