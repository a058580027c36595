"""A register tile as a function in x86-64 assembly: sums, loops along K, the epilogue, the stores.

LLVM only assembles such a function. Its passes take a millisecond for each function, and most of
the rest of a tile's time to move sums into and out of assembly. The instructions of loops and
epilogues are the same (docs/dev/tuning/assembled-tiles.md).

Arguments are where System V's calling convention puts them. A tile calls nothing and uses the
registers that a callee may overwrite.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ....ir.lazy_dataclass import dataclass
from ....plan.target import Target
from ...llvmir.values import F64, PTR, Value, bits_of, round_to_f32, vec
from .x86_epilogue import EpilogueAssembly, EpilogueRegisters, TileOperand, epilogue_lines
from .x86_multiply_add_loop import LoopRegisters, LoopWriter, MultiplyAddLoop

ARGUMENTS: Final = ("%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9")
_VECTORS: Final = {256: "ymm", 512: "zmm"}
# Those that instructions of AVX and AVX-512 reach.
_REGISTERS: Final = {"ymm": 16, "zmm": 32}
# Registers of masks, of which %k0 means all lanes.
_MASKS: Final = tuple(f"%k{i}" for i in range(1, 8))


def argument(index: int) -> str:
    """The register or the memory of an argument, while nothing is pushed."""
    if index < len(ARGUMENTS):
        return ARGUMENTS[index]
    return f"{8 * (index - len(ARGUMENTS) + 1)}(%rsp)"


@dataclass(frozen=True)
class OperandAddress:
    """An operand of an epilogue. base: the memory that holds an address; steps: registers that
    count elements, and the bytes of each; offsets: of each sum, in bytes from there. broadcast:
    all lanes read one element."""

    base: str
    steps: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...]
    broadcast: bool = False

    @property
    def operand(self) -> TileOperand:
        return TileOperand(
            (Value(PTR, ""),), tuple((0, offset) for offset in self.offsets), self.broadcast
        )


@dataclass(frozen=True)
class TileLayout:
    """What a tile's registers hold: `sums` registers of `lanes` elements, and the epilogue of its
    operands, of which the last one is written. stored: how many elements of each sum are, where
    that is not all of them."""

    element: str
    lanes: int
    sums: int
    epilogue: EpilogueAssembly
    operands: tuple[OperandAddress, ...]
    stored: tuple[int, ...] = ()

    @property
    def parts(self) -> list[int]:
        """The numbers of elements that sums have which are not full."""
        return sorted({n for n in self.stored if n < self.lanes})

    def count_moved(self, registers: int) -> int:
        """How many sums wait on the stack while the epilogue of others needs their registers."""
        needed = self.epilogue.temporaries + len(self.epilogue.constants)
        return max(0, self.sums + needed - registers)

    def fits(
        self,
        pointers: int,
        target: Target,
        loops: Sequence[MultiplyAddLoop] = (),
        spare: int = 0,
    ) -> bool:
        """Whether the target has the registers and instructions. pointers: general registers for
        addresses of operands. spare: vector registers besides the sums that other loops need."""
        spare = max([spare, *(loop.spare_registers for loop in loops)])
        moved = self.count_moved(target.registers)
        sums = [Value(vec(self.element, self.lanes), "")] * (self.sums - moved)
        steps = [abs(step) for o in self.operands for _, step in o.steps]
        return (
            (not self.parts or (target.isa == "avx512" and len(self.parts) <= len(_MASKS)))
            and self.sums + spare <= target.registers
            and 2 * moved <= self.sums
            and len(self.operands) <= pointers
            and max(steps, default=0) < 2**31
            and all(loop.fits(target) for loop in loops)
            and self.epilogue.fits(sums, [o.operand for o in self.operands], target)
        )


class TileWriter:
    """Writes the lines of a tile's function."""

    def __init__(self, layout: TileLayout) -> None:
        self.layout, self.lines = layout, list[str]()
        vector = _VECTORS[bits_of(layout.element) * layout.lanes]
        names = [f"%{vector}{i}" for i in range(_REGISTERS[vector])]
        self.sums, self.spare = names[: layout.sums], names[layout.sums :]
        self._zero = "vpxord" if vector == "zmm" else "vxorps"
        self.suffix = "d" if layout.element == F64 else "s"
        masks = dict(zip(layout.parts, _MASKS, strict=False))
        self.masks = [
            f"{{{masks[n]}}}" if n in masks else "" for n in layout.stored or [0] * layout.sums
        ]

    def load_masks(self, scratch: str) -> None:
        """Set the masks of sums that are not full."""
        for n, mask in zip(self.layout.parts, _MASKS, strict=False):
            low = low_half(scratch)
            self.add(f"movl $${(1 << n) - 1}, {low}", f"kmovw {low}, {mask}")

    def add(self, *lines: str) -> None:
        self.lines += lines

    def zero_sums(self) -> None:
        self.lines += [f"{self._zero} {s}, {s}, {s}" for s in self.sums]

    def load_sums(self, pointer: str, offsets: Sequence[int]) -> None:
        moves = zip(offsets, self.sums, strict=True)
        self.lines += [f"vmovup{self.suffix} {at}({pointer}), {s}" for at, s in moves]

    def loop(
        self,
        loop: MultiplyAddLoop,
        sums: Sequence[int],
        registers: tuple[str, str, str, str],
        counter: str,
        depth: int | None,
    ) -> int:
        """Add the products of `depth` steps of K, or of as many as `counter` holds. sums: numbers
        of those that are added to. registers: the addresses of A and B, what to prefetch, and the
        bytes that it moves. Returns the steps that the addresses have moved on, where known."""
        a, b, soon, pace = registers
        spare = self.spare
        names = LoopRegisters(
            sums=tuple(self.sums[i] for i in sums),
            columns=tuple(spare[: len(loop.columns)]),
            shared=spare[len(loop.columns)],
            product=spare[loop.spare_registers - 1],
            a=a,
            b=b,
            soon=soon,
            pace=pace,
        )
        writer = LoopWriter(loop, names)
        moved = 0
        if depth is None:
            writer.repeat_while(counter)
        else:
            turns = 0 if depth < 2 * loop.unroll else depth // loop.unroll
            moved = turns * loop.unroll
            if turns:
                writer.lines.append(f"movl $${turns}, {low_half(counter)}")
                writer.repeat(loop.unroll, counter, 1)
            writer.steps(depth - moved)
        self.lines += writer.lines
        return moved

    def finish(self, pointers: Sequence[str], scratch: str, *, whole: bool = False) -> None:
        """The epilogue, the stores and the return. pointers: registers for the operands'
        addresses. whole: all lanes are stored, also of sums that are not full."""
        layout, planned = self.layout, self.layout.epilogue
        for o, pointer in zip(layout.operands, pointers, strict=False):
            self.add(f"movq {o.base}, {pointer}")
            for register, step in o.steps:
                if step in (1, 2, 4, 8):
                    self.add(f"leaq ({pointer},{register},{step}), {pointer}")
                else:
                    self.add(f"imulq $${step}, {register}, {scratch}", f"addq {scratch}, {pointer}")
        moved = layout.count_moved(len(self.sums) + len(self.spare))
        kept, size = layout.sums - moved, layout.lanes * bits_of(layout.element) // 8
        waiting = [(f"{i * size}(%rsp)", name) for i, name in enumerate(self.sums[kept:])]
        if moved:
            self.add(f"subq $${moved * size}, %rsp")
            self.add(*(f"vmovup{self.suffix} {name}, {at}" for at, name in waiting))
        spare = [*self.spare, *self.sums[kept:]]
        constants = spare[planned.temporaries :][: len(planned.constants)]
        for value, name in zip(planned.constants, constants, strict=True):
            self.lines += self.load_constant(value, name, scratch)
        operands = [o.operand for o in layout.operands]

        def write(sums: Sequence[str], first: int) -> None:
            masks = [] if whole else self.masks[first : first + len(sums)]
            names = EpilogueRegisters(
                sums, spare[: planned.temporaries], constants, pointers, masks
            )
            self.lines += epilogue_lines(planned, layout.element, operands, names, first)

        write(self.sums[:kept], 0)
        if moved:
            # Into registers of sums that are stored.
            free = self.sums[:moved]
            moves = zip(waiting, free, strict=True)
            self.add(*(f"vmovup{self.suffix} {at}, {name}" for (at, _), name in moves))
            write(free, kept)
            self.add(f"addq $${moved * size}, %rsp")
        self.add("vzeroupper", "retq")

    def load_constant(self, value: float, name: str, scratch: str) -> list[str]:
        """Put a number into all lanes of a register."""
        wide = self.layout.element == F64
        packed = struct.pack("<d", value) if wide else struct.pack("<f", round_to_f32(value))
        bits = int.from_bytes(packed, "little")
        if not bits:
            return [f"{self._zero} {name}, {name}, {name}"]
        low = f"%xmm{name[4:]}"
        if wide:
            load = [f"movabsq $${bits}, {scratch}", f"vmovq {scratch}, {low}"]
        else:
            load = [f"movl $${bits}, {low_half(scratch)}", f"vmovd {low_half(scratch)}, {low}"]
        return [*load, f"vbroadcasts{self.suffix} {low}, {name}"]

    def text(self) -> list[str]:
        """The lines as a module's assembly, where `$` is not escaped."""
        return [line.replace("$$", "$") for line in self.lines]


def low_half(register: str) -> str:
    """The lower 32 bits of a general register."""
    name = register[1:]
    return f"%e{name[1:]}" if name[1].isalpha() else f"%{name}d"
