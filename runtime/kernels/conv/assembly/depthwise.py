"""Tiles of depthwise convolutions as functions in assembly (emit/x86_tile.py): floats that need no
conversion, known strides, at most two spatial axes, rows of few taps, and an epilogue that has a
plan; with AVX-512 the last channels, too, which fill a part of a vector."""

from __future__ import annotations

from collections.abc import Sequence

from ....llvmir.builder import AssemblyFunction
from ....llvmir.values import ELEMENT, bits_of
from ...emit.x86_epilogue import STORE, EpilogueAssembly
from ...emit.x86_tile import OperandAddress, TileLayout, TileWriter, argument
from ..addressing import ConvContext
from ..schedule import DepthwiseSchedule
from ..tile_partition import pair_pixels_with_taps
from ..tile_walk import ConvTile
from .tile import plan_epilogue_of

# Parameters of a tile (depthwise.py) by number.
_FRAME, _DATA, _WEIGHTS, _D0, _D1, _H0, _H1 = (argument(i) for i in range(7))
_SCRATCH, _ROWS = "%rax", "%r8"
_POINTERS = ("%rdx", "%rsi", "%rcx", "%r8", "%r9", "%r10", "%r11")
# Displacements are immediates of 32 bits, signed.
_MAX_OFFSET_BYTES = 2**31 - 1


def write_tile(
    g: ConvContext,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
    schedule: DepthwiseSchedule,
) -> AssemblyFunction | None:
    """The function of a tile; None for one that needs LLVM."""
    planned = plan_epilogue_of(g, _FRAME, [(0, i) for i in range(tile.columns)], 1)
    if planned is None or not schedule.inline_epilogue:
        return None
    return _assemble(g, stem, params, tile, schedule, planned)


def write_sums(
    g: ConvContext,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
    schedule: DepthwiseSchedule,
) -> AssemblyFunction | None:
    """The function of a tile without its epilogue; None for one that needs LLVM. It has one more
    parameter, where it stores the sums, pixel by pixel."""
    offsets = tuple(i * g.lanes * g.bytes for i in range(tile.columns))
    stored = OperandAddress(argument(len(params)), (), offsets)
    params = [*params, ("ptr noalias", "sums")]
    return _assemble(g, stem, params, tile, schedule, (STORE, (stored,)), whole=True)


def _assemble(
    g: ConvContext,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
    schedule: DepthwiseSchedule,
    planned: tuple[EpilogueAssembly, tuple[OperandAddress, ...]],
    *,
    whole: bool = False,
) -> AssemblyFunction | None:
    """A tile's function with an epilogue and its operands. whole: all lanes of sums are stored."""
    spec, w = g.spec, g.spec.window
    if tile.ragged or not schedule.unrolls:
        return None
    plain = {ELEMENT[o.dtype.value] for o in (spec.data, spec.weights)} == {g.acc} and not g.zeros
    row, column = spec.data.strides[3:]
    if not plain or g.flushes or w.kernel[0] != 1:
        return None
    if not isinstance(row, int) or not isinstance(column, int):
        return None
    width = w.kernel[2]
    stored = (tile.channels,) * tile.columns
    layout = TileLayout(g.acc, g.lanes, tile.columns, *planned, stored)
    reach = (tile.columns * w.strides[2] + width * w.dilations[2]) * abs(column) * g.bytes
    far = max(reach, abs(row) * w.dilations[1] * g.bytes)
    fits = layout.fits(len(_POINTERS), g.target, spare=width + 1)
    if not fits or not g.target.fma or far > _MAX_OFFSET_BYTES:
        return None
    writer = TileWriter(layout)
    writer.load_masks(_SCRATCH)
    writer.zero_sums()
    row_bytes, vector_bytes = row * w.dilations[1] * g.bytes, g.lanes * bits_of(g.acc) // 8
    # One tap along the outermost axis, which may be outside.
    writer.add(f"cmpq {_D1}, {_D0}", "jge 8f", f"movq {_H1}, {_ROWS}", f"subq {_H0}, {_ROWS}")
    writer.add("jle 8f")
    steps = ((_DATA, row_bytes), (_WEIGHTS, width * vector_bytes))
    for register, step in steps:
        writer.add(f"imulq $${step}, {_H0}, {_SCRATCH}", f"addq {_SCRATCH}, {register}")
    writer.add(".p2align 4", "6:")
    _write_row(g, writer, tile, column * g.bytes, vector_bytes)
    writer.add(*(f"addq $${step}, {register}" for register, step in steps))
    writer.add(f"decq {_ROWS}", "jne 6b", "8:")
    writer.finish(_POINTERS, _SCRATCH, whole=whole)
    return g.module.assembly_function(stem, params, writer.text())


def _write_row(
    g: ConvContext, writer: TileWriter, tile: ConvTile, column: int, vector_bytes: int
) -> None:
    """The products of a row of taps: what neighbouring pixels read in common is loaded once."""
    w, suffix = g.spec.window, writer.suffix
    pairs = pair_pixels_with_taps(w, tile.column_taps, tile.columns, range(w.kernel[2]))
    filters, x = writer.spare[: w.kernel[2]], writer.spare[w.kernel[2]]
    # Of the last channels no others are read: data may end there.
    mask = writer.masks[0]
    for kw, name in enumerate(filters):
        writer.add(f"vmovup{suffix} {kw * vector_bytes}({_WEIGHTS}), {name}")
    for at, met in pairs.items():
        address, read = f"{at * column}({_DATA})", mask
        if len(met) > 1:
            writer.add(f"vmovup{suffix} {address}, {x}{mask and mask + '{z}'}")
            address, read = x, ""
        for i, kw in met:
            writer.add(f"vfmadd231p{suffix} {address}, {filters[kw]}, {writer.sums[i]}{read}")
