"""Winograd's transforms of f32 as functions in assembly of AVX-512 (emit/x86_tile.py): of a tile's
data, with the maxima that its guard compares, of its sums, with the epilogue, and the direct sums
of a tile of extreme data.

They compute what winograd_transforms.py, winograd.py and winograd_guard.py do, operation by
operation. One dimension of a transform takes its values from registers or from memory and leaves
them in registers; between both dimensions the data go through memory, sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....plan.packing.layouts import PackedLayout
from ....llvmir.builder import AssemblyFunction
from ....llvmir.values import F32, I64, PTR
from ...emit.x86_epilogue import STORE, EpilogueAssembly, EpilogueRegisters, epilogue_lines
from ...emit.x86_multiply_add_loop import MultiplyAddLoop
from ...emit.x86_tile import OperandAddress, TileLayout, TileWriter, argument, low_half
from ..addressing import ConvContext
from ..winograd_tiles import WinogradSchedule
from .tile import plan_epilogue_of

_COUNTER, _INSIDE = "%rax", "%r10"
_LANE_BYTES = 64
# General registers for the addresses of an epilogue's operands.
_POINTERS = 5
_TAPS = 3
# Displacements are immediates of 32 bits, signed.
_MAX_OFFSET_BYTES = 2**31 - 1


def fits_data(g: ConvContext, plan: WinogradSchedule) -> bool:
    """Whether the transform of a convolution's data is written here: f32 and known sizes."""
    spec = g.spec
    if plan.kr != 1 or g.target.isa != "avx512" or plan.lanes != 16 or spec.data.dtype != spec.acc:
        return False
    known = _are_known((*spec.data.strides[3:], *spec.in_sizes[1:]))
    return known and plan.points * plan.block * plan.pitch * 4 <= _MAX_OFFSET_BYTES


def fits_results(g: ConvContext, plan: WinogradSchedule) -> bool:
    """Whether the transforms of its sums are: known sizes."""
    spec = g.spec
    if not fits_data(g, plan) or not _are_known(spec.out_sizes[1:]):
        return False
    if plan.points * plan.block * plan.nr * 4 > _MAX_OFFSET_BYTES:
        return False
    panels = -(-spec.outputs // plan.nr)
    tap = panels * PackedLayout(plan.channels, plan.nr, plan.nr).size * 4
    return _TAPS * _TAPS * tap <= _MAX_OFFSET_BYTES


def fits_epilogue(g: ConvContext, plan: WinogradSchedule) -> bool:
    """Whether the epilogue is, too: it has a plan, and leaves registers for the sums."""
    planned = plan_epilogue_of(g, argument(0), _pixels(plan), 1)
    if planned is None or not plan.inline_epilogue or len(planned[1]) > _POINTERS:
        return False
    layout = TileLayout(F32, plan.lanes, plan.m**2, *planned)
    registers = _SumRegisters(plan, planned[0])
    return layout.fits(_POINTERS, g.target, spare=2) and registers.count <= g.target.registers


def _are_known(sizes: Sequence[object]) -> bool:
    return all(isinstance(n, int) and 0 <= n <= _MAX_OFFSET_BYTES // 64 for n in sizes)


def _pixels(plan: WinogradSchedule) -> list[tuple[int, int]]:
    return [(i, j) for i in range(plan.m) for j in range(plan.m)]


# -- transforms of one dimension -----------------------------------------------------------------

Lines = list[str]
_Epilogue = tuple[EpilogueAssembly, tuple[OperandAddress, ...]]


def _data_2(d: Sequence[str], t: Sequence[str], k: Sequence[str]) -> tuple[Lines, list[str]]:
    """`data_2` of winograd_matrices.py. d: the values, which are overwritten; t: other registers;
    k: constants. The lines, and the registers of the results."""
    return [
        f"vsubps {d[2]}, {d[0]}, {d[0]}",
        f"vaddps {d[2]}, {d[1]}, {t[0]}",
        f"vsubps {d[1]}, {d[2]}, {t[1]}",
        f"vsubps {d[3]}, {d[1]}, {d[3]}",
    ], [d[0], t[0], t[1], d[3]]


def _data_4(d: Sequence[str], t: Sequence[str], k: Sequence[str]) -> tuple[Lines, list[str]]:
    """`data_4`; constants: 4, 5, 2."""
    four, five, two = k
    a, b, c, e = t[:4]
    return [
        f"vmovaps {d[4]}, {a}",
        f"vfnmadd231ps {four}, {d[2]}, {a}",
        f"vmovaps {d[3]}, {e}",
        f"vfnmadd231ps {four}, {d[1]}, {e}",
        f"vsubps {e}, {a}, {b}",
        f"vaddps {e}, {a}, {a}",
        f"vsubps {d[2]}, {d[4]}, {c}",
        f"vfnmadd231ps {five}, {d[2]}, {d[4]}",
        f"vfmadd231ps {four}, {d[0]}, {d[4]}",
        f"vfnmadd231ps {five}, {d[3]}, {d[5]}",
        f"vfmadd231ps {four}, {d[1]}, {d[5]}",
        f"vsubps {d[1]}, {d[3]}, {e}",
        f"vmovaps {c}, {d[0]}",
        f"vfmadd231ps {two}, {e}, {d[0]}",
        f"vfnmadd231ps {two}, {e}, {c}",
    ], [d[4], a, b, d[0], c, d[5]]


_DATA = {2: (_data_2, ()), 4: (_data_4, (4.0, 5.0, 2.0))}


def _result_lines(
    m: int, s: Sequence[str], outs: Sequence[str], t: Sequence[str], k: Sequence[str]
) -> list[Lines]:
    """`result_2` and `result_4` of winograd_matrices.py: the lines of each result. s: the values,
    of which the second and the fourth are in registers, which are overwritten, others perhaps in
    memory; outs: registers of the results; t: other registers; k: constants 2, 4, 8."""
    if m == 2:
        return [
            [f"vaddps {s[0]}, {s[1]}, {outs[0]}", f"vaddps {s[2]}, {outs[0]}, {outs[0]}"],
            [f"vsubps {s[2]}, {s[1]}, {outs[1]}", f"vsubps {s[3]}, {outs[1]}, {outs[1]}"],
        ]
    two, four, eight = k
    plus, plus_2 = t[:2]
    minus, minus_2 = s[1], s[3]
    return [
        [
            f"vaddps {s[2]}, {s[1]}, {plus}",
            f"vsubps {s[2]}, {s[1]}, {minus}",
            f"vaddps {s[4]}, {s[3]}, {plus_2}",
            f"vsubps {s[4]}, {s[3]}, {minus_2}",
            f"vaddps {s[0]}, {plus}, {outs[0]}",
            f"vaddps {plus_2}, {outs[0]}, {outs[0]}",
        ],
        [f"vmovaps {minus}, {outs[1]}", f"vfmadd231ps {two}, {minus_2}, {outs[1]}"],
        [f"vmovaps {plus}, {outs[2]}", f"vfmadd231ps {four}, {plus_2}, {outs[2]}"],
        [
            f"vmovaps {minus}, {outs[3]}",
            f"vfmadd231ps {eight}, {minus_2}, {outs[3]}",
            f"vaddps {s[5]}, {outs[3]}, {outs[3]}",
        ],
    ]


_RESULT_CONSTANTS: dict[int, tuple[float, ...]] = {2: (), 4: (2.0, 4.0, 8.0)}


# -- data ----------------------------------------------------------------------------------------


def data_function(g: ConvContext, plan: WinogradSchedule) -> AssemblyFunction:
    """data(data, to, between, maxima, y, x): the square at `data`, whose pixel in the image is
    (y, x), transformed for all channels; outside the image it is zero. `between`: memory of
    plan.points vectors. `maxima` receives those of TileGuard.is_extreme."""
    spec, side, half = g.spec, plan.side, plan.side // 2
    (down, right), sizes = (_numbers(n) for n in (spec.data.strides[3:], spec.in_sizes[1:]))
    transform, constants = _DATA[plan.m]
    names = [f"%zmm{i}" for i in range(32)]
    d, t, rest = names[:side], names[side : side + 4], names[side + 4 :]
    k, rest = rest[: len(constants)], rest[len(constants) :]
    magnitude, seen, squares = rest[0], rest[1], rest[2 : 2 + half * half]
    data, to, between, maxima, y, x = (argument(i) for i in range(6))
    w = TileWriter(TileLayout(F32, plan.lanes, 0, STORE, ()))
    for value, name in zip(constants, k, strict=True):
        w.lines += w.load_constant(value, name, _COUNTER)
    w.add("movl $$0x7fffffff, %eax", f"vpbroadcastd %eax, {magnitude}")
    w.add(*(f"vpxord {s}, {s}, {s}" for s in squares))
    _write_inside(w, side, sizes, (y, x))

    def write_square() -> None:
        for j in range(side):
            w.add(f"btl $${j}, {low_half(_INSIDE)}", "jnc 2f")
            for i, value in enumerate(d):
                at = (i * down + j * right) * 4
                w.add(f"vmovups {at}({data}), {value}{{%k{i + 1}}}{{z}}")
            for i, value in enumerate(d):
                square = squares[i // 2 * half + j // 2]
                w.add(f"vpandd {magnitude}, {value}, {seen}", f"vpmaxsd {seen}, {square}, {square}")
            lines, results = transform(d, t, k)
            w.add(*lines)
            at = [(i * side + j) * _LANE_BYTES for i in range(side)]
            w.add(*(f"vmovaps {r}, {a}({between})" for a, r in zip(at, results, strict=True)))
            w.add("jmp 3f", "2:", f"vpxord {seen}, {seen}, {seen}")
            w.add(*(f"vmovaps {seen}, {a}({between})" for a in at), "3:")
        for i in range(side):
            at = [(i * side + j) * _LANE_BYTES for j in range(side)]
            w.add(*(f"vmovaps {a}({between}), {v}" for a, v in zip(at, d, strict=True)))
            lines, results = transform(d, t, k)
            w.add(*lines)
            for j, r in enumerate(results):
                w.add(f"vmovups {r}, {(i * side + j) * plan.block * plan.pitch * 4}({to})")

    full, tail = divmod(spec.channels, plan.lanes)
    if full:
        w.add(f"movl $${full}, {low_half(_COUNTER)}", "1:")
        write_square()
        w.add(f"addq $${_LANE_BYTES}, {data}", f"addq $${_LANE_BYTES}, {to}")
        w.add(f"decq {_COUNTER}", "jne 1b")
    if tail:
        w.add(f"movl $${(1 << tail) - 1}, %eax", "kmovw %eax, %k7")
        w.add(*(f"kandw %k7, %k{i + 1}, %k{i + 1}" for i in range(side)))
        write_square()
    w.add(*(f"vmovaps {s}, {n * _LANE_BYTES}({maxima})" for n, s in enumerate(squares)))
    w.add("vzeroupper", "retq")
    params = [("ptr noalias readonly", "data"), ("ptr noalias", "to"), ("ptr noalias", "between")]
    params += [("ptr noalias", "maxima"), (I64, "y"), (I64, "x")]
    return g.module.assembly_function("data", params, w.text())


def _numbers(sizes: Sequence[object]) -> list[int]:
    return [n for n in sizes if isinstance(n, int)]


def _write_inside(
    w: TileWriter, side: int, sizes: Sequence[int], position: tuple[str, str]
) -> None:
    """Set a mask register for each row of a square, and a bit of a general register for each
    column: whether it is inside the image."""
    (height, width), (y, x) = sizes, position
    w.add(f"xorl {low_half(_INSIDE)}, {low_half(_INSIDE)}")
    for i in range(side):
        w.add(f"leaq {i}({y}), %rax", f"cmpq $${height}, %rax", "sbbl %eax, %eax")
        w.add(f"kmovw %eax, %k{i + 1}")
    for j in range(side):
        w.add(f"leaq {j}({x}), %rax", f"cmpq $${width}, %rax", "sbbl %eax, %eax")
        w.add(f"andl $${1 << j}, %eax", f"orl %eax, {low_half(_INSIDE)}")


# -- products and results ------------------------------------------------------------------------


def product_function(
    g: ConvContext, plan: WinogradSchedule, loop: MultiplyAddLoop, depth: int
) -> AssemblyFunction | None:
    """product(a, b, to, soon, pace) of winograd.py; None for one that needs LLVM."""
    offsets = tuple(i * plan.nr * 4 + c for i in range(len(loop.rows)) for c in loop.columns)
    a, b, to, soon, pace = (argument(i) for i in range(5))
    layout = TileLayout(g.acc, plan.lanes, len(offsets), STORE, (OperandAddress(to, (), offsets),))
    if not layout.fits(1, g.target, [loop]):
        return None
    w = TileWriter(layout)
    w.zero_sums()
    w.loop(loop, range(len(offsets)), (a, b, soon, pace), _COUNTER, depth)
    w.finish(["%r9"], _COUNTER)
    params = [("ptr noalias readonly", "a"), ("ptr noalias readonly", "b"), ("ptr noalias", "to")]
    return g.module.assembly_function("product", [*params, (PTR, "soon"), (I64, "pace")], w.text())


class _SumRegisters:
    """Registers of the transform of sums: for each column of a square that of its results, three
    temporary ones, constants, and those of the epilogue."""

    def __init__(self, plan: WinogradSchedule, planned: EpilogueAssembly) -> None:
        m, side, constants = plan.m, plan.side, len(_RESULT_CONSTANTS[plan.m])
        finish = max(1, planned.temporaries + len(planned.constants))
        self.count = m * side + 3 + constants + finish
        names = [f"%zmm{i}" for i in range(self.count)]
        self.columns = [names[j * m : (j + 1) * m] for j in range(side)]
        others = names[m * side :]
        self.temporary, self.constants = others[:3], others[3 : 3 + constants]
        self.epilogue = others[3 + constants :]


class _PixelWriter:
    """Writes the epilogue and the store of one pixel of a tile after the other."""

    def __init__(
        self, w: TileWriter, planned: _Epilogue, pointers: Sequence[str], spare: Sequence[str]
    ) -> None:
        self.w, (self.planned, self.operands) = w, planned
        count = self.planned.temporaries
        self.temporaries = spare[:count]
        self.constants = spare[count : count + len(self.planned.constants)]
        self.pointers = pointers[: len(self.operands)]

    def begin(self) -> None:
        """Load addresses and constants."""
        w = self.w
        w.load_masks(_COUNTER)
        w.add(*(f"movq {o.base}, {p}" for o, p in zip(self.operands, self.pointers, strict=True)))
        for value, name in zip(self.planned.constants, self.constants, strict=True):
            w.lines += w.load_constant(value, name, _COUNTER)

    def write(self, index: int, register: str) -> None:
        """Pixel `index`, whose sum is in a register."""
        operands = [replace(o, offsets=(o.offsets[index],)).operand for o in self.operands]
        names = EpilogueRegisters(
            [register], self.temporaries, self.constants, self.pointers, self.w.masks[:1]
        )
        self.w.lines += epilogue_lines(self.planned, F32, operands, names)


def _plan_end(
    g: ConvContext, plan: WinogradSchedule, channels: int | None, address: str
) -> _Epilogue:
    """The epilogue of the convolution; where there are no `channels`, sums are stored one after the
    other from an address on."""
    if channels is None:
        offsets = tuple(i * _LANE_BYTES for i in range(plan.m**2))
        return STORE, (OperandAddress(address, (), offsets),)
    planned = plan_epilogue_of(g, argument(0), _pixels(plan), 1)
    assert planned is not None  # fits_epilogue
    return planned


def result_function(
    g: ConvContext, plan: WinogradSchedule, channels: int | None
) -> AssemblyFunction:
    """result(frame, sums, height, width): one tile's sums of up to a vector of `channels`
    transformed back and finished. At an edge fewer pixels than m x m exist. channels None:
    result(frame, sums, to), which stores the results, of all lanes and pixels."""
    planned = _plan_end(g, plan, channels, argument(2))
    m, side = plan.m, plan.side
    registers = _SumRegisters(plan, planned[0])
    frame, sums, height, width = (argument(i) for i in range(4))
    stored = (channels or plan.lanes,)
    w = TileWriter(TileLayout(F32, plan.lanes, 1, STORE, (), stored))
    for value, name in zip(_RESULT_CONSTANTS[m], registers.constants, strict=True):
        w.lines += w.load_constant(value, name, _COUNTER)
    for j in range(side):
        values = [f"{(i * side + j) * plan.block * plan.nr * 4}({sums})" for i in range(side)]
        loaded = [*registers.temporary, registers.epilogue[0]]
        for i, name in ((1, loaded[0]), (3, loaded[1])):
            if m == 4 or i == 1:
                w.add(f"vmovups {values[i]}, {name}")
                values[i] = name
        outs = registers.columns[j]
        for lines in _result_lines(m, values, outs, loaded[2:], registers.constants):
            w.add(*lines)
    pixels = _PixelWriter(w, planned, [sums, "%r8", "%r9", "%r10", "%r11"], registers.epilogue)
    pixels.begin()
    even = all(isinstance(s, int) and s % m == 0 for s in g.spec.out_sizes[1:])
    even = even or channels is None
    if not even:
        w.add(f"cmpq $${m}, {height}", "jl 4f", f"cmpq $${m}, {width}", "jl 4f")
    _finish_rows(w, registers, m, pixels, None)
    w.add("vzeroupper", "retq")
    if not even:
        w.add("4:")
        _finish_rows(w, registers, m, pixels, (height, width))
        w.add("9:", "vzeroupper", "retq")
    params = [("ptr noalias", "frame"), ("ptr noalias readonly", "sums")]
    params += _last_parameters(channels)
    return g.module.assembly_function("result", params, w.text())


def _last_parameters(channels: int | None) -> list[tuple[str, str]]:
    """Of a function that finishes sums, and of one that stores them."""
    return [("ptr noalias", "to")] if channels is None else [(I64, "height"), (I64, "width")]


def _finish_rows(
    w: TileWriter,
    registers: _SumRegisters,
    m: int,
    pixels: _PixelWriter,
    sizes: tuple[str, str] | None,
) -> None:
    """Transform the rows and finish their pixels. sizes: registers with the numbers of rows and
    columns that exist; None: all do."""
    out, *temporary = registers.temporary
    for i in range(m):
        if sizes is not None:
            w.add(f"cmpq $${i}, {sizes[0]}", "jle 9f")
        values = [column[i] for column in registers.columns]
        rows = _result_lines(m, values, [out] * m, temporary, registers.constants)
        for j, lines in enumerate(rows):
            if sizes is not None:
                w.add(f"cmpq $${j}, {sizes[1]}", "jle 7f")
            w.add(*lines)
            pixels.write(i * m + j, out)
        if sizes is not None:
            w.add("7:")


def direct_function(
    g: ConvContext, plan: WinogradSchedule, panels: int, channels: int | None
) -> AssemblyFunction:
    """direct(frame, data, weights, height, width) of winograd_guard.py, of up to a vector of
    `channels`. None: direct(frame, data, weights, to), which stores the sums, of all lanes and
    pixels."""
    planned = _plan_end(g, plan, channels, argument(3))
    spec, m, side = g.spec, plan.m, plan.side
    frame, data, weights, height, width = (argument(i) for i in range(5))
    pixel = plan.block * plan.pitch * 4
    tap = panels * PackedLayout(plan.channels, plan.nr, plan.nr).size * 4
    loop = MultiplyAddLoop(
        element=F32,
        lanes=plan.lanes,
        rows=tuple((i * side + j) * pixel for i, j in _pixels(plan)),
        columns=(0,),
        a_step=4,
        b_step=plan.nr * 4,
        unroll=1,
    )
    stored = (channels or plan.lanes,) * (m * m)
    w = TileWriter(TileLayout(F32, plan.lanes, m * m, *planned, stored))
    w.zero_sums()
    rows, taps, slices = "%r9", "%r10", "%r11"
    if plan.slices > 1:
        w.add(f"movl $${plan.slices}, {low_half(slices)}", "4:")
    w.add(f"movl $${_TAPS}, {low_half(rows)}", "5:", f"movl $${_TAPS}, {low_half(taps)}", "6:")
    moved = w.loop(loop, range(m * m), (data, weights, "", ""), _COUNTER, spec.channels)
    w.add(f"addq $${pixel - moved * loop.a_step}, {data}")
    w.add(f"addq $${tap - moved * loop.b_step}, {weights}", f"decq {taps}", "jne 6b")
    w.add(f"addq $${(side - _TAPS) * pixel}, {data}", f"decq {rows}", "jne 5b")
    if plan.slices > 1:
        w.add(f"subq $${_TAPS * side * pixel - spec.channels * 4}, {data}")
        w.add(f"subq $${_TAPS * _TAPS * tap - spec.channels * plan.nr * 4}, {weights}")
        w.add(f"decq {slices}", "jne 4b")
    pixels = _PixelWriter(w, planned, [data, weights, "%r9", "%r10", "%r11"], w.spare)
    pixels.begin()
    for i in range(m):
        w.add(*[f"cmpq $${i}, {height}", "jle 9f"] * (channels is not None))
        for j in range(m):
            w.add(*[f"cmpq $${j}, {width}", "jle 7f"] * (channels is not None))
            pixels.write(i * m + j, w.sums[i * m + j])
        w.add("7:")
    w.add("9:", "vzeroupper", "retq")
    params = [("ptr noalias", "frame"), ("ptr noalias readonly", "data")]
    params += [("ptr noalias readonly", "weights"), *_last_parameters(channels)]
    return g.module.assembly_function("direct", params, w.text())
