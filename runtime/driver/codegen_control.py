"""Control flow in the driver's walk: loops that count, move addresses and test conditions, and
branches. All state of a loop is in its block (abi.py); the addresses that a loop advances are
restored when it is left."""

from __future__ import annotations

from ..llvmir.builder import Function, Module
from ..llvmir.values import I32, I64, PTR, Value
from .abi import (
    COUNT,
    COUNT_SHORT,
    GO,
    INDEX,
    INDEX_SHORT,
    KIND_BRANCH,
    KIND_LOOP,
    KIND_LOOP_END,
    KIND_MASK,
    KIND_SHIFT,
    LOOP_BACK,
    LOOP_DONE,
    LOOP_EXIT,
    LOOP_LIMIT,
    LOOP_MOVES,
    LOOP_WORDS,
)


def write_control(module: Module) -> Function:
    """control(way, buffers, dims, flags): by how many steps to go on from this one."""
    names = ("way", "buffers", "dims", "flags")
    f = module.function("irc_control", [(I64, n) for n in names], I64, linkage="internal")
    way, flags = f.params["way"], f.params["flags"]
    kind = f.and_(f.lshr(flags, KIND_SHIFT), KIND_MASK)
    step = _ControlStepCode(f, f.params["buffers"], flags)
    with f.if_(f.icmp("eq", kind, KIND_LOOP_END)):
        _emit_loop_end(f, step, f.op(PTR, f"inttoptr {way} to ptr"))
    with f.if_(f.icmp("eq", kind, KIND_LOOP)):
        _loop(f, step, f.op(PTR, f"inttoptr {way} to ptr"))
    with f.if_(f.icmp("eq", kind, KIND_BRANCH)):
        with f.if_(f.icmp("ne", step.go(), 0)):
            f.ret(1)
    f.ret(way)
    return f


class _ControlStepCode:
    """The buffers of a control step: count, condition, index, each where its flag is set."""

    def __init__(self, f: Function, buffers: Value, flags: Value) -> None:
        self.f, self.flags = f, flags
        self.table = f.op(PTR, f"inttoptr {buffers} to ptr")

    def has(self, flag: int) -> Value:
        return self.f.icmp("ne", self.f.and_(self.flags, flag), 0)

    def address(self, *before: int) -> Value:
        """The address behind those of the buffers whose flags are given."""
        f, index = self.f, self.f.as_value(0, I64)
        for flag in before:
            index = f.add(index, f.select(self.has(flag), f.as_value(1, I64), 0))
        word = f.load(I64, f.at(self.table, index, I64))
        return f.op(PTR, f"inttoptr {word} to ptr")

    def go(self) -> Value:
        """The condition, as i64; 1 where there is none."""
        f, found = self.f, self.f.var(I64, 1)
        with f.if_(self.has(GO)):
            byte = f.op("i8", f"load i8, {self.address(COUNT)}, align 1")
            found.set(f.cast(byte, I64, signed_=False))
        return found.get()

    def store_index(self, number: Value | int) -> None:
        """Hand out the iteration's number."""
        f = self.f
        with f.if_(self.has(INDEX)):
            to, n = self.address(COUNT, GO), f.as_value(number, I64)
            with f.if_(self.has(INDEX_SHORT)) as wide:
                f.store(f.cast(n, I32), to)
                wide.else_()
                f.store(n, to)


def _loop(f: Function, step: _ControlStepCode, block: Value) -> None:
    dims = f.op(PTR, f"inttoptr {f.params['dims']} to ptr")
    limit = f.var(I64, f.load(I64, dims))
    with f.if_(step.has(COUNT)):
        source, count = step.address(), f.var(I64, 0)
        with f.if_(step.has(COUNT_SHORT)) as wide:
            count.set(f.cast(f.load(I32, source), I64))
            wide.else_()
            count.set(f.load(I64, source))
        with f.if_(f.icmp("sge", count.get(), 0)):
            limit.set(f.smin(limit.get(), count.get()))
    with f.if_(f.icmp("eq", step.go(), 0)):
        limit.set(0)
    f.store(limit.get(), f.at(block, LOOP_LIMIT, I64))
    f.store(f.as_value(0, I64), f.at(block, LOOP_DONE, I64))
    with f.if_(f.icmp("sle", limit.get(), 0)):
        f.ret(f.load(I64, f.at(block, LOOP_EXIT, I64)))
    step.store_index(0)
    f.ret(1)


def _emit_loop_end(f: Function, step: _ControlStepCode, block: Value) -> None:
    before = f.load(I64, f.at(block, LOOP_DONE, I64))
    done = f.add(before, 1)
    moves = f.load(I64, f.at(block, LOOP_MOVES, I64))
    with f.if_(f.icmp("slt", done, f.load(I64, f.at(block, LOOP_LIMIT, I64)))):
        with f.if_(f.icmp("ne", step.go(), 0)):
            f.store(done, f.at(block, LOOP_DONE, I64))
            _move(f, block, moves, 1)
            step.store_index(done)
            f.ret(f.load(I64, f.at(block, LOOP_BACK, I64)))
    _move(f, block, moves, f.sub(0, before))
    f.ret(1)


def _move(f: Function, block: Value, moves: Value, times: Value | int) -> None:
    """Add `times` its stride to every address that moves."""
    with f.range(0, moves, unroll=1) as i:
        at = f.at(block, f.add(f.mul(i, 2), LOOP_WORDS), I64)
        address_slot = f.op(PTR, f"inttoptr {f.load(I64, at)} to ptr")
        by = f.mul(f.load(I64, f.at(at, 1, I64)), times)
        f.store(f.add(f.load(I64, address_slot), by), address_slot)
