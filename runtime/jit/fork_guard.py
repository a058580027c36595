"""Records whether a thread is inside LLVM when the process forks.

A forked child has the locks of LLVM and of llvmlite as they were, and none of the threads that
held them: what another thread was compiling is never finished, and a compilation in the child
would wait for ever. No lock is taken around a fork (other libraries fork in threads of their own);
the child records that, and compiling there ends in an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ...ir.errors import ExecutionError

# One object for each thread that is inside; adding and removing are single steps, under no lock.
_inside: set[object] = set()
_lost = False
_resets: list[Callable[[], None]] = []


def reset_in_child(reset: Callable[[], None]) -> None:
    """Call `reset` in every forked child (for a module's own lock)."""
    _resets.append(reset)


@contextmanager
def inside_llvm() -> Generator[None]:
    """Around whatever calls LLVM. ExecutionError in a child that was forked while some thread of
    its parent was inside."""
    if _lost:
        raise ExecutionError(
            "this process was forked while another thread compiled: nothing can be compiled in it",
            where=f"process {os.getpid()}",
            got="locks of LLVM that were held at the fork, by a thread that is not here",
            expected="models that were compiled before the fork (they run here as ever)",
            fix="compile before forking, or start processes by spawn: "
            'multiprocessing.get_context("spawn")',
        )
    token = object()
    _inside.add(token)
    try:
        yield
    finally:
        _inside.discard(token)


def _after_fork_in_child() -> None:
    global _lost
    _lost = _lost or bool(_inside)
    for reset in _resets:
        reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
