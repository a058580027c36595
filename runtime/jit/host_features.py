"""This machine's instruction sets, as LLVM (x86-64) or the kernel's hwcaps (aarch64) detect them.

Features are detected; CPU names are never looked at (LLVM may name a CPU whose features the
machine does not have). The environment variable IRC_ISA forces an instruction set, IRC_CPU masks
the features with those of a named processor (plan/processors.py).
"""

from __future__ import annotations

import functools
import os
import platform
import sys

from ...ir.errors import UsageError
from ...plan.processors import features_of_isa, mask_features, runnable_isas
from ...plan.target import ISAS, Isa
from .amx_permission import amx_refused
from .cpuid import known_features
from .fork_guard import inside_llvm
from .hwcaps import read_hwcap_features
from .llvm_binding import ARCH_NAMES, load_binding


def host_arch() -> str:
    """ "x86_64" or "aarch64"; UsageError elsewhere."""
    machine = platform.machine().lower()
    for arch, names in ARCH_NAMES.items():
        if machine in names:
            return arch
    raise UsageError(
        "this processor architecture is not supported",
        got=machine,
        expected="x86-64 (aarch64 is experimental)",
        fix="reading, converting and inspecting models works here; compiling does not",
    )


def host_features() -> frozenset[str]:
    """LLVM's names of the features that code may use: the machine's, masked by IRC_CPU.

    UsageError where IRC_CPU names no processor, or one with features that the machine lacks.
    """
    found = masked = detected_features()
    if name := masked_processor():
        masked = mask_features(name, found, "environment variable IRC_CPU")
    return drop_refused_tiles(masked)


def drop_refused_tiles(features: frozenset[str]) -> frozenset[str]:
    """The features without those of AMX where this process may not use tiles."""
    if not without_tiles():
        return features
    return frozenset(f for f in features if not f.startswith("amx-"))


def masked_processor() -> str:
    """The processor that IRC_CPU names, "" for none."""
    return os.environ.get("IRC_CPU", "")


def detected_features() -> frozenset[str]:
    """LLVM's names of what the machine has and its operating system enables, masked by nothing."""
    # LLVM does not report the architecture's base.
    return _detect_features() | ISAS["plain" if host_arch() == "x86_64" else "neon"].required


@functools.cache
def _detect_features() -> frozenset[str]:
    """What this machine has."""
    if host_arch() == "x86_64":
        return known_features(_features_of_llvm)
    if sys.platform.startswith("linux"):
        return read_hwcap_features()
    return _features_of_llvm()


def _features_of_llvm() -> frozenset[str]:
    with inside_llvm():
        return frozenset(k for k, on in load_binding().get_host_cpu_features().items() if on)


def without_tiles() -> str:
    """Why tiles of AMX, which this machine has, are not used; "" if they are, or if it has none."""
    return amx_refused(_detect_features())


def available_isas() -> tuple[Isa, ...]:
    """The instruction sets this machine can run, best first."""
    return runnable_isas(host_features())


def choose_isa(wanted: str | None = None) -> Isa:
    """`wanted`, or the environment's IRC_ISA, or the best. UsageError if the machine lacks it."""
    name = wanted or os.environ.get("IRC_ISA") or ""
    have = available_isas()
    if not name:
        return have[0]
    for isa in have:
        if isa == name:
            return isa
    raise UsageError(
        f"the instruction set {name!r} can't be used on this machine",
        where="compile option" if wanted else "environment variable IRC_ISA",
        got=name,
        expected=" or ".join(have),
        fix="unset IRC_ISA, or choose one that the machine has",
    )


def isa_features(isa: Isa) -> tuple[str, ...]:
    """The features to compile with when this machine runs as `isa`, sorted."""
    return features_of_isa(isa, host_features())
