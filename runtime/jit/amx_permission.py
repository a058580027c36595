"""Requests permission for AMX: the kernel gives tile registers to processes that request them.

Tiles are 8 KiB of state per thread, so Linux (5.16 and later) keeps them off until a process
requests them, once, for all its threads and children. Used without permission they are a signal.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache

# <asm/prctl.h>, the number of arch_prctl on x86-64, and the state component of tile data.
_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


def amx_refused(features: frozenset[str]) -> str:
    """Why tiles may not be used, with these features; "" if they may, or where there are none.

    Asks the kernel at the first call. IRC_AMX=0 leaves them alone.
    """
    if "amx-tile" not in features:
        return ""
    if os.environ.get("IRC_AMX") == "0":
        return "IRC_AMX is 0"
    return _request_permission()


@lru_cache
def _request_permission() -> str:
    """What the kernel answers: "" for yes."""
    error = _request()
    if error == 0:
        return ""
    return f"the operating system refuses tiles to this process: {os.strerror(error)}"


def _request() -> int:
    """Ask for permission; 0, or the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    number, code, feature = map(
        ctypes.c_long, (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    )
    return ctypes.get_errno() if libc.syscall(number, code, feature) else 0
