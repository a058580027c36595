"""The native driver's LLVM text: the walk through a step table, shared steps, a worker's life.

Whoever is awake claims the next part of a shared step by one atomic add, the caller included, so
nobody ever waits for a thread that sleeps or was descheduled before it claimed. Claims carry the
step's sequence number: a late worker can only claim a part of the step that is running now, and
the caller does not move on before every claimed part is done.
"""

from __future__ import annotations

from typing import Final

from ..ir.target import Target
from .codegen.emit import Function, Module
from .codegen.values import I32, I64, PTR, Value
from .driver_control import write_control
from .words import (
    BUSY,
    CALL_BUSY,
    CALL_PART,
    CALL_STATUS,
    CALL_STEP,
    CONTROL,
    GANG_BUFFERS,
    GANG_CPU,
    GANG_DIMS,
    GANG_DONE,
    GANG_EPOCH,
    GANG_FAILURE,
    GANG_FN,
    GANG_IDS,
    GANG_MASK,
    GANG_OWNER,
    GANG_SCRATCH,
    GANG_SLEEPERS,
    GANG_SPIN,
    GANG_STOP,
    GANG_STREAK,
    GANG_STRIDE,
    GANG_THREADS,
    GANG_TICKET,
    GANG_UNTIL,
    MASK_WORDS,
    NOTHING,
    SHARED,
    STEP_WORDS,
    WAKE,
    WANTS_GANG,
)

# Pauses of a caller before it gives its core away while it waits for the last parts: a few
# microseconds, the time of an ordinary imbalance.
_YIELD_AFTER: Final = 200
# Calls too short to wake workers for wake them together: the one that follows this many, each of
# which came no later after the one before than that had taken. A burst that ends there has paid
# for one wake (2 to 5 us) in vain; a caller that goes on is helped from then on.
_STREAK: Final = 8
_GAP: Final = 40_000  # ns at most: half of what a worker spins
# Numbers of Linux's system calls.
FUTEX: Final = {"x86_64": 202, "aarch64": 98}
SET_AFFINITY: Final = {"x86_64": 203, "aarch64": 122}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
MXCSR_DEFAULT: Final = 0x1F80


def driver_text(target: Target) -> str:
    """The driver as LLVM assembly."""
    module = Module(target)
    part, wake = _write_part(module), _write_small(module)
    control = write_control(module)
    _write_run(module, _write_share(module, part, wake), _write_spread(module), control)
    _write_work(module, part)
    return module.text()


def _word(f: Function, base: Value, n: int) -> Value:
    return f.at(base, n, I64)


def _get(f: Function, base: Value, n: int, order: str = "acquire") -> Value:
    return f.op(I64, f"load atomic i64, {_word(f, base, n)} {order}, align 8")


def _set(f: Function, base: Value, n: int, value: Value | int, order: str = "release") -> None:
    v = f.as_value(value, I64)
    f.line(f"store atomic {v}, {_word(f, base, n)} {order}, align 8")


def _add(f: Function, base: Value, n: int, value: int, order: str = "acq_rel") -> Value:
    return f.op(I64, f"atomicrmw add {_word(f, base, n)}, i64 {value} {order}")


def _claim_word(f: Function, base: Value, n: int) -> Value:
    """i1: was the word 0, and is it now 1 and ours?"""
    pair = f.op("{ i64, i1 }", f"cmpxchg {_word(f, base, n)}, i64 0, i64 1 acq_rel acquire")
    return f.op("i1", f"extractvalue {pair}, 1")


def _parts(f: Function, ticket: Value) -> tuple[Value, Value]:
    """(next part, parts) of a ticket."""
    return f.and_(ticket, 0xFFFF), f.and_(f.lshr(ticket, 16), 0xFFFF)


def _pause(f: Function) -> None:
    if f.target.arch == "x86_64":
        f.call("llvm.x86.sse2.pause", "void")
    else:
        f.call("llvm.aarch64.hint", "void", f.as_value(1, I32))  # yield


def _swap_mode(f: Function, new: Value | int) -> Value:
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


def _now(f: Function) -> Value:
    """Nanoseconds of CLOCK_MONOTONIC."""
    time = f.stack(16, 8)
    f.call("clock_gettime", I32, f.as_value(1, I32), time)
    return f.add(f.mul(f.load(I64, time), 1_000_000_000), f.load(I64, f.at(time, 1, I64)))


def _follows(f: Function, gang: Value, now: Value) -> Value:
    """1 if a call that finds all workers asleep has followed _STREAK others, else 0. The count then
    begins again: it takes a few calls until the workers are there."""
    follows = f.icmp("sle", now, _get(f, gang, GANG_UNTIL, "monotonic"))
    streak = f.add(_get(f, gang, GANG_STREAK, "monotonic"), 1)
    enough = f.op("i1", f"and {follows}, {f.icmp('ugt', streak, _STREAK).text}")
    kept = f.select(follows, streak, 0)
    _set(f, gang, GANG_STREAK, f.select(enough, f.as_value(0, I64), kept), "monotonic")
    return f.cast(enough, I64, signed_=False)


def _call_kernel(
    f: Function, fn: Value, buffers: Value, dims: Value, part: Value, parts: Value, scratch: Value
) -> Value:
    """Call a kernel by address; all arguments are i64 words. Returns the status."""
    address = f.op(PTR, f"inttoptr {fn} to ptr")
    pointers = [f.op(PTR, f"inttoptr {v} to ptr") for v in (buffers, dims, scratch)]
    p, n = f.cast(part, I32), f.cast(parts, I32)
    args = f"{pointers[0]}, {pointers[1]}, {p}, {n}, {pointers[2]}"
    return f.op(I32, f"call i32 {address.text}({args})")


def _write_part(module: Module) -> Function:
    """part(gang, part, parts): run one claimed part of the step in the gang's block."""
    f = module.function(
        "irc_part", [(PTR, "gang"), (I64, "part"), (I64, "parts")], linkage="internal"
    )
    gang, part, parts = f.params["gang"], f.params["part"], f.params["parts"]
    words = (GANG_FN, GANG_BUFFERS, GANG_DIMS, GANG_SCRATCH, GANG_STRIDE)
    fn, buffers, dims, scratch, stride = (_get(f, gang, w, "monotonic") for w in words)
    mine = f.add(scratch, f.mul(stride, part))
    status = _call_kernel(f, fn, buffers, dims, part, parts, mine)
    with f.if_(f.icmp("ne", status, 0)):
        # The lowest failing part wins, so that the same element is reported whoever ran it.
        cell = f.or_(f.shl(part, 32), f.cast(status, I64, signed_=False))
        f.op(I64, f"atomicrmw umin {_word(f, gang, GANG_FAILURE)}, {cell} monotonic")
    f.ret()
    return f


def _write_share(module: Module, part: Function, wake: Function) -> Function:
    """share(gang, parts, wake): run the step in the gang's block, all parts; waits for them."""
    f = module.function(
        "irc_share", [(PTR, "gang"), (I64, "parts"), (I64, "wake")], linkage="internal"
    )
    gang, parts = f.params["gang"], f.params["parts"]
    _set(f, gang, GANG_FAILURE, NOTHING, "monotonic")
    _set(f, gang, GANG_DONE, 0, "monotonic")
    old = f.lshr(_get(f, gang, GANG_TICKET, "monotonic"), 32)
    fresh = f.or_(f.shl(f.add(old, 1), 32), f.shl(parts, 16))
    _set(f, gang, GANG_TICKET, f.or_(fresh, 1))
    with f.if_(f.icmp("ne", f.params["wake"], 0)):
        # Pairs with the fence of a worker that goes to sleep: one of both sees the other.
        f.line("fence seq_cst")
        with f.if_(f.icmp("ne", _get(f, gang, GANG_SLEEPERS), 0)):
            f.call_function(wake, gang)
    f.call_function(part, gang, 0, parts)
    mine = f.var(I64, 1)
    more = f.var(I64, 1)
    with f.while_(lambda: f.icmp("ne", more.get(), 0)):
        more.set(0)
        n, of = _parts(f, _get(f, gang, GANG_TICKET))
        with f.if_(f.icmp("ult", n, of)):
            n, of = _parts(f, _add(f, gang, GANG_TICKET, 1))
            with f.if_(f.icmp("ult", n, of)):
                f.call_function(part, gang, n, of)
                mine.set(f.add(mine.get(), 1))
                more.set(1)
    waited = f.var(I64, 0)
    theirs = f.sub(parts, mine.get())
    with f.while_(lambda: f.icmp("ne", _get(f, gang, GANG_DONE), theirs)):
        _pause(f)
        waited.set(f.add(waited.get(), 1))
        with f.if_(f.icmp("ugt", waited.get(), _YIELD_AFTER)):
            f.call("sched_yield", I32)
    f.ret()
    return f


def _write_spread(module: Module) -> Function:
    """spread(gang): keep the workers off the caller's CPU, if the caller is not where it was.

    A kernel that wakes a thread likes to put it where its waker runs, in virtual machines even
    when the other CPUs are idle; a worker then waits there until the caller has done all the work.
    """
    f = module.function("irc_spread", [(PTR, "gang")], linkage="internal")
    gang = f.params["gang"]
    cpu = f.cast(f.call("sched_getcpu", I32), I64)
    with f.if_(f.icmp("eq", cpu, _get(f, gang, GANG_CPU, "monotonic"))):
        f.ret()
    with f.if_(f.icmp("uge", cpu, MASK_WORDS * 64)):
        f.ret()
    _set(f, gang, GANG_CPU, cpu, "monotonic")
    mask = f.stack(MASK_WORDS * 8)
    left = f.var(I64, 0)
    for n in range(MASK_WORDS):
        bit = f.shl(1, f.and_(cpu, 63))
        mine = f.select(f.icmp("eq", f.lshr(cpu, 6), n), bit, 0)
        word = f.and_(f.load(I64, _word(f, gang, GANG_MASK + n)), f.not_(mine))
        f.store(word, _word(f, mask, n))
        left.set(f.or_(left.get(), word))
    with f.if_(f.icmp("ne", left.get(), 0)):
        number = f.as_value(SET_AFFINITY[f.target.arch], I64)
        size = f.as_value(MASK_WORDS * 8, I64)
        with f.range(0, f.smax(_get(f, gang, GANG_THREADS), 0), unroll=1) as i:
            who = f.load(I64, f.at(gang, f.add(i, GANG_IDS), I64))
            _system_call(f, number, who, size, _address_of(f, mask))
    f.ret()
    return f


def _write_run(module: Module, share: Function, spread: Function, control: Function) -> None:
    """run(call): the steps of a Call."""
    f = module.function("irc_run", [(PTR, "call")], I32)
    call = f.params["call"]
    with f.if_(f.icmp("eq", _claim_word(f, call, CALL_BUSY), 0)):
        f.ret(BUSY)
    steps, count, scratch, stride, parts, gang_word, wake = (
        f.load(I64, _word(f, call, n)) for n in range(7)
    )
    gang = f.op(PTR, f"inttoptr {gang_word} to ptr")
    team, began, rouse = f.var(I64, 0), f.var(I64, 0), f.var(I64, 0)
    shared = f.op("i1", f"and {f.icmp('ne', gang_word, 0)}, {f.icmp('ugt', parts, 1).text}")
    with f.if_(shared):
        threads = _get(f, gang, GANG_THREADS)
        unstarted = f.icmp("ult", threads, f.sub(parts, 1))
        # Sleeping workers are not waited for, so a gang that is all asleep is no help.
        awake = f.icmp("sgt", threads, _get(f, gang, GANG_SLEEPERS))
        alone = f.op("i1", f"and {f.icmp('eq', wake, 0)}, {f.icmp('sge', threads, 0).text}")
        with f.if_(f.op("i1", f"and {alone}, {f.icmp('eq', awake, 0).text}")):
            began.set(_now(f))
            rouse.set(_follows(f, gang, began.get()))
        wants = f.icmp("ne", f.or_(wake, rouse.get()), 0)
        with f.if_(f.op("i1", f"and {unstarted}, {wants.text}")):
            _set(f, call, CALL_BUSY, 0)
            f.ret(WANTS_GANG)
        with f.if_(f.op("i1", f"or {wants}, {awake.text}")):
            with f.if_(f.icmp("sgt", threads, 0)):
                with f.if_(_claim_word(f, gang, GANG_OWNER)):
                    team.set(SHARED)
                    f.call_function(spread, gang)
    mode = _swap_mode(f, MXCSR_DEFAULT if f.target.arch == "x86_64" else 0)
    table = f.op(PTR, f"inttoptr {steps} to ptr")
    status, failed_part = f.var(I32, 0), f.var(I64, 0)
    i = f.var(I64, 0)
    ok = lambda: f.op(  # noqa: E731
        "i1", f"and {f.icmp('ult', i.get(), count)}, {f.icmp('eq', status.get(), 0).text}"
    )
    with f.while_(ok):
        step = f.at(table, f.mul(i.get(), STEP_WORDS), I64)
        fn, buffers, dims, flags = (f.load(I64, _word(f, step, n)) for n in range(STEP_WORDS))
        with f.if_(f.icmp("ne", f.and_(flags, CONTROL), 0)) as kind:
            i.set(f.add(i.get(), f.call_function(control, fn, buffers, dims, flags)))
            kind.else_()
            with f.if_(f.icmp("ne", f.and_(flags, team.get()), 0)) as branch:
                for n, value in (
                    (GANG_FN, fn),
                    (GANG_BUFFERS, buffers),
                    (GANG_DIMS, dims),
                    (GANG_SCRATCH, scratch),
                    (GANG_STRIDE, stride),
                ):
                    _set(f, gang, n, value, "monotonic")
                f.call_function(share, gang, parts, f.or_(f.and_(flags, WAKE), rouse.get()))
                failure = _get(f, gang, GANG_FAILURE, "monotonic")
                with f.if_(f.icmp("ne", failure, NOTHING)):
                    status.set(f.cast(failure, I32))
                    failed_part.set(f.lshr(failure, 32))
                branch.else_()
                one, zero = f.as_value(1, I64), f.as_value(0, I64)
                status.set(_call_kernel(f, fn, buffers, dims, zero, one, scratch))
            i.set(f.add(i.get(), 1))
    with f.if_(f.icmp("ne", team.get(), 0)):
        _set(f, gang, GANG_OWNER, 0)
    _swap_mode(f, mode)
    with f.if_(f.icmp("ne", began.get(), 0)):
        ended = _now(f)
        soon = f.add(ended, f.smin(f.sub(ended, began.get()), _GAP))
        _set(f, gang, GANG_UNTIL, soon, "monotonic")
    with f.if_(f.icmp("ne", status.get(), 0)):
        f.store(f.cast(status.get(), I64), _word(f, call, CALL_STATUS))
        f.store(f.sub(i.get(), 1), _word(f, call, CALL_STEP))
        f.store(failed_part.get(), _word(f, call, CALL_PART))
    _set(f, call, CALL_BUSY, 0)
    f.ret(status.get())


def _write_work(module: Module, part: Function) -> None:
    """work(gang): a worker's life: claim parts, spin for a while, sleep, until told to stop."""
    f = module.function("irc_work", [(PTR, "gang")], I32)
    gang = f.params["gang"]
    _swap_mode(f, MXCSR_DEFAULT if f.target.arch == "x86_64" else 0)
    limit = f.load(I64, _word(f, gang, GANG_SPIN))
    idle = f.var(I64, 0)

    def open_part() -> Value:
        n, of = _parts(f, _get(f, gang, GANG_TICKET))
        return f.icmp("ult", n, of)

    with f.while_(lambda: f.icmp("eq", _get(f, gang, GANG_STOP), 0)):
        with f.if_(open_part()) as branch:
            n, of = _parts(f, _add(f, gang, GANG_TICKET, 1))
            with f.if_(f.icmp("ult", n, of)):
                f.call_function(part, gang, n, of)
                _add(f, gang, GANG_DONE, 1)
                idle.set(0)
            branch.else_()
            _pause(f)
            idle.set(f.add(idle.get(), 1))
            with f.if_(f.icmp("ugt", idle.get(), limit)):
                idle.set(0)
                epoch = f.cast(_get(f, gang, GANG_EPOCH), I32)
                _add(f, gang, GANG_SLEEPERS, 1)
                f.line("fence seq_cst")
                with f.if_(open_part()) as late:
                    late.else_()
                    with f.if_(f.icmp("eq", _get(f, gang, GANG_STOP), 0)):
                        _futex(f, gang, _FUTEX_WAIT_PRIVATE, epoch)
                _add(f, gang, GANG_SLEEPERS, -1)
    f.ret(0)


def _system_call(f: Function, number: Value | int, *args: Value | int) -> None:
    """libc's syscall with six arguments, as words: one declaration serves all."""
    words = [f.as_value(a, I64) for a in (number, *args, *[0] * (6 - len(args)))]
    f.call("syscall", I64, *words)


def _address_of(f: Function, pointer: Value) -> Value:
    return f.op(I64, f"ptrtoint {pointer} to i64")


def _futex(f: Function, gang: Value, operation: int, value: Value | int) -> None:
    word = _address_of(f, _word(f, gang, GANG_EPOCH))
    v = f.cast(value, I64, signed_=False) if isinstance(value, Value) else value
    _system_call(f, FUTEX[f.target.arch], word, operation, v)


def _write_small(module: Module) -> Function:
    """wake(gang), which is returned; spin(n), swap_mode(new)."""
    wake = module.function("irc_wake", [(PTR, "gang")], I32)
    _add(wake, wake.params["gang"], GANG_EPOCH, 1, "seq_cst")
    _futex(wake, wake.params["gang"], _FUTEX_WAKE_PRIVATE, 0x7FFFFFFF)
    wake.ret(0)
    f = module.function("irc_spin", [(I64, "n")], I32)
    with f.range(0, f.params["n"], unroll=1):
        _pause(f)
    f.ret(0)
    f = module.function("irc_swap_mode", [(I32, "new")], I32)
    f.ret(_swap_mode(f, f.params["new"]))
    return wake
