"""Our few words of LLVM: Module and Function write LLVM assembly text.

A Function appends one line per instruction and hands out typed Values. Local variables are
allocas (LLVM's SROA turns them into registers), so loops need no phi nodes. Integer arithmetic on
constants is folded while writing; a loop or branch whose outcome is known writes no control flow.
Names come from counters: a model's names never reach LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from ...plan.target import Target
from . import values
from .half_casts import HalfCasts
from .values import I1, I32, I64, PTR, Value, bytes_of, integer

Int = Value | int
Unroll = int | Literal["full"] | None
Linkage = Literal["", "internal"]

_SYSTEM_V = "x86_64_sysvcc"


class Module:
    """One LLVM module: functions, declarations that make themselves, constants, loop metadata."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._functions: dict[str, Function] = {}
        self._assembly: dict[str, AssemblyFunction] = {}
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._metadata: list[str] = []
        self._unrolls: dict[Unroll, str] = {}
        self._stream: int | None = None

    def function(
        self,
        name: str,
        params: Sequence[tuple[str, str]] = (),
        returns: str = "void",
        *,
        attributes: str = "nounwind",
        linkage: Linkage = "",
    ) -> Function:
        """A new function. params: (type with attributes such as "ptr noalias", name) pairs.

        attributes: in LLVM's syntax, e.g. "nounwind noinline" or "nounwind alwaysinline".
        """
        if name in self._functions:
            raise ValueError(f"function {name} exists already")
        made = Function(self, name, params, returns, attributes, linkage)
        self._functions[name] = made
        return made

    def assembly_function(
        self,
        stem: str,
        params: Sequence[tuple[str, str]],
        lines: Sequence[str],
        returns: str = "void",
    ) -> AssemblyFunction:
        """A function in x86-64 assembly, AT&T's syntax, which takes its arguments and returns its
        result as System V's calling convention says, on each system."""
        made = AssemblyFunction(self.unique(stem), params, lines, returns)
        self._assembly[made.name] = made
        return made

    def define_once(self, name: str, write: Callable[[Module, str], Function]) -> Function:
        """The function of that name, written by `write(module, name)` at the first call."""
        return self._functions.get(name) or write(self, name)

    def unique(self, stem: str) -> str:
        """A function name not yet taken: stem, or stem.N."""
        name, n = stem, 0
        while name in self._functions or name in self._assembly:
            n += 1
            name = f"{stem}.{n}"
        return name

    def declare(self, name: str, returns: str, types: Sequence[str]) -> None:
        """Declare an outside function or intrinsic; the same again is fine."""
        if name not in self._functions:
            self._declarations[name] = f"declare {returns} @{name}({', '.join(types)})"

    def table(self, xs: Sequence[float], element: str, align: int = 64) -> Value:
        """A constant array in read-only memory; equal tables are one. Returns its ptr."""
        cells = ", ".join(str(values.number(x, element)) for x in xs)
        text = f"[{len(xs)} x {element}] [{cells}], align {align}"
        if text not in self._globals:
            self._globals[text] = f"@c{len(self._globals)}"
        return Value(PTR, self._globals[text])

    def unroll_metadata(self, unroll: Unroll) -> str:
        """`, !llvm.loop !N` of an unroll wish: 1 disables, n means n times, "full" completely."""
        if unroll is None:
            return ""
        # Loop identities must be distinct per loop, the property node may be shared.
        if unroll not in self._unrolls:
            wish = {1: '!"llvm.loop.unroll.disable"', "full": '!"llvm.loop.unroll.full"'}.get(
                unroll, f'!"llvm.loop.unroll.count", i32 {unroll}'
            )
            self._unrolls[unroll] = f"!{len(self._metadata)}"
            self._metadata.append(f"!{len(self._metadata)} = !{{{wish}}}")
        n = len(self._metadata)
        self._metadata.append(f"!{n} = distinct !{{!{n}, {self._unrolls[unroll]}}}")
        return f", !llvm.loop !{n}"

    def nontemporal(self) -> str:
        """`, !nontemporal !N` for a store."""
        if self._stream is None:
            self._stream = len(self._metadata)
            self._metadata.append(f"!{self._stream} = !{{i32 1}}")
        return f", !nontemporal !{self._stream}"

    def text(self) -> str:
        """The module as LLVM assembly."""
        return "\n".join(
            [
                values.ALIASES,
                *(f"{name} = internal constant {text}" for text, name in self._globals.items()),
                *self._declarations.values(),
                *(f.text() for f in self._assembly.values()),
                *(f.text() for f in self._functions.values()),
                *self._metadata,
                "",
            ]
        )


class AssemblyFunction:
    """A function whose text LLVM assembles as it is."""

    def __init__(
        self, name: str, params: Sequence[tuple[str, str]], lines: Sequence[str], returns: str
    ) -> None:
        self.name, self.returns = name, returns
        self.params = {n: Value(t.split()[0], f"%{n}") for t, n in params}
        self._lines = (".text", ".p2align 4", f"{name}:", *lines)

    @property
    def symbol(self) -> str:
        """Its name in LLVM's text: the label as it is, where a system's names have a prefix."""
        return f'"\\01{self.name}"'

    def text(self) -> str:
        types = ", ".join(p.type for p in self.params.values())
        text = r"\0A".join(self._lines)
        declared = f"declare dso_local {_SYSTEM_V} {self.returns} @{self.symbol}({types}) nounwind"
        return f'module asm "{text}"\n{declared}'


class StackVariable:
    """A mutable local (alloca). SROA makes it a register unless its address is taken."""

    __slots__ = ("_function", "type", "pointer")

    def __init__(self, function: Function, type_: str) -> None:
        self._function, self.type = function, type_
        self.pointer = function.stack(bytes_of(type_), type_=type_)

    def get(self) -> Value:
        f = self._function
        return f.op(self.type, f"load {self.type}, {self.pointer}")

    def set(self, value: Value | float) -> None:
        v = self._function.as_value(value, self.type)
        if v.type != self.type:
            raise TypeError(f"variable of {self.type} set to {v.type}")
        self._function.line(f"store {v}, {self.pointer}")


class Branch:
    """The open `if`: call else_() where its else part begins."""

    def __init__(self, function: Function, label: str, known: bool | None) -> None:
        self._function, self._label, self._known = function, label, known
        self.has_else = False

    def else_(self) -> None:
        if self.has_else:
            raise ValueError("else_() twice")
        self.has_else = True
        f = self._function
        if self._known is None:
            f.jump(f"{self._label}.end")
            f.label(f"{self._label}.else")
        else:
            f.close_silent(not self._known)
            f.open_silent(self._known)


class Function(HalfCasts):
    """Writes one function. Arithmetic and memory words are in Arith; flow is here.

    `params` maps the parameters' names to Values. A body that does not end in ret() gets one:
    void, or zero.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[tuple[str, str]],
        returns: str,
        attributes: str,
        linkage: Linkage,
    ) -> None:
        super().__init__()
        self.module, self.name, self.returns = module, name, returns
        self.target = module.target
        self._head = (
            f"define {linkage}{' ' if linkage else ''}{returns} @{name}"
            f"({', '.join(f'{t} %{n}' for t, n in params)}) {attributes} {{"
        )
        self.params = {n: Value(t.split()[0] if t[0] != "<" else t, f"%{n}") for t, n in params}
        self._allocas: list[str] = []
        self._first_lines: list[str] = []

    @property
    def symbol(self) -> str:
        """Its name in LLVM's text."""
        return self.name

    def text(self) -> str:
        zero = "void" if self.returns == "void" else f"{self.returns} zeroinitializer"
        end = [] if self.closed else [f" ret {zero}"]
        first = [*self._allocas, *self._first_lines]
        return "\n".join([self._head, "entry:", *first, *self.lines, *end, "}"])

    # -- memory of the function ---------------------------------------------------------------

    def var(self, type_: str, init: Value | float | None = None) -> StackVariable:
        """A mutable local, optionally set at once."""
        made = StackVariable(self, type_)
        if init is not None:
            made.set(init)
        return made

    def stack(self, size: int, align: int = 64, type_: str | None = None) -> Value:
        """`size` bytes of stack, valid in the whole function (allocated at entry). Returns ptr."""
        name = self.fresh()
        what = type_ or f"[{size} x i8], align {align}"
        self._allocas.append(f" {name} = alloca {what}")
        return Value(PTR, name)

    def at_entry(self, type_: str, text: str) -> Value:
        """An instruction where the function begins, before those that are written already."""
        name = self.fresh()
        self._first_lines.append(f" {name} = {text}")
        return Value(type_, name)

    # -- flow ---------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        self.emit(f"{name}:")
        self.closed = False

    def jump(self, label: str) -> None:
        if not self.closed:
            self.emit(f" br label %{label}")
        self.closed = True

    def ret(self, value: Value | int | None = None) -> None:
        """Return here; what is written after it in the same block is dropped."""
        if not self.closed:
            v = None if value is None else self.as_value(value, self.returns)
            self.emit(f" ret {v if v is not None else 'void'}")
        self.closed = True

    @contextmanager
    def range(
        self, lo: Int, hi: Int, step: Int = 1, *, unroll: Unroll = None, outer: bool = False
    ) -> Iterator[Value]:
        """for i in range(lo, hi, step), i64, signed, step > 0. Yields i.

        Zero trips are guarded unless the bounds are known. A single known trip writes no loop,
        none at all writes nothing. unroll: None leaves it to LLVM, 1 forbids, n or "full" requests.
        outer: the body takes long, so LLVM need not look for cheaper ways to count; in nests with
        many addresses it would spend half of its time on that.
        """
        a, b, s = (self.as_value(x, I64) for x in (lo, hi, step))
        trips = 0 if a.text == b.text else None
        if a.known is not None and b.known is not None and s.known is not None:
            trips = len(range(a.known, b.known, s.known))
        if trips is not None:
            if trips <= 1:
                self.open_silent(trips == 0)
                yield a
                self.close_silent(trips == 0)
                return
            guarded = False
        else:
            guarded = True
        k = self.number()
        if guarded:
            some = self.icmp("slt", a, b)
            self.line(f"br i1 {some.text}, label %for{k}.pre, label %for{k}.end")
            self.closed = True
            self.label(f"for{k}.pre")
        else:
            self.jump(f"for{k}.pre")
            self.label(f"for{k}.pre")
        self.jump(f"for{k}")
        self.label(f"for{k}")
        i, after = f"%i{k}", f"%i{k}.next"
        self.emit(f" {i} = phi i64 [ {a.text}, %for{k}.pre ], [ {after}, %for{k}.latch ]")
        yield Value(I64, i)
        self.jump(f"for{k}.latch")
        self.label(f"for{k}.latch")
        # nsw: no memory has a size near 2**63.
        counted = f"%i{k}.counted" if outer else after
        self.emit(f" {counted} = add nsw i64 {i}, {s.text}")
        if outer:  # what passes through assembly, even through none, is not an induction variable
            self.emit(f' {after} = call i64 asm "", "=r,0"(i64 {counted})')
        self.emit(f" %i{k}.more = icmp slt i64 {after}, {b.text}")
        wish = self.module.unroll_metadata(unroll)
        self.emit(f" br i1 %i{k}.more, label %for{k}, label %for{k}.end{wish}")
        self.label(f"for{k}.end")

    @contextmanager
    def while_(self, condition: Callable[[], Value]) -> Iterator[None]:
        """while condition(): ...; the condition is written at the loop's head."""
        k = self.number()
        self.jump(f"while{k}")
        self.label(f"while{k}")
        go = condition()
        self.line(f"br i1 {go.text}, label %while{k}.body, label %while{k}.end")
        self.closed = True
        self.label(f"while{k}.body")
        yield
        self.jump(f"while{k}")
        self.label(f"while{k}.end")

    @contextmanager
    def if_(self, condition: Value | bool) -> Iterator[Branch]:
        """with f.if_(c) as branch: then part; branch.else_(); else part.

        A known condition (a bool, or a folded i1) writes only the part that runs.
        """
        c = integer(condition, I1) if isinstance(condition, bool) else condition
        k = self.number()
        known = None if c.known is None else bool(c.known)
        branch = Branch(self, f"if{k}", known)
        if known is not None:
            self.open_silent(not known)
            yield branch
            self.close_silent(known if branch.has_else else not known)
            return
        at = len(self.lines)
        self.line(f"br i1 {c.text}, label %if{k}.then, label %if{k}.end")
        self.closed = True
        self.label(f"if{k}.then")
        yield branch
        if branch.has_else and at < len(self.lines):
            self.lines[at] = self.lines[at].replace(f"if{k}.end", f"if{k}.else")
        self.jump(f"if{k}.end")
        self.label(f"if{k}.end")

    # -- calls --------------------------------------------------------------------------------

    def call(self, name: str, returns: str, *args: Value, flags: str = "") -> Value:
        self.module.declare(name, returns, [a.type for a in args])
        return self._call(f"@{name}", returns, args, flags)

    def nontemporal_metadata(self) -> str:
        return self.module.nontemporal()

    def call_function(
        self,
        callee: Function | AssemblyFunction,
        *args: Value | int,
        address: Value | None = None,
    ) -> Value:
        """Call a Function of the same module; ints take the parameters' types. address: of the
        function, which the text then does not name."""
        types = [p.type for p in callee.params.values()]
        if len(types) != len(args):
            raise TypeError(f"{callee.name} takes {len(types)} arguments, got {len(args)}")
        typed = [self.as_value(a, t) for a, t in zip(args, types, strict=True)]
        flags = _SYSTEM_V if isinstance(callee, AssemblyFunction) else ""
        name = f"@{callee.symbol}" if address is None else address.text
        return self._call(name, callee.returns, typed, flags)

    def _call(self, name: str, returns: str, args: Sequence[Value], flags: str) -> Value:
        text = f"call {flags}{' ' if flags else ''}{returns} {name}({', '.join(map(str, args))})"
        if returns == "void":
            self.line(text)
            return Value("void", "")
        return self.op(returns, text)

    def assembly(self, returns: str, text: str, constraints: str, *args: Value) -> Value:
        """Inline assembly with side effects, in LLVM's syntax."""
        quoted = f'call {returns} asm sideeffect "{text}", "{constraints}"'
        line = f"{quoted}({', '.join(map(str, args))})"
        if returns == "void":
            self.line(line)
            return Value("void", "")
        return self.op(returns, line)

    def prefetch(self, pointer: Value, *, write: bool = False, locality: int = 3) -> None:
        """A hint; any address is allowed. locality: 3 = L1, 2 = L2, 1 = L3, 0 = no reuse."""
        flags = [integer(n, I32) for n in (int(write), locality, 1)]
        self.call("llvm.prefetch.p0", "void", pointer, *flags)
