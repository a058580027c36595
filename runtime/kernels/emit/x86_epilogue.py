"""The epilogue of a register tile as x86-64 assembly: short programs on sums of f32 or f64.

LLVM assembles such text in a tenth of the time that it takes to select, schedule and allocate the
same instructions from IR (docs/dev/tuning/kernel-text.md). Instructions and the order of their
operands are those that LLVM chooses for scalar_program.py, so results are the same bits. Every
sum's register becomes its result; other operands are read from memory, constants from registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Instr, Program
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, F32, F64, I32, Value, bits_of, number

# Displacements are immediates of 32 bits, signed.
_MAX_OFFSET_BYTES: Final = 2**31 - 1
# Of 16 general registers, those that hold addresses: a frame, a stack and indices take others.
_MAX_POINTERS: Final = 10
# Integers are only moved, as floats are.
_SUFFIX: Final = {F32: "s", F64: "d", I32: "s"}
_COMMUTATIVE: Final = ("add", "mul")


@dataclass(frozen=True)
class TileOperand:
    """An operand as a tile reads or writes it: addresses, and for each sum which of them it is at,
    and how many bytes from there. broadcast: all lanes read one element."""

    pointers: tuple[Value, ...]
    offsets: tuple[tuple[int, int], ...]
    broadcast: bool = False


@dataclass(frozen=True)
class ValueLocation:
    """Where a value of the program is: in the register of the sum, of a temporary or of a constant,
    or in the memory of an operand besides the sum."""

    kind: Literal["sum", "temporary", "constant", "memory"]
    number: int = 0


def _is_register(location: ValueLocation) -> bool:
    """Whether a result may replace the value there."""
    return location.kind in ("sum", "temporary")


@dataclass(frozen=True)
class AssemblyStep:
    """target = first `op` second, of which `second` may be in memory; a load has no `first`."""

    op: str
    target: ValueLocation
    second: ValueLocation
    first: ValueLocation | None = None


@dataclass(frozen=True)
class EpilogueAssembly:
    """The steps for one sum, how many temporaries they need, the constants, and the result."""

    steps: tuple[AssemblyStep, ...]
    temporaries: int
    constants: tuple[float, ...]
    result: ValueLocation

    def finish(self, f: Function, sums: Sequence[Value], operands: Sequence[TileOperand]) -> bool:
        """Write the steps and the stores of all sums of a tile. False, and nothing is written, for
        a target or sizes that they do not fit.

        operands: of the program besides the sum, then the output, with elements of the sums' type.
        """
        if not self.fits(sums, operands, f.target):
            return False
        _write(f, self, sums, operands)
        return True

    def fits(self, sums: Sequence[Value], operands: Sequence[TileOperand], target: Target) -> bool:
        """Whether the target has the instructions, enough registers and wide enough displacements
        for so many sums."""
        bits = bits_of(sums[0].type) * sums[0].lanes
        if target.isa not in ("avx2", "avx512") or bits not in (256, 512):
            return False
        if target.registers > 16 and bits != 512:
            return False  # AVX's encodings reach the first 16 registers only
        registers = len(sums) + self.temporaries + len(self.constants)
        pointers = sum(len(o.pointers) for o in operands)
        reach = max(abs(offset) for o in operands for _, offset in o.offsets)
        return (
            registers <= target.registers
            and pointers <= _MAX_POINTERS
            and reach <= _MAX_OFFSET_BYTES
        )


# The sums are stored as they are.
STORE: Final = EpilogueAssembly((), 0, (), ValueLocation("sum"))


def plan_epilogue(
    program: Program, broadcast: Sequence[bool], element: str
) -> EpilogueAssembly | None:
    """How the program is computed for a sum; None where it has other operations or types."""
    if len(program.results) != 1 or element not in (F32, F64):
        return None
    if any(ELEMENT.get(i.dtype.value) != element for i in program.instrs):
        return None
    planner = _Planner(program, broadcast)
    if not all(planner.add(index, instr) for index, instr in enumerate(program.instrs)):
        return None
    result = planner.locations[program.results[0]]
    if not _is_register(result):
        return None
    return EpilogueAssembly(
        tuple(planner.steps), planner.temporaries, tuple(planner.constants), result
    )


class _Planner:
    """Assigns registers: a result takes that of a value that is read for the last time."""

    def __init__(self, program: Program, broadcast: Sequence[bool]) -> None:
        self.broadcast = broadcast
        self.locations: list[ValueLocation] = []
        self.steps: list[AssemblyStep] = []
        self.constants: list[float] = []
        self.temporaries = 0
        self.free: list[ValueLocation] = []
        self.last_use = {
            a: i
            for i, instr in enumerate(program.instrs)
            if instr.op != "input"
            for a in instr.args
        }
        self.last_use[program.results[0]] = len(program.instrs)

    def add(self, index: int, instr: Instr) -> bool:
        """Plan an instruction; False for an operation that has no plan."""
        made: ValueLocation | None
        if instr.op == "input":
            operand = instr.args[0]
            made = ValueLocation("memory", operand - 1) if operand else ValueLocation("sum")
            if made in self.locations:
                return False
        elif instr.op == "const":
            value = 0.0 if instr.value is None else float(instr.value)
            made = None if math.isnan(value) else ValueLocation("constant", len(self.constants))
            self.constants.append(value)
        else:
            plan = _OPERATIONS.get(instr.op)
            made = None if plan is None else plan(self, index, instr)
        if made is None:
            return False
        self.locations.append(made)
        return True

    def plan_arithmetic(self, index: int, instr: Instr) -> ValueLocation | None:
        """add, sub and mul."""
        first, second = (self.locations[a] for a in instr.args)
        if first.kind == "memory" and second.kind != "memory" and instr.op in _COMMUTATIVE:
            first, second = second, first
        return self.combine(instr.op, index, instr, first, second)

    def plan_limit(self, index: int, instr: Instr) -> ValueLocation | None:
        """max and min with a constant, which comes first: a NaN of the other value stays."""
        first, second = (self.locations[a] for a in instr.args)
        if first.kind != "constant":
            first, second = second, first
        if first.kind != "constant":
            return None
        return self.combine(instr.op, index, instr, first, second)

    def plan_clip(self, index: int, instr: Instr) -> ValueLocation | None:
        """max with a constant, then min with another one."""
        x, low, high = (self.locations[a] for a in instr.args)
        if not low.kind == high.kind == "constant":
            return None
        larger = self.combine("max", index, instr, low, x)
        self.steps.append(AssemblyStep("min", larger, larger, high))
        return larger

    def combine(
        self, op: str, index: int, instr: Instr, first: ValueLocation, second: ValueLocation
    ) -> ValueLocation:
        """Plan first `op` second; the register of the result."""
        loaded: list[ValueLocation] = []
        if first.kind == "memory":
            loaded.append(first := self.load(first))
        if second.kind == "memory" and self.broadcast[second.number]:
            loaded.append(second := self.load(second))
        dead = [self.locations[a] for a in instr.args if self.last_use[a] == index]
        self.free = list(dict.fromkeys([*self.free, *loaded, *filter(_is_register, dead)]))
        target = self.take_register()
        self.steps.append(AssemblyStep(op, target, second, first))
        return target

    def load(self, operand: ValueLocation) -> ValueLocation:
        """Plan the load of an operand into a register."""
        target = self.take_register()
        op = "broadcast" if self.broadcast[operand.number] else "move"
        self.steps.append(AssemblyStep(op, target, operand))
        return target

    def take_register(self) -> ValueLocation:
        if self.free:
            return self.free.pop()
        self.temporaries += 1
        return ValueLocation("temporary", self.temporaries - 1)


_OPERATIONS: Final[dict[str, Callable[[_Planner, int, Instr], ValueLocation | None]]] = {
    "add": _Planner.plan_arithmetic,
    "sub": _Planner.plan_arithmetic,
    "mul": _Planner.plan_arithmetic,
    "max": _Planner.plan_limit,
    "min": _Planner.plan_limit,
    "clip": _Planner.plan_clip,
}


@dataclass(frozen=True)
class EpilogueRegisters:
    """What assembly calls registers: those of sums, temporaries and constants, and of the addresses
    of all operands; for each sum the mask of the lanes that memory has (`{%k1}`; "": all)."""

    sums: Sequence[str]
    temporaries: Sequence[str]
    constants: Sequence[str]
    pointers: Sequence[str]
    masks: Sequence[str] = ()


def epilogue_lines(
    planned: EpilogueAssembly,
    element: str,
    operands: Sequence[TileOperand],
    registers: EpilogueRegisters,
    before: int = 0,
) -> list[str]:
    """The steps and the store of each sum, which are sums `before` and on of the operands."""
    suffix, starts = _SUFFIX[element], [0]
    for o in operands:
        starts.append(starts[-1] + len(o.pointers))
    first = {"temporary": registers.temporaries, "constant": registers.constants}

    def text(location: ValueLocation, i: int) -> str:
        n = location.number
        if location.kind == "memory":
            which, offset = operands[n].offsets[before + i]
            return f"{offset}({registers.pointers[starts[n] + which]})"
        return registers.sums[i] if location.kind == "sum" else first[location.kind][n]

    output = ValueLocation("memory", len(operands) - 1)
    lines: list[str] = []
    for i, mask in enumerate(registers.masks or [""] * len(registers.sums)):
        for step in planned.steps:
            names = [text(x, i) for x in (step.second, step.first, step.target) if x is not None]
            reads = step.second.kind == "memory" and step.op != "broadcast"
            kept = f"{mask}{{z}}" if mask and reads else ""
            lines.append(f"{_MNEMONIC[step.op]}{suffix} {', '.join(names)}{kept}")
        result = f"{text(planned.result, i)}, {text(output, i)}{mask}"
        lines.append(f"{_MNEMONIC['move']}{suffix} {result}")
    return lines


def _write(
    f: Function, planned: EpilogueAssembly, sums: Sequence[Value], operands: Sequence[TileOperand]
) -> None:
    """Write the steps for each sum. Operands of the assembly: registers that it writes (the sums,
    temporaries), the sums again as inputs, addresses, constants."""
    vector = sums[0].type
    written = len(sums) + planned.temporaries
    pointers = [p for o in operands for p in o.pointers]
    read = written + len(sums) + len(pointers)
    names = [f"${i}" for i in range(read + len(planned.constants))]
    registers = EpilogueRegisters(
        sums=names[: len(sums)],
        temporaries=names[len(sums) : written],
        constants=names[read:],
        pointers=names[written + len(sums) : read],
    )
    lines = epilogue_lines(planned, sums[0].element, operands, registers)
    # Written while other operands are still read, so no operand shares a register with them.
    outs = ["=&v"] * written
    ins = [*map(str, range(len(sums))), *["r"] * len(pointers), *["v"] * len(planned.constants)]
    f.assembly(
        vector if written == 1 else f"{{ {', '.join([vector] * written)} }}",
        r"\0A".join(lines),
        ",".join([*outs, *ins, "~{memory}", "~{dirflag}", "~{fpsr}", "~{flags}"]),
        *sums,
        *pointers,
        *(number(x, vector) for x in planned.constants),
    )


_MNEMONIC: Final = {
    **{op: f"v{op}p" for op in ("add", "sub", "mul", "max", "min")},
    "move": "vmovup",
    "broadcast": "vbroadcasts",
}
