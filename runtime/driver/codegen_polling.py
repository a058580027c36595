"""Polls for signals in the native driver, so that Ctrl-C ends a call inside native code.

Python runs handlers of signals in its main thread only, between instructions of Python. A call of
that thread that runs long (`irc_run_polling`) therefore takes the interpreter lock now and then
and lets Python run what is pending. Where a handler raises, the driver stops at the end of the
part at hand, and Python finds the exception set.
"""

from __future__ import annotations

from typing import Final

from ..llvmir.builder import Function, Module
from ..llvmir.values import I32, I64, PTR
from .codegen_system import read_clock
from .float_mode import default_mode, swap_mode

# Nanoseconds between two polls.
POLL_PERIOD: Final = 100_000_000
# What the driver needs of Python's C API.
PYTHON_API: Final = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")
# Words of a poll's block: the thread's state, and the time from which to poll again.
_THREAD, _NEXT = 0, 1


def write_poll(module: Module) -> Function:
    """poll(block): 1 where a handler of a signal raised; 0, at once, for the block 0."""
    f = module.function("irc_poll", [(I64, "block")], I64, linkage="internal")
    with f.if_(f.icmp("eq", f.params["block"], 0)):
        f.ret(0)
    block = f.op(PTR, f"inttoptr {f.params['block']} to ptr")
    now = read_clock(f)
    with f.if_(f.icmp("slt", now, f.load(I64, f.at(block, _NEXT, I64)))):
        f.ret(0)
    f.store(f.add(now, POLL_PERIOD), f.at(block, _NEXT, I64))
    thread = f.load(I64, f.at(block, _THREAD, I64))
    # A handler is Python code of the user: it runs in the default mode.
    mode = swap_mode(f, default_mode(f.target.arch))
    f.call("PyEval_RestoreThread", "void", f.op(PTR, f"inttoptr {thread} to ptr"))
    raised = f.call("PyErr_CheckSignals", I32)
    f.call("PyEval_SaveThread", PTR)
    swap_mode(f, mode)
    f.ret(f.select(f.icmp("eq", raised, 0), f.as_value(0, I64), 1))
    return f


def write_run_polling(module: Module, walk: Function) -> None:
    """run_polling(call): `run` for a caller that holds the interpreter lock, which is given away
    but for polls. Python's exception is set where the result is INTERRUPTED."""
    f = module.function("irc_run_polling", [(PTR, "call")], I32)
    block = f.stack(16, 8)
    thread = f.call("PyEval_SaveThread", PTR)
    f.store(thread, f.at(block, _THREAD, I64))
    f.store(f.add(read_clock(f), POLL_PERIOD), f.at(block, _NEXT, I64))
    status = f.call_function(walk, f.params["call"], f.op(I64, f"ptrtoint {block} to i64"))
    f.call("PyEval_RestoreThread", "void", thread)
    f.ret(status)
