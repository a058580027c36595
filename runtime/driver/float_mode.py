"""The floating-point control word: rounding to nearest even, denormals kept or flushed to zero."""

from __future__ import annotations

from typing import Final

from ...plan.target import Target
from ..llvmir.builder import Function, Module
from ..llvmir.values import I32, I64, Value

# MXCSR: all exceptions masked; flush to zero (bit 15) and denormals are zeros (bit 6).
_MXCSR, _MXCSR_FLUSH = 0x1F80, 0x9FC0
# FPCR: flush to zero (bit 24), which holds for operands and results.
_FPCR, _FPCR_FLUSH = 0, 1 << 24
# Sticky flags of MXCSR: a denormal operand was read; a result was rounded below the smallest normal
# number.
_DENORMAL_FLAGS: Final = 0x12


def default_mode(arch: str) -> int:
    """The control word that keeps denormals."""
    return _MXCSR if arch == "x86_64" else _FPCR


def flush_mode(arch: str) -> int:
    """The control word that takes denormal operands for zeros and flushes denormal results."""
    return _MXCSR_FLUSH if arch == "x86_64" else _FPCR_FLUSH


def has_denormal_flags(mode: int, target: Target) -> bool:
    """Do the sticky flags of a control word say that denormals were computed with? Where they are
    flushed, and on processors other than x86-64, False."""
    flushes = mode & _MXCSR_FLUSH & ~_MXCSR
    return target.arch == "x86_64" and not flushes and mode & _DENORMAL_FLAGS != 0


def swap_mode(f: Function, new: Value | int) -> Value:
    """Set the floating-point control word (x86: MXCSR, sticky flags included); the old one."""
    mode = f.as_value(new, I32)
    if f.target.arch == "x86_64":
        old, fresh = f.stack(4, 4), f.stack(4, 4)
        f.call("llvm.x86.sse.stmxcsr", "void", old)
        f.line(f"store {mode}, {fresh}, align 4")
        f.call("llvm.x86.sse.ldmxcsr", "void", fresh)
        return f.op(I32, f"load i32, {old}, align 4")
    old64 = f.call("llvm.aarch64.get.fpcr", I64)
    f.call("llvm.aarch64.set.fpcr", "void", f.cast(mode, I64, signed_=False))
    return f.cast(old64, I32)


def swap_mode_text(target: Target) -> str:
    """irc_swap_mode(new), which gives the old control word back, as a module of its own: LLVM
    compiles it in a few milliseconds, the driver in 200."""
    module = Module(target)
    f = module.function("irc_swap_mode", [(I32, "new")], I32)
    f.ret(swap_mode(f, f.params["new"]))
    return module.text()
