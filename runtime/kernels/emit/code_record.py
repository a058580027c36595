"""Kernels that differ in numbers share code: functions read these from a record of the kernel.

A record is an array of addresses: tables of numbers, one for each kind of function, then the
functions that are called through it. A function that reads its numbers there has the same text in
each kernel, and is compiled once (runtime/jit/equal_functions.py; figures in
docs/dev/tuning/shared-kernel-code.md). A call through the record does not name the function, so
text around it is the same for kernels that call different ones.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Protocol

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import AssemblyFunction, Function, Module
from ...llvmir.values import F32, I64, PTR, Value, round_to_f32, split_type

_WORD_BYTES: Final = 8
# Kinds of functions, each with a table of its own, so that the table of one kind does not depend on
# what the others read.
_KINDS: Final = ("loops", "copy", "tile", "epilogue")
# Functions of this kind read a number where they use it: they have more of them than registers.
_READS_AT_USE: Final = "loops"


class CodeRecord:
    """The record of one kernel, filled while its functions are written. Keys of numbers begin with
    the kind of the function, then a dot."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._tables: dict[str, dict[str, int]] = {kind: {} for kind in _KINDS}
        self._targets: list[str] = []
        self._values: dict[tuple[Function, str], Value] = {}

    def integer(self, f: Function, key: str, x: int) -> Value:
        """The number x, which functions of other kernels may read as another one, by its key."""
        return self._read(f, key, x, I64)

    def constant(self, f: Function, key: str, x: float, type_: str) -> Value:
        """The constant x of a scalar program: f32 or an integer, in all lanes."""
        element, lanes = split_type(type_)
        bits = int.from_bytes(struct.pack("<f", round_to_f32(x)), "little")
        scalar = self._read(f, key, bits if element == F32 else int(x), element)
        if lanes == 1:
            return scalar
        name = f"{key} {type_}"
        if (f, name) not in self._values:
            one = f.at_entry(type_, f"insertelement {type_} poison, {scalar}, i32 0")
            lane = f"<{lanes} x i32> zeroinitializer"
            text = f"shufflevector {one}, {type_} poison, {lane}"
            self._values[f, name] = f.at_entry(type_, text)
        return self._values[f, name]

    def table(self, f: Function, key: str, words: Sequence[int]) -> Value:
        """The address of words that follow one another in the record's numbers."""
        kind = key.partition(".")[0]
        keys = [f"{key}.{i}" for i in range(len(words))]
        for each, word in zip(keys, words, strict=True):
            self._add(each, word)
        offset = _WORD_BYTES * list(self._tables[kind]).index(keys[0])
        return f.offset(self._table(f, kind), offset)

    def call(self, f: Function, callee: Function | AssemblyFunction, *args: Value | int) -> None:
        """Call a function of this kernel through its address."""
        f.call_function(callee, *args, address=self.address(f, f"@{callee.symbol}"))

    def address(self, f: Function, symbol: str) -> Value:
        """The address of a function or of a table, by its name in LLVM's text."""
        if symbol not in self._targets:
            self._targets.append(symbol)
        number = len(_KINDS) + self._targets.index(symbol)
        return f.load(PTR, f.offset(self._record(f), _WORD_BYTES * number))

    def open_frame(self, f: Function, size: int) -> Value:
        """A frame of `size` bytes behind the address of the record."""
        memory = f.stack(_WORD_BYTES + size)
        f.store(f.params["record"], memory)
        return f.offset(memory, _WORD_BYTES)

    def store_in(self, f: Function) -> Value:
        """Write a complete record to the stack of the kernel's entry. Returns its address."""
        tables = [self.module.table([*t.values()], I64) for t in self._tables.values()]
        targets = [*tables, *(Value(PTR, symbol) for symbol in self._targets)]
        record = f.stack(_WORD_BYTES * len(targets), _WORD_BYTES)
        for i, target in enumerate(targets):
            f.store(target, f.offset(record, _WORD_BYTES * i))
        return record

    def _read(self, f: Function, key: str, x: int, type_: str) -> Value:
        kind = key.partition(".")[0]
        offset = _WORD_BYTES * self._add(key, x)
        if kind == _READS_AT_USE:
            return f.load(type_, f.offset(self._table(f, kind), offset))
        if (f, key) not in self._values:
            at = f.at_entry(PTR, f"getelementptr i8, {self._table(f, kind)}, i64 {offset}")
            self._values[f, key] = f.at_entry(type_, f"load {type_}, {at}")
        return self._values[f, key]

    def _add(self, key: str, x: int) -> int:
        """A number's index in the table of its kind."""
        table = self._tables[key.partition(".")[0]]
        if table.setdefault(key, x) != x:
            raise ValueError(f"{key} is {table[key]} and {x}")
        return list(table).index(key)

    def _table(self, f: Function, kind: str) -> Value:
        if (f, kind) not in self._values:
            offset = _WORD_BYTES * _KINDS.index(kind)
            at = f.at_entry(PTR, f"getelementptr i8, {self._record(f)}, i64 {offset}")
            self._values[f, kind] = f.at_entry(PTR, f"load ptr, {at}")
        return self._values[f, kind]

    def _record(self, f: Function) -> Value:
        """The record's address: a parameter, or in front of the frame."""
        if "record" in f.params:
            return f.params["record"]
        if (f, "") not in self._values:
            frame = f.params["frame"]
            at = f.at_entry(PTR, f"getelementptr i8, {frame}, i64 {-_WORD_BYTES}")
            self._values[f, ""] = f.at_entry(PTR, f"load ptr, {at}")
        return self._values[f, ""]


class Constants(Protocol):
    """Numbers of a scalar program that a function reads where it would have them in its code."""

    def constant(self, number: int, x: float, type_: str) -> Value:
        """The constant of this number in the program's code, in all lanes."""
        ...

    def table(self, number: int, words: Sequence[int]) -> Value:
        """The address of a table of 64-bit words."""
        ...


@dataclass(frozen=True)
class RecordConstants:
    """Constants of a scalar program in the record of a kernel, among the numbers of a kind."""

    f: Function
    record: CodeRecord
    kind: str

    def constant(self, number: int, x: float, type_: str) -> Value:
        """See Constants."""
        return self.record.constant(self.f, f"{self.kind}.c{number}.{type_}", x, type_)

    def table(self, number: int, words: Sequence[int]) -> Value:
        """See Constants."""
        return self.record.table(self.f, f"{self.kind}.t{number}", words)
