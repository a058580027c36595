"""llvmlite's binding, initialised on first use, and LLVM target machines for Targets.

It detects nothing: what this machine has is host_features.py's.
"""

from __future__ import annotations

import os
import platform
import threading
from typing import TYPE_CHECKING

from ...plan.target import Isa, Target

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
# What Python calls each architecture.
ARCH_NAMES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}

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


def triple(target: Target) -> str:
    """LLVM's triple: this process's own, or Linux's for another architecture."""
    if platform.machine().lower() in ARCH_NAMES[target.arch]:
        return load_binding().get_process_triple()
    return _FOREIGN[target.arch]


def target_machine(
    target: Target, *, opt: int = 3, system: str | None = None
) -> llvm.TargetMachine:
    """A new LLVM target machine for a Target of any architecture. Not for two threads at once.

    system: the triple of another operating system, whose calling convention the code follows.
    """
    foreign = platform.machine().lower() not in ARCH_NAMES[target.arch]
    llvm = load_binding(everywhere=foreign)
    features = [f"+{f}" for f in target.cpu_features]
    if target.isa == "avx512":
        features.append("-prefer-256-bit")  # else LLVM uses vectors of 256 bits
    # Small position-independent code: the JIT linker lays an object out in one block.
    return llvm.Target.from_triple(system or triple(target)).create_target_machine(
        cpu=_CPU[target.isa],
        features=",".join(features),
        opt=opt,
        reloc="pic",
        codemodel="small",
        jit=True,
    )
