"""Reads the features of an aarch64 processor from the words that Linux gives every process.

The auxiliary vector's AT_HWCAP and AT_HWCAP2 say what the processor has and the kernel enables;
`MIDR` registers, which name the processor, are not read. LLVM's own detection on aarch64 reads
/proc/cpuinfo and leaves out the features that multiply matrices. Source of the bits: the kernel's
arch/arm64/include/uapi/asm/hwcap.h.
"""

from __future__ import annotations

import ctypes
from typing import Final

AT_HWCAP: Final = 16
AT_HWCAP2: Final = 26

# LLVM's name by the bits that it needs, all of them.
_HWCAP: Final[dict[str, tuple[int, ...]]] = {
    "fp-armv8": (0,),
    "neon": (1,),
    "crc": (7,),
    "lse": (8,),
    "fullfp16": (9, 10),  # scalars and vectors
    "rdm": (12,),
    "jsconv": (13,),
    "complxnum": (14,),
    "rcpc": (15,),
    "dotprod": (20,),
    "sve": (22,),
    "fp16fml": (23,),
}
_HWCAP2: Final[dict[str, tuple[int, ...]]] = {"sve2": (1,), "i8mm": (13,), "bf16": (14,)}


def read_hwcap_features() -> frozenset[str]:
    """LLVM's names of what this process may use; only on Linux."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
    return decode_hwcaps(getauxval(AT_HWCAP), getauxval(AT_HWCAP2))


def decode_hwcaps(hwcap: int, hwcap2: int) -> frozenset[str]:
    """LLVM's names of the features in the two words."""
    return frozenset(
        name
        for word, table in ((hwcap, _HWCAP), (hwcap2, _HWCAP2))
        for name, bits in table.items()
        if all(word >> bit & 1 for bit in bits)
    )
