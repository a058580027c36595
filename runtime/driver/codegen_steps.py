"""One step of a kernel in the native driver: by its caller alone, or shared with the pool; in one
piece, in phases, or in rounds between which the caller polls for signals."""

from __future__ import annotations

from ..llvmir.builder import Function, Module
from ..llvmir.values import I32, I64, PTR, Value
from .abi import (
    CUT,
    FLUSH,
    INTERRUPTED,
    NOTHING,
    PARTS_MASK,
    PARTS_SHIFT,
    PHASES_SHIFT,
    POOL_BUFFERS,
    POOL_DIMS,
    POOL_FAILURE,
    POOL_FIRST,
    POOL_FLUSH,
    POOL_FN,
    POOL_PHASES,
    POOL_SCRATCH,
    POOL_STRIDE,
    POOL_TOTAL,
)
from .codegen_sharing import call_kernel, get_word, set_word, write_share

_STEP = ("fn", "buffers", "dims", "flags", "scratch")


def _is_cut(f: Function) -> Value:
    return f.icmp("ne", f.and_(f.params["flags"], CUT), 0)


def write_own_step(module: Module, poll: Function) -> Function:
    """own_step(fn, buffers, dims, flags, scratch, block): the status of a kernel that the caller
    runs alone; where it polls, in rounds or phases."""
    names = (*_STEP, "block")
    f = module.function("irc_own_step", [(I64, n) for n in names], I32, linkage="internal")
    fn, buffers, dims, flags, scratch, block = (f.params[n] for n in names)
    pieces = f.lshr(flags, PHASES_SHIFT)
    polls = f.op("i1", f"and {f.icmp('ne', block, 0)}, {f.icmp('ne', pieces, 0).text}")
    zero, one = f.as_value(0, I64), f.as_value(1, I64)
    with f.if_(polls):
        cut = _is_cut(f)
        first, total = f.select(cut, zero, one), f.select(cut, pieces, one)
        with f.range(0, pieces, unroll=1) as n:
            worker = f.add(n, first)
            status = call_kernel(f, fn, buffers, dims, worker, total, scratch)
            with f.if_(f.icmp("ne", status, 0)):
                f.ret(status)
            with f.if_(f.icmp("ne", f.call_function(poll, block), 0)):
                f.ret(INTERRUPTED)
        f.ret(0)
    f.ret(call_kernel(f, fn, buffers, dims, zero, one, scratch))
    return f


def write_shared_step(module: Module, part: Function, wake: Function) -> Function:
    """shared_step(pool, fn, buffers, dims, flags, scratch, parts, stride, wake, block): run a
    kernel by all threads; the failing part << 32 | its status, or 0."""
    share = write_share(module, part, wake)
    names = (*_STEP, "parts", "stride", "wake", "block")
    params = [(PTR, "pool"), *((I64, n) for n in names)]
    f = module.function("irc_shared_step", params, I64, linkage="internal")
    pool, flags, block = f.params["pool"], f.params["flags"], f.params["block"]
    zero, one = f.as_value(0, I64), f.as_value(1, I64)
    pieces, cut = f.lshr(flags, PHASES_SHIFT), _is_cut(f)
    own = f.and_(f.lshr(flags, PARTS_SHIFT), PARTS_MASK)
    parts = f.select(f.icmp("eq", own, 0), f.params["parts"], own)
    rounds = f.select(cut, pieces, one)
    for n, value in (
        (POOL_FN, f.params["fn"]),
        (POOL_BUFFERS, f.params["buffers"]),
        (POOL_DIMS, f.params["dims"]),
        (POOL_SCRATCH, f.params["scratch"]),
        (POOL_STRIDE, f.params["stride"]),
        (POOL_PHASES, f.select(cut, zero, pieces)),
        (POOL_TOTAL, f.mul(parts, rounds)),
        (POOL_FLUSH, f.and_(flags, FLUSH)),
    ):
        set_word(f, pool, n, value, "monotonic")
    with f.range(0, rounds, unroll=1) as n:
        set_word(f, pool, POOL_FIRST, f.mul(n, parts), "monotonic")
        ended = f.call_function(share, pool, parts, f.params["wake"], block)
        failure = get_word(f, pool, POOL_FAILURE, "monotonic")
        with f.if_(f.icmp("ne", failure, NOTHING)):
            f.ret(failure)
        with f.if_(f.icmp("ne", ended, 0)):
            f.ret(INTERRUPTED & 0xFFFFFFFF)
    f.ret(0)
    return f
