"""Shared steps in the native driver.

Each running thread, the caller included, claims the next part of a shared step by one atomic add.
So no thread waits for one that sleeps or was descheduled before it claimed a part. Claims carry the
step's sequence number: a late worker can only claim a part of the step that is running now, and
the caller does not move on before every claimed part is done.

Steps in phases are shared the same way, phase by phase: a thread runs its own part of a phase, then
the parts that no thread has begun, waits for those of other threads, and goes on to the next phase.
Only a part whose phase may run is ever claimed, so a claim waits for nothing; a thread alone runs
them all.
"""

from __future__ import annotations

from typing import Final

from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import I32, I64, PTR, Value
from .abi import (
    FAR_PITCH,
    NOTHING,
    POOL_ABORT,
    POOL_BUFFERS,
    POOL_DIMS,
    POOL_DONE,
    POOL_FAILURE,
    POOL_FAR,
    POOL_FIRST,
    POOL_FN,
    POOL_PHASES,
    POOL_SCRATCH,
    POOL_SLEEPERS,
    POOL_STRIDE,
    POOL_TICKET,
    POOL_TOTAL,
)
from .codegen_system import yield_core

# Pauses of a caller before it gives its core away while it waits for the last parts: a few
# microseconds, the time of an ordinary imbalance.
_YIELD_AFTER: Final = 200


def word(f: Function, base: Value, n: int) -> Value:
    return f.at(base, n, I64)


def get_word(f: Function, base: Value, n: int, order: str = "acquire") -> Value:
    return f.op(I64, f"load atomic i64, {word(f, base, n)} {order}, align 8")


def set_word(f: Function, base: Value, n: int, value: Value | int, order: str = "release") -> None:
    v = f.as_value(value, I64)
    f.line(f"store atomic {v}, {word(f, base, n)} {order}, align 8")


def add_word(f: Function, base: Value, n: int, value: int, order: str = "acq_rel") -> Value:
    return f.op(I64, f"atomicrmw add {word(f, base, n)}, i64 {value} {order}")


def claim_word(f: Function, base: Value, n: int) -> Value:
    """i1: was the word 0, and is it now 1 and ours?"""
    pair = f.op("{ i64, i1 }", f"cmpxchg {word(f, base, n)}, i64 0, i64 1 acq_rel acquire")
    return f.op("i1", f"extractvalue {pair}, 1")


def parts_of(f: Function, ticket: Value) -> tuple[Value, Value]:
    """(next part, parts) of a ticket."""
    return f.and_(ticket, 0xFFFF), f.and_(f.lshr(ticket, 16), 0xFFFF)


def pause(f: Function) -> None:
    if f.target.arch == "x86_64":
        f.call("llvm.x86.sse2.pause", "void")
    else:
        f.call("llvm.aarch64.hint", "void", f.as_value(1, I32))  # yield


def _wait(f: Function, waited: StackVariable) -> None:
    """One more pause; after many the core is given away."""
    pause(f)
    waited.set(f.add(waited.get(), 1))
    with f.if_(f.icmp("ugt", waited.get(), _YIELD_AFTER)):
        yield_core(f)


def call_kernel(
    f: Function, fn: Value, buffers: Value, dims: Value, part: Value, parts: Value, scratch: Value
) -> Value:
    """Call a kernel by address; all arguments are i64 words. Returns the status."""
    address = f.op(PTR, f"inttoptr {fn} to ptr")
    pointers = [f.op(PTR, f"inttoptr {v} to ptr") for v in (buffers, dims, scratch)]
    p, n = f.cast(part, I32), f.cast(parts, I32)
    args = f"{pointers[0]}, {pointers[1]}, {p}, {n}, {pointers[2]}"
    return f.op(I32, f"call i32 {address.text}({args})")


def _write_unit(module: Module) -> Function:
    """unit(pool, part, parts, phase): call the kernel of the step in the pool's block for one part
    of phase - 1, or, where phase is 0, of a step without phases."""
    names = ("part", "parts", "phase")
    f = module.function("irc_unit", [(PTR, "pool"), *((I64, n) for n in names)], linkage="internal")
    pool, (part, parts, phase) = f.params["pool"], (f.params[n] for n in names)
    with f.if_(f.icmp("ne", get_word(f, pool, POOL_ABORT, "monotonic"), 0)):
        f.ret()
    words = (POOL_FN, POOL_BUFFERS, POOL_DIMS, POOL_SCRATCH, POOL_STRIDE)
    fn, buffers, dims, scratch, stride = (get_word(f, pool, w, "monotonic") for w in words)
    mine = f.add(scratch, f.mul(stride, part))
    first, total = (get_word(f, pool, w, "monotonic") for w in (POOL_FIRST, POOL_TOTAL))
    worker = f.add(f.add(f.mul(phase, parts), part), first)
    status = call_kernel(f, fn, buffers, dims, worker, total, mine)
    with f.if_(f.icmp("ne", status, 0)):
        # The lowest failing part is kept: the reported element does not depend on the thread.
        cell = f.or_(f.shl(part, 32), f.cast(status, I64, signed_=False))
        f.op(I64, f"atomicrmw umin {word(f, pool, POOL_FAILURE)}, {cell} monotonic")
    f.ret()
    return f


def _write_polling_unit(module: Module, poll: Function) -> Function:
    """unit(pool, part, parts, phase, block): `irc_unit`, then poll; no part runs where a handler
    raised."""
    unit = _write_unit(module)
    names = ("part", "parts", "phase", "block")
    params = [(PTR, "pool"), *((I64, n) for n in names)]
    f = module.function("irc_polling_unit", params, linkage="internal")
    pool, (part, parts, phase, block) = f.params["pool"], (f.params[n] for n in names)
    f.call_function(unit, pool, part, parts, phase)
    with f.if_(f.icmp("ne", f.call_function(poll, block), 0)):
        set_word(f, pool, POOL_ABORT, 1, "monotonic")
    f.ret()
    return f


def write_part(module: Module, poll: Function) -> Function:
    """part(pool, part, parts, block): run one claimed part of the step in the pool's block; of a
    step in phases, that part of every phase and more, until all are done. block: of polls."""
    unit = _write_polling_unit(module, poll)
    names = ("part", "parts", "block")
    f = module.function("irc_part", [(PTR, "pool"), *((I64, n) for n in names)], linkage="internal")
    pool, (part, parts, block) = f.params["pool"], (f.params[n] for n in names)
    phases = get_word(f, pool, POOL_PHASES, "monotonic")
    with f.if_(f.icmp("eq", phases, 0)):
        f.call_function(unit, pool, part, parts, 0, block)
        f.ret()

    def progress_address(n: Value) -> Value:
        return f.at(pool, f.add(f.mul(n, FAR_PITCH), POOL_FAR), I64)

    # Who comes late begins where the others are.
    began = f.var(I64, f.mul(phases, 2))
    with f.range(0, parts, unroll=1) as n:
        began.set(f.smin(began.get(), get_word(f, progress_address(n), 0)))
    waited = f.var(I64, 0)
    with f.range(f.lshr(began.get(), 1), phases, unroll=1) as phase:
        open_, done = f.mul(phase, 2), f.add(f.mul(phase, 2), 2)
        with f.range(0, parts, unroll=1) as i:
            n = f.add(part, i)
            n = f.select(f.icmp("sge", n, parts), f.sub(n, parts), n)
            mine = progress_address(n)
            with f.if_(f.icmp("eq", get_word(f, mine, 0), open_)):
                order = "acq_rel acquire"
                swap = f"cmpxchg {mine}, {open_}, {f.add(open_, 1)} {order}"
                with f.if_(f.op("i1", f"extractvalue {f.op('{ i64, i1 }', swap)}, 1")):
                    f.call_function(unit, pool, n, parts, f.add(phase, 1), block)
                    set_word(f, mine, 0, done)
        with f.range(0, parts, unroll=1) as n:
            waited.set(0)
            with f.while_(lambda n=n: f.icmp("slt", get_word(f, progress_address(n), 0), done)):
                _wait(f, waited)
    f.ret()
    return f


def write_share(module: Module, part: Function, wake: Function) -> Function:
    """share(pool, parts, wake, block): run the step in the pool's block, all parts of a round;
    waits for them. 1 where a poll found that a handler raised."""
    names = ("parts", "wake", "block")
    params = [(PTR, "pool"), *((I64, n) for n in names)]
    f = module.function("irc_share", params, I64, linkage="internal")
    pool, parts, block = f.params["pool"], f.params["parts"], f.params["block"]
    set_word(f, pool, POOL_FAILURE, NOTHING, "monotonic")
    set_word(f, pool, POOL_ABORT, 0, "monotonic")
    set_word(f, pool, POOL_DONE, 0, "monotonic")
    with f.if_(f.icmp("ne", get_word(f, pool, POOL_PHASES, "monotonic"), 0)):
        with f.range(0, parts, unroll=1) as n:
            set_word(f, f.at(pool, f.mul(n, FAR_PITCH), I64), POOL_FAR, 0, "monotonic")
    old = f.lshr(get_word(f, pool, POOL_TICKET, "monotonic"), 32)
    fresh = f.or_(f.shl(f.add(old, 1), 32), f.shl(parts, 16))
    set_word(f, pool, POOL_TICKET, f.or_(fresh, 1))
    with f.if_(f.icmp("ne", f.params["wake"], 0)):
        # Pairs with the fence of a worker that goes to sleep: one of both sees the other.
        f.line("fence seq_cst")
        with f.if_(f.icmp("ne", get_word(f, pool, POOL_SLEEPERS), 0)):
            f.call_function(wake, pool)
    f.call_function(part, pool, 0, parts, block)
    mine = f.var(I64, 1)
    more = f.var(I64, 1)
    with f.while_(lambda: f.icmp("ne", more.get(), 0)):
        more.set(0)
        n, of = parts_of(f, get_word(f, pool, POOL_TICKET))
        with f.if_(f.icmp("ult", n, of)):
            n, of = parts_of(f, add_word(f, pool, POOL_TICKET, 1))
            with f.if_(f.icmp("ult", n, of)):
                f.call_function(part, pool, n, of, block)
                mine.set(f.add(mine.get(), 1))
                more.set(1)
    waited = f.var(I64, 0)
    theirs = f.sub(parts, mine.get())
    with f.while_(lambda: f.icmp("ne", get_word(f, pool, POOL_DONE), theirs)):
        _wait(f, waited)
    f.ret(get_word(f, pool, POOL_ABORT, "monotonic"))
    return f
