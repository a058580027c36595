"""This machine's instruction sets as LLVM sees them, and LLVM target machines for Targets.

Features are detected; CPU names are never looked at (LLVM may name a CPU whose features the
machine does not have). The environment variable IRC_ISA forces an instruction set, IRC_CPU masks
the features with those of a named processor (plan/processors.py).
"""

from __future__ import annotations

import functools
import os
import platform
import threading
from typing import TYPE_CHECKING

from ...ir.errors import UsageError
from ...plan.processors import features_of_isa, mask_features, runnable_isas
from ...plan.target import ISAS, Isa, Target
from .amx_permission import amx_refused
from .fork_guard import inside_llvm

if TYPE_CHECKING:
    import llvmlite.binding as llvm

# Scheduling models: each psABI level brings one. All its features are required by the ISA.
_CPU: dict[Isa, str] = {
    "avx512": "x86-64-v4",
    "avx2": "x86-64-v3",
    "neon": "generic",
    "plain": "x86-64",
}
_FOREIGN = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
_NAMES_OF = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}

_lock = threading.Lock()
_ready: set[str] = set()


def _reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def load_binding(everywhere: bool = False):
    """llvmlite.binding, imported and initialised on first use; `everywhere`: all LLVM targets."""
    import llvmlite.binding as llvm

    with _lock:
        if "native" not in _ready:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            llvm.initialize_native_asmparser()  # inline assembly needs it
            _ready.add("native")
        if everywhere and "all" not in _ready:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            _ready.add("all")
    return llvm


def host_arch() -> str:
    """ "x86_64" or "aarch64"; UsageError elsewhere."""
    machine = platform.machine().lower()
    for arch, names in _NAMES_OF.items():
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
        from .cpuid import known_features

        return known_features(_features_of_llvm)
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


def triple(target: Target) -> str:
    """LLVM's triple: this process's own, or Linux's for another architecture."""
    if platform.machine().lower() in _NAMES_OF[target.arch]:
        return load_binding().get_process_triple()
    return _FOREIGN[target.arch]


def target_machine(target: Target, *, opt: int = 3) -> llvm.TargetMachine:
    """A new LLVM target machine for a Target of any architecture. Not for two threads at once."""
    foreign = platform.machine().lower() not in _NAMES_OF[target.arch]
    llvm = load_binding(everywhere=foreign)
    features = [f"+{f}" for f in target.cpu_features]
    if target.isa == "avx512":
        features.append("-prefer-256-bit")  # else LLVM uses vectors of 256 bits
    # Small position-independent code: the JIT linker lays an object out in one block.
    return llvm.Target.from_triple(triple(target)).create_target_machine(
        cpu=_CPU[target.isa],
        features=",".join(features),
        opt=opt,
        reloc="pic",
        codemodel="small",
        jit=True,
    )
