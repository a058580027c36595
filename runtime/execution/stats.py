"""What a session holds, in figures."""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Stats:
    """Figures of a session: threads a call may use, idle contexts and the bytes of their arenas
    (constants' bytes are shared by all), kernels and how many of them LLVM compiled for this
    program, shapes whose layouts are known."""

    threads: int
    contexts: int
    arena_bytes: int
    constant_bytes: int
    kernels: int
    compiled: int
    shapes: int
