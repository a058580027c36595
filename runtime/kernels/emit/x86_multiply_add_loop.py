"""The loop along K of a register tile as x86-64 assembly: loads, broadcasts and multiply-adds of
floats, and of cells: four bytes or two bf16 with AVX-512, two 16-bit integers with AVX2.

LLVM assembles such text in a tenth of the time that it takes to select, schedule and allocate the
same instructions from IR, and register tiles are most of what a model compiles
(docs/dev/tuning/cold-compile.md). Instructions are those that LLVM chooses for `add_products`: per
step, a load for each register of B, and for each row of A a broadcast and a multiply-add for each
register. Products are added in the same order, so sums are the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.target import Target
from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import F32, F64, I16, I32, Value, bits_of, integer, vec
from .dot_units import DotUnit

# Displacements and increments are immediates of 32 bits, signed.
_MAX_OFFSET_BYTES: Final = 2**31 - 1
_SUFFIX: Final = {F32: "s", F64: "d"}
# What multiplies cells, by the unit of emit/dot_units.py.
_CELL_INSTRUCTIONS: Final = {
    "llvm.x86.avx2.pmadd.wd": "vpmaddwd",
    "llvm.x86.avx512.pmaddw.d.512": "vpmaddwd",
    "llvm.x86.avx512.vpdpbusd.512": "vpdpbusd",
    "llvm.x86.avx512bf16.dpbf16ps.512": "vdpbf16ps",
}
# Loads that widen elements of B to f32. A bf16 number is the upper half of an f32 number.
_BF16_LOAD: Final = "vpmovzxwd"
HALF_LOADS: Final = {DType.f16: "vcvtph2ps", DType.bf16: _BF16_LOAD}
_PREFETCH: Final = {3: "prefetcht0", 2: "prefetcht1"}


@dataclass(frozen=True)
class MultiplyAddLoop:
    """What one step reads, in bytes from the first step's addresses: an element of A per row, a
    register of B per column, and lines to prefetch (`ahead`, into the cache level that LLVM calls
    `locality`). `a_step`, `b_step`: bytes per step of K."""

    element: str
    lanes: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    a_step: int
    b_step: int
    unroll: int
    ahead: tuple[int, ...] = ()
    locality: int = 3
    # What multiplies cells (`cell_instruction`; "": floats), and what widens elements of B that are
    # stored as bytes or half floats.
    cells: str = ""
    widening: str = ""

    @property
    def is_avx512(self) -> bool:
        """Whether registers have 512 bits, and instructions the encoding of AVX-512."""
        return bits_of(self.element) * self.lanes == 512

    def fits(self, target: Target) -> bool:
        """Whether the target has the instructions, enough registers and wide enough immediates."""
        if target.arch != "x86_64" or not target.fma:
            return False
        if self.cells:
            kind = F32 if self.cells == "vdpbf16ps" else I32
            if self.element != kind or not (self.is_avx512 or self.adds_apart):
                return False
        elif self.element not in _SUFFIX or (self.widening and self.element != F32):
            return False
        if self.widening == "vcvtph2ps" and not target.has("f16c"):
            return False
        if target.registers > 16 and not self.is_avx512:
            return False  # AVX's encodings reach the first 16 registers only
        if bits_of(self.element) * self.lanes not in (128, 256, 512) or not self.rows:
            return False
        wide = self.unroll * max(abs(self.a_step), abs(self.b_step))
        reach = max(map(abs, (*self.rows, *self.columns, *self.ahead))) + wide
        needed = len(self.columns) * len(self.rows) + self.spare_registers
        return needed <= target.registers and reach <= _MAX_OFFSET_BYTES

    @property
    def spare_registers(self) -> int:
        """Registers besides the sums: a row of B, a broadcast, a product that is added apart."""
        return len(self.columns) + 1 + self.adds_apart

    @property
    def adds_apart(self) -> bool:
        """Whether another instruction than the one that multiplies adds products."""
        return self.cells == "vpmaddwd"


def cell_instruction(unit: DotUnit | None, target: Target) -> str:
    """The instruction of a unit in `MultiplyAddLoop.cells`; "" for a unit that LLVM compiles."""
    name = "" if unit is None else _CELL_INSTRUCTIONS.get(unit.intrinsic, "")
    if name != "vpmaddwd":
        return name
    if target.has("avx512vnni"):
        return "vpdpwssd"  # multiplies and adds, as LLVM finds
    return "" if target.has("avxvnni") else name


def widening_load(stored: str, dtype: DType) -> str:
    """The load of cells of type `stored`: two bytes of the type `dtype` are widened."""
    if stored != I16:
        return ""
    return "vpmovsxbw" if dtype.is_signed else "vpmovzxbw"


def multiply_add_loop(
    f: Function,
    loop: MultiplyAddLoop,
    sums: Sequence[Sequence[StackVariable]],
    addresses: tuple[Value, Value],
    depth: Value,
    ahead: tuple[Value, Value],
    *,
    zeroed: bool,
) -> None:
    """Add `depth` steps of K to `sums`. addresses: of A and of B. ahead: of what to prefetch, and
    the bytes that it moves per step. zeroed: all sums are zero before."""
    vector = vec(loop.element, loop.lanes)
    cells = [s for row in sums for s in row]
    spare = loop.spare_registers
    short = depth.known is not None and depth.known < 2 * loop.unroll
    turns = integer(0) if short else f.udiv(depth, loop.unroll)
    rest = f.sub(depth, f.mul(turns, loop.unroll))
    moving, fixed = list(addresses), list[Value]()
    if loop.ahead:
        moving, fixed = [*moving, ahead[0]], [ahead[1]]
    a_at = len(cells) + spare
    counters = [n for n in (turns, rest) if n.known is None or (n is turns and n.known)]
    moving += counters
    outs = ["=v"] * len(cells) + ["=&v"] * spare + ["=&r"] * len(moving)
    ins = [str(a_at + i) for i in range(len(moving))] + ["r"] * len(fixed)
    given = [*moving, *fixed]
    if not zeroed:
        ins += [str(i) for i in range(len(cells))]
        given += [s.get() for s in cells]
    # Operands are numbered with the inputs, those that begin as outputs do among them.
    names = [f"${i}" for i in range(a_at + len(moving))]
    writer = LoopWriter(
        loop,
        LoopRegisters(
            sums=tuple(names[: len(cells)]),
            columns=tuple(names[len(cells) : len(cells) + len(loop.columns)]),
            shared=names[len(cells) + len(loop.columns)],
            product=names[a_at - 1],
            a=names[a_at],
            b=names[a_at + 1],
            soon=names[a_at + 2] if loop.ahead else "",
            pace=f"${a_at + 2 * len(moving)}",
        ),
    )
    if zeroed:
        writer.zero_sums()
    writer.write(turns, rest, names[a_at + len(moving) - len(counters) :])
    text = writer.lines
    kinds = [vector] * a_at + [v.type for v in moving]
    clobbers = ["~{memory}", "~{dirflag}", "~{fpsr}", "~{flags}"]
    done = f.assembly(
        f"{{ {', '.join(kinds)} }}",
        r"\0A".join(text),
        ",".join([*outs, *ins, *clobbers]),
        *given,
    )
    for i, s in enumerate(cells):
        s.set(f.op(vector, f"extractvalue {done}, {i}"))


@dataclass(frozen=True)
class LoopRegisters:
    """What assembly calls registers: those of the sums, row by row, of B, of a broadcast and of a
    product that is added apart, of the addresses of A, of B and of what to prefetch, and of the
    bytes that the last one moves per step."""

    sums: tuple[str, ...]
    columns: tuple[str, ...]
    shared: str
    product: str
    a: str
    b: str
    soon: str
    pace: str


class LoopWriter:
    """Writes the lines of a loop."""

    def __init__(self, loop: MultiplyAddLoop, registers: LoopRegisters) -> None:
        self.loop, self.registers, self.lines = loop, registers, list[str]()

    def zero_sums(self) -> None:
        # AVX encodes the first 16 registers only.
        zero = "vpxord" if self.loop.is_avx512 else "vpxor" if self.loop.cells else "vxorps"
        self.lines += [f"{zero} {s}, {s}, {s}" for s in self.registers.sums]

    def write(self, turns: Value, rest: Value, counters: Sequence[str]) -> None:
        """All steps. counters: registers that count the turns and the remaining steps, of which
        numbers that are not known to be zero, or not known, have one."""
        loop, lines = self.loop, self.lines
        if turns.known is None:
            lines += [f"testq {counters[0]}, {counters[0]}", "je 2f"]
        if turns.known != 0:
            self.repeat(loop.unroll, counters[0], 1)
        if rest.known is not None:
            self.steps(rest.known)
        else:
            left = counters[-1]
            lines += ["2:", f"testq {left}, {left}", "je 4f"]
            self.repeat(1, left, 3)
            lines.append("4:")

    def repeat(self, number: int, times: str, label: int) -> None:
        """`number` steps, `times` times."""
        loop = self.loop
        self.lines += [".p2align 4", f"{label}:"]
        self.steps(number)
        self.lines += [
            f"addq $${number * loop.a_step}, {self.registers.a}",
            f"addq $${number * loop.b_step}, {self.registers.b}",
            f"decq {times}",
            f"jne {label}b",
        ]

    def repeat_while(self, counter: str) -> None:
        """As many steps as the counter holds."""
        loop, r = self.loop, self.registers
        turn = [
            f"addq $${loop.unroll * loop.a_step}, {r.a}",
            f"addq $${loop.unroll * loop.b_step}, {r.b}",
        ]
        self.lines += [f"subq $${loop.unroll}, {counter}", "jl 2f", ".p2align 4", "1:"]
        self.steps(loop.unroll)
        self.lines += [*turn, f"subq $${loop.unroll}, {counter}", "jge 1b"]
        self.lines += ["2:", f"addq $${loop.unroll}, {counter}", "je 4f"]
        self.repeat(1, counter, 3)
        self.lines.append("4:")

    def steps(self, number: int) -> None:
        for u in range(number):
            self.step(u)

    def step(self, u: int) -> None:
        """Step `u` from the addresses on."""
        loop, lines, r = self.loop, self.lines, self.registers
        lines += [f"{_PREFETCH[loop.locality]} {ahead}({r.soon})" for ahead in loop.ahead]
        if loop.ahead:
            lines.append(f"addq {r.pace}, {r.soon}")
        if loop.cells:
            self.multiply_cells(u)
        else:
            self.multiply_floats(u)

    def multiply_cells(self, u: int) -> None:
        """The products of cells in step `u`."""
        loop, lines, r, width = self.loop, self.lines, self.registers, len(self.loop.columns)
        load = loop.widening or ("vmovdqu32" if loop.is_avx512 else "vmovdqu")
        for q, column in enumerate(loop.columns):
            lines.append(f"{load} {column + u * loop.b_step}({r.b}), {r.columns[q]}")
        for i, row in enumerate(loop.rows):
            lines.append(f"vpbroadcastd {row + u * loop.a_step}({r.a}), {r.shared}")
            for q in range(width):
                total = r.sums[i * width + q]
                if loop.adds_apart:
                    lines.append(f"{loop.cells} {r.columns[q]}, {r.shared}, {r.product}")
                    lines.append(f"vpaddd {r.product}, {total}, {total}")
                else:
                    lines.append(f"{loop.cells} {r.columns[q]}, {r.shared}, {total}")

    def multiply_floats(self, u: int) -> None:
        """The products of floats in step `u`."""
        loop, suffix, width = self.loop, _SUFFIX[self.loop.element], len(self.loop.columns)
        lines, r = self.lines, self.registers
        for q, column in enumerate(loop.columns):
            at = f"{column + u * loop.b_step}({r.b})"
            lines.append(f"{loop.widening or 'vmovup' + suffix} {at}, {r.columns[q]}")
            if loop.widening == _BF16_LOAD:
                lines.append(f"vpslld $$16, {r.columns[q]}, {r.columns[q]}")
        for i, row in enumerate(loop.rows):
            at = f"{row + u * loop.a_step}({r.a})"
            if loop.is_avx512 and width == 1:
                at = f"{at}{{1to{loop.lanes}}}"
                lines.append(f"vfmadd231p{suffix} {at}, {r.columns[0]}, {r.sums[i]}")
                continue
            # A broadcast to 128 bits of two doubles has a name of its own.
            narrow = loop.lanes == 2 and suffix == "d"
            lines.append(f"{'vmovddup' if narrow else 'vbroadcasts' + suffix} {at}, {r.shared}")
            lines += [
                f"vfmadd231p{suffix} {r.columns[q]}, {r.shared}, {r.sums[i * width + q]}"
                for q in range(width)
            ]
