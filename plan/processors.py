"""Named processors as sets of LLVM feature names: masks of a machine's features, Targets of tests.

A set holds what code generation can use: vectors, conversions, bit manipulation, prefetches and
matrix units. Features for operating systems, for cryptography and for I/O are left out, because a
virtual machine may hide them and no kernel needs them. Source: the processor definitions of LLVM
(X86.td, AArch64Processors.td).
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Final

from ..ir.errors import UsageError
from .target import ISAS, Isa, Target, generic_target

_V2: Final = ISAS["plain"].required | frozenset(
    "crc32 cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()
)
_HASWELL: Final = _V2 | ISAS["avx2"].required
_SKYLAKE: Final = _HASWELL | {"prfchw"}
_SKYLAKE_AVX512: Final = _SKYLAKE | ISAS["avx512"].required
_CASCADELAKE: Final = _SKYLAKE_AVX512 | {"avx512vnni"}
_ICELAKE_SERVER: Final = _CASCADELAKE | frozenset(
    "avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vpopcntdq gfni".split()
)
_SAPPHIRERAPIDS: Final = _ICELAKE_SERVER | frozenset(
    "amx-bf16 amx-int8 amx-tile avx512bf16 avx512fp16 avxvnni".split()
)
_ZNVER2: Final = _SKYLAKE | {"sse4a"}
_ZNVER4: Final = _ZNVER2 | _ICELAKE_SERVER | {"avx512bf16"}

_CORTEX_A72: Final = ISAS["neon"].required | {"crc"}
_NEOVERSE_N1: Final = _CORTEX_A72 | frozenset("dotprod fullfp16 lse rcpc rdm".split())
_NEOVERSE_V1: Final = _NEOVERSE_N1 | frozenset("bf16 complxnum fp16fml i8mm jsconv sve".split())

PROCESSORS: Final[dict[str, frozenset[str]]] = {
    "x86-64-v2": _V2,
    "haswell": _HASWELL,
    "skylake-avx512": _SKYLAKE_AVX512,
    "cascadelake": _CASCADELAKE,
    "icelake-server": _ICELAKE_SERVER,
    "sapphirerapids": _SAPPHIRERAPIDS,
    "alderlake": _SKYLAKE | {"avxvnni", "gfni"},
    "znver2": _ZNVER2,
    "znver3": _ZNVER2,
    "znver4": _ZNVER4,
    "znver5": _ZNVER4 | {"avx512vp2intersect", "avxvnni"},
    "cortex-a72": _CORTEX_A72,
    "neoverse-n1": _NEOVERSE_N1,
    "neoverse-v1": _NEOVERSE_V1,
}

_ABOVE_AVX2: Final = ("avx512", "avx10", "amx-", "evex512")


def runnable_isas(features: frozenset[str]) -> tuple[Isa, ...]:
    """The instruction sets that a machine of these features can run, best first."""
    return tuple(name for name, info in ISAS.items() if info.required <= features)


def features_of_isa(isa: Isa, features: frozenset[str]) -> tuple[str, ...]:
    """The features to compile with where a machine of these features runs as `isa`, sorted."""
    if isa == "plain":
        return tuple(sorted(ISAS["plain"].required))
    if isa == "avx2":
        features = frozenset(f for f in features if not f.startswith(_ABOVE_AVX2))
    return tuple(sorted(features))


def processor_target(name: str) -> Target:
    """The Target of a named processor, the same on every machine (caches of `generic_target`)."""
    features = _features(name, where="processor_target")
    isa = runnable_isas(features)[0]
    return replace(generic_target(isa), cpu_features=features_of_isa(isa, features))


def mask_features(name: str, detected: frozenset[str], where: str) -> frozenset[str]:
    """The features of the processor `name`, on a machine that has all of `detected`.

    UsageError, with `where` the name comes from, for an unknown processor, and for one that has
    features that the machine lacks.
    """
    features = _features(name, where)
    if missing := sorted(features - detected):
        raise UsageError(
            f"this machine cannot run code for the processor {name!r}",
            where=where,
            got=f"a machine without {', '.join(missing)}",
            expected=" or ".join(maskable_processors(detected)) or "no processor",
            fix=f"unset {where.split()[-1]}, or choose a processor whose features the machine has",
        )
    return features


def maskable_processors(detected: frozenset[str]) -> tuple[str, ...]:
    """The named processors that have no feature besides `detected`."""
    return tuple(name for name, features in PROCESSORS.items() if features <= detected)


def _features(name: str, where: str) -> frozenset[str]:
    found = PROCESSORS.get(name)
    if found is None:
        near = difflib.get_close_matches(name[:80].lower(), PROCESSORS, 1, cutoff=0.0)
        raise UsageError(
            "unknown processor",
            where=where,
            got=repr(name[:80]),
            expected=", ".join(PROCESSORS),
            fix=f"did you mean {near[0]!r}?" if near else "choose one of these",
        )
    return found
