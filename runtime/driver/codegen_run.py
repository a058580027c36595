"""The native driver's LLVM text: the walk through a step table, a worker's life. How they share a
step is in codegen_sharing.py.
"""

from __future__ import annotations

from typing import Final

from ...plan.target import Target
from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import I32, I64, PTR, Value
from ..machine.platforms.platform_interface import SystemName
from .abi import (
    ASSERT_FAILED,
    BUSY,
    CALL_BUSY,
    CALL_MODE,
    CALL_PART,
    CALL_STATUS,
    CALL_STEP,
    CONTROL,
    FLUSH,
    INTERRUPTED,
    LONG_STEP,
    MASK_WORDS,
    NEEDS_WORKERS,
    NOWHERE,
    POOL_CPU,
    POOL_DONE,
    POOL_EPOCH,
    POOL_FLUSH,
    POOL_IDS,
    POOL_MASK,
    POOL_OWNER,
    POOL_SLEEPERS,
    POOL_SPIN,
    POOL_STOP,
    POOL_STREAK,
    POOL_THREADS,
    POOL_TICKET,
    POOL_UNTIL,
    SHARED,
    STEP_WORDS,
    WAKE,
)
from .codegen_control import write_control
from .codegen_polling import write_poll, write_run_polling
from .codegen_sharing import (
    add_word,
    claim_word,
    get_word,
    parts_of,
    pause,
    set_word,
    word,
    write_part,
)
from .codegen_steps import write_own_step, write_shared_step
from .codegen_system import (
    address_of,
    read_clock,
    system_call,
    wait_while_equal,
    wake_all,
    write_system_calls,
)
from .float_mode import default_mode, flush_mode, swap_mode

# Calls too short to wake workers for wake them together: the one that follows this many, each of
# which came no later after the one before than that had taken. A burst that ends there has paid
# for one wake in vain; a caller that continues is helped from then on
# (docs/dev/tuning/thread-wake.md).
_MIN_WAKE_STREAK: Final = 8
_MAX_WAKE_GAP_NS: Final = 40_000  # ns at most: half of what a worker spins
# A call that polls does so behind each LONG_STEP step, and behind this many steps (a power of two):
# reading the clock takes as long as a small step.
_POLL_STEPS: Final = 16
# Numbers of Linux's system call.
SET_AFFINITY: Final = {"x86_64": 203, "aarch64": 122}


def driver_text(target: Target, system: SystemName = "linux") -> str:
    """The driver as LLVM assembly, for a system's functions."""
    module = Module(target)
    write_system_calls(module, system)
    poll = write_poll(module)
    part, wake = write_part(module, poll), _write_small(module)
    own, shared = write_own_step(module, poll), write_shared_step(module, part, wake)
    walk = _write_walk(
        module, own, shared, _write_spread(module, system), write_control(module), poll
    )
    _write_run(module, walk)
    write_run_polling(module, walk)
    _write_work(module, part)
    return module.text()


def _set_flushing(f: Function, flushing: StackVariable, wanted: Value) -> None:
    """Switch between the default mode and that which flushes denormals. flushing: FLUSH or 0, the
    mode now; wanted: that of the next kernel. Writing the control word costs more than the test."""
    with f.if_(f.icmp("ne", wanted, flushing.get())):
        flushes = f.icmp("ne", wanted, 0)
        keep, flush = default_mode(f.target.arch), flush_mode(f.target.arch)
        swap_mode(f, f.select(flushes, f.as_value(flush, I32), keep))
        flushing.set(wanted)


def _count_quick_calls(f: Function, pool: Value, now: Value) -> Value:
    """1 if a call that finds all workers asleep has followed _STREAK others, else 0. The count then
    begins again: it takes a few calls until the workers are there."""
    follows = f.icmp("sle", now, get_word(f, pool, POOL_UNTIL, "monotonic"))
    streak = f.add(get_word(f, pool, POOL_STREAK, "monotonic"), 1)
    enough = f.op("i1", f"and {follows}, {f.icmp('ugt', streak, _MIN_WAKE_STREAK).text}")
    kept = f.select(follows, streak, 0)
    set_word(f, pool, POOL_STREAK, f.select(enough, f.as_value(0, I64), kept), "monotonic")
    return f.cast(enough, I64, signed_=False)


def _write_spread(module: Module, system: SystemName) -> Function:
    """spread(pool): keep the workers off the caller's CPU, if the caller is not where it was.

    A kernel that wakes a thread likes to put it where its waker runs, in virtual machines even
    when the other CPUs are idle; a worker then waits there until the caller has done all the work.
    Only Linux lets a thread choose other threads' CPUs by their numbers.
    """
    f = module.function("irc_spread", [(PTR, "pool")], linkage="internal")
    if system != "linux":
        f.ret()
        return f
    pool = f.params["pool"]
    cpu = f.cast(f.call("sched_getcpu", I32), I64)
    with f.if_(f.icmp("eq", cpu, get_word(f, pool, POOL_CPU, "monotonic"))):
        f.ret()
    with f.if_(f.icmp("uge", cpu, MASK_WORDS * 64)):
        f.ret()
    set_word(f, pool, POOL_CPU, cpu, "monotonic")
    mask = f.stack(MASK_WORDS * 8)
    left = f.var(I64, 0)
    for n in range(MASK_WORDS):
        bit = f.shl(1, f.and_(cpu, 63))
        mine = f.select(f.icmp("eq", f.lshr(cpu, 6), n), bit, 0)
        bits = f.and_(f.load(I64, word(f, pool, POOL_MASK + n)), f.not_(mine))
        f.store(bits, word(f, mask, n))
        left.set(f.or_(left.get(), bits))
    with f.if_(f.icmp("ne", left.get(), 0)):
        number = f.as_value(SET_AFFINITY[f.target.arch], I64)
        size = f.as_value(MASK_WORDS * 8, I64)
        with f.range(0, f.smax(get_word(f, pool, POOL_THREADS), 0), unroll=1) as i:
            who = f.load(I64, f.at(pool, f.add(i, POOL_IDS), I64))
            system_call(f, number, who, size, address_of(f, mask))
    f.ret()
    return f


def _write_run(module: Module, walk: Function) -> None:
    """run(call): the steps of a Call."""
    f = module.function("irc_run", [(PTR, "call")], I32)
    f.ret(f.call_function(walk, f.params["call"], 0))


def _write_walk(
    module: Module,
    own_step: Function,
    shared_step: Function,
    spread: Function,
    control: Function,
    poll: Function,
) -> Function:
    """walk(call, block): the steps of a Call. block: of polls, or 0."""
    f = module.function("irc_walk", [(PTR, "call"), (I64, "block")], I32, linkage="internal")
    call, block = f.params["call"], f.params["block"]
    with f.if_(f.icmp("eq", claim_word(f, call, CALL_BUSY), 0)):
        f.ret(BUSY)
    steps, count, scratch, stride, parts, pool_word, wake = (
        f.load(I64, word(f, call, n)) for n in range(7)
    )
    pool = f.op(PTR, f"inttoptr {pool_word} to ptr")
    team, began, wake_pending = f.var(I64, 0), f.var(I64, 0), f.var(I64, 0)
    shared = f.op("i1", f"and {f.icmp('ne', pool_word, 0)}, {f.icmp('ugt', parts, 1).text}")
    with f.if_(shared):
        threads = get_word(f, pool, POOL_THREADS)
        unstarted = f.icmp("ult", threads, f.sub(parts, 1))
        # Sleeping workers are not waited for, so sleeping workers do not help.
        awake = f.icmp("sgt", threads, get_word(f, pool, POOL_SLEEPERS))
        alone = f.op("i1", f"and {f.icmp('eq', wake, 0)}, {f.icmp('sge', threads, 0).text}")
        with f.if_(f.op("i1", f"and {alone}, {f.icmp('eq', awake, 0).text}")):
            began.set(read_clock(f))
            wake_pending.set(_count_quick_calls(f, pool, began.get()))
        wants = f.icmp("ne", f.or_(wake, wake_pending.get()), 0)
        with f.if_(f.op("i1", f"and {unstarted}, {wants.text}")):
            set_word(f, call, CALL_BUSY, 0)
            f.ret(NEEDS_WORKERS)
        with f.if_(f.op("i1", f"or {wants}, {awake.text}")):
            with f.if_(f.icmp("sgt", threads, 0)):
                with f.if_(claim_word(f, pool, POOL_OWNER)):
                    team.set(SHARED)
                    f.call_function(spread, pool)
    mode = swap_mode(f, default_mode(f.target.arch))
    flushing = f.var(I64, 0)
    table = f.op(PTR, f"inttoptr {steps} to ptr")
    status, failed_part = f.var(I32, 0), f.var(I64, 0)
    i, passed = f.var(I64, 0), f.var(I64, 0)
    ok = lambda: f.op(  # noqa: E731
        "i1", f"and {f.icmp('ult', i.get(), count)}, {f.icmp('eq', status.get(), 0).text}"
    )
    with f.while_(ok):
        step = f.at(table, f.mul(i.get(), STEP_WORDS), I64)
        words = [f.load(I64, word(f, step, n)) for n in range(STEP_WORDS)]
        fn, buffers, dims, flags = words
        with f.if_(f.icmp("ne", f.and_(flags, CONTROL), 0)) as kind:
            way = f.call_function(control, fn, buffers, dims, flags)
            with f.if_(f.icmp("eq", way, NOWHERE)) as goes:
                status.set(ASSERT_FAILED)
                i.set(f.add(i.get(), 1))
                goes.else_()
                i.set(f.add(i.get(), way))
            kind.else_()
            _set_flushing(f, flushing, f.and_(flags, FLUSH))
            with f.if_(f.icmp("ne", f.and_(flags, team.get()), 0)) as branch:
                rounds = (parts, stride, f.or_(f.and_(flags, WAKE), wake_pending.get()))
                found = f.call_function(shared_step, pool, *words, scratch, *rounds, block)
                status.set(f.cast(found, I32))
                failed_part.set(f.lshr(found, 32))
                branch.else_()
                status.set(f.call_function(own_step, *words, scratch, block))
            i.set(f.add(i.get(), 1))
        with f.if_(f.icmp("ne", block, 0)):
            passed.set(f.add(passed.get(), 1))
            is_kernel = f.icmp("eq", f.and_(flags, CONTROL), 0)
            is_long = f.op(
                "i1", f"and {is_kernel}, {f.icmp('ne', f.and_(flags, LONG_STEP), 0).text}"
            )
            due = f.icmp("eq", f.and_(passed.get(), _POLL_STEPS - 1), 0)
            with f.if_(f.op("i1", f"or {is_long}, {due.text}")):
                with f.if_(f.icmp("ne", f.call_function(poll, block), 0)):
                    status.set(INTERRUPTED)
    with f.if_(f.icmp("ne", team.get(), 0)):
        set_word(f, pool, POOL_OWNER, 0)
    last = swap_mode(f, mode)
    f.store(f.cast(last, I64, signed_=False), word(f, call, CALL_MODE))
    with f.if_(f.icmp("ne", began.get(), 0)):
        ended = read_clock(f)
        soon = f.add(ended, f.smin(f.sub(ended, began.get()), _MAX_WAKE_GAP_NS))
        set_word(f, pool, POOL_UNTIL, soon, "monotonic")
    with f.if_(f.icmp("ne", status.get(), 0)):
        f.store(f.cast(status.get(), I64), word(f, call, CALL_STATUS))
        f.store(f.sub(i.get(), 1), word(f, call, CALL_STEP))
        f.store(failed_part.get(), word(f, call, CALL_PART))
    set_word(f, call, CALL_BUSY, 0)
    f.ret(status.get())
    return f


def _write_work(module: Module, part: Function) -> None:
    """work(pool): a worker's life: claim parts, spin for a while, sleep, until the stop flag is
    set."""
    f = module.function("irc_work", [(PTR, "pool")], I32)
    pool = f.params["pool"]
    swap_mode(f, default_mode(f.target.arch))
    flushing = f.var(I64, 0)
    limit = f.load(I64, word(f, pool, POOL_SPIN))
    idle = f.var(I64, 0)

    def open_part() -> Value:
        n, of = parts_of(f, get_word(f, pool, POOL_TICKET))
        return f.icmp("ult", n, of)

    with f.while_(lambda: f.icmp("eq", get_word(f, pool, POOL_STOP), 0)):
        with f.if_(open_part()) as branch:
            n, of = parts_of(f, add_word(f, pool, POOL_TICKET, 1))
            with f.if_(f.icmp("ult", n, of)):
                _set_flushing(f, flushing, get_word(f, pool, POOL_FLUSH, "monotonic"))
                f.call_function(part, pool, n, of, 0)
                add_word(f, pool, POOL_DONE, 1)
                idle.set(0)
            branch.else_()
            pause(f)
            idle.set(f.add(idle.get(), 1))
            with f.if_(f.icmp("ugt", idle.get(), limit)):
                idle.set(0)
                epoch = f.cast(get_word(f, pool, POOL_EPOCH), I32)
                add_word(f, pool, POOL_SLEEPERS, 1)
                f.line("fence seq_cst")
                with f.if_(open_part()) as late:
                    late.else_()
                    with f.if_(f.icmp("eq", get_word(f, pool, POOL_STOP), 0)):
                        wait_while_equal(f, word(f, pool, POOL_EPOCH), epoch)
                add_word(f, pool, POOL_SLEEPERS, -1)
    swap_mode(f, default_mode(f.target.arch))
    f.ret(0)


def _write_small(module: Module) -> Function:
    """wake(pool), which is returned; spin(n)."""
    wake = module.function("irc_wake", [(PTR, "pool")], I32)
    add_word(wake, wake.params["pool"], POOL_EPOCH, 1, "seq_cst")
    wake_all(wake, word(wake, wake.params["pool"], POOL_EPOCH))
    wake.ret(0)
    f = module.function("irc_spin", [(I64, "n")], I32)
    with f.range(0, f.params["n"], unroll=1):
        pause(f)
    f.ret(0)
    return wake
