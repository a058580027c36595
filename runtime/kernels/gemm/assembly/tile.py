"""Tiles of vector registers as functions in assembly (emit/x86_tile.py): floats that need no
conversion, static strides, and an epilogue that has a plan."""

from __future__ import annotations

from collections.abc import Sequence

from ....llvmir.builder import AssemblyFunction
from ...emit.x86_epilogue import STORE, EpilogueAssembly, plan_epilogue
from ...emit.x86_multiply_add_loop import MultiplyAddLoop
from ...emit.x86_tile import OperandAddress, TileLayout, TileWriter, argument
from ..context import GemmContext, TileShape

# Parameters of a tile (micro_kernel.py) by number.
_FRAME, _A, _B, _M, _N = (argument(i) for i in range(5))
_K, _FIRST, _BUFFER, _SOON, _PACE = (argument(i) for i in range(6, 11))
_COUNTER, _AHEAD, _STEP = "%rax", "%r10", "%r11"
# What the loop used, and the number of columns, which full tiles do not need.
_POINTERS = ("%rdx", "%rsi", "%r9", "%r10", "%r11")


def write_tile(
    g: GemmContext,
    stem: str,
    params: Sequence[tuple[str, str]],
    shape: TileShape,
    columns: Sequence[int],
    loop: MultiplyAddLoop,
) -> AssemblyFunction | None:
    """The function of a tile; None for one that needs LLVM."""
    t, n = g.schedule, g.spec.n
    padded = g.spec.packed is not None or t.pack_b
    if g.unit or g.block_unit is not None or g.corrections:
        return None
    if shape.edge and not (padded and isinstance(n, int)):
        return None
    buffer = tuple((i * t.width + c) * g.bytes for i in range(shape.rows) for c in columns)
    if t.stores_sums(in_place=shape.in_place):
        epilogue, operands = STORE, (OperandAddress(_BUFFER, (), buffer),)
    elif (planned := _plan_epilogue(g, columns, shape.rows)) is not None:
        epilogue, operands = planned
    else:
        return None
    stored = (t.lanes,) * len(buffer)
    if shape.edge and isinstance(n, int):
        stored = tuple(min(t.lanes, n % t.nr - c) for c in columns) * shape.rows
    layout = TileLayout(g.acc, t.lanes, len(buffer), epilogue, operands, stored)
    if not layout.fits(len(_POINTERS), g.target, [loop]):
        return None
    writer = TileWriter(layout)
    writer.load_masks(_COUNTER)
    if t.blocked:
        writer.add(f"testb $$1, {_FIRST}", "jne 5f", f"movq {_BUFFER}, {_COUNTER}")
        writer.load_sums(_COUNTER, buffer)
        writer.add("jmp 6f", "5:")
        writer.zero_sums()
        writer.add("6:")
    else:
        writer.zero_sums()
    if loop.ahead:
        writer.add(f"movq {_SOON}, {_AHEAD}", f"movq {_PACE}, {_STEP}")
    depth = t.kc if isinstance(g.spec.k, int) and not t.blocked else None
    if depth is None:
        writer.add(f"movq {_K}, {_COUNTER}")
    writer.loop(loop, range(len(buffer)), (_A, _B, _AHEAD, _STEP), _COUNTER, depth)
    writer.finish(_POINTERS, _COUNTER)
    return g.module.assembly_function(stem, params, writer.text())


def _plan_epilogue(
    g: GemmContext, columns: Sequence[int], rows: int
) -> tuple[EpilogueAssembly, tuple[OperandAddress, ...]] | None:
    """The epilogue and its operands, whose addresses begin in the frame."""
    spec = g.spec
    split = spec.out_m_split is not None or spec.out_n_split is not None
    if split or {o.dtype for o in g.walked_operands} != {spec.acc}:
        return None
    strides: list[tuple[int, int]] = []
    for o in g.walked_operands:
        down, right = o.strides[-2:]
        if not isinstance(down, int) or not isinstance(right, int) or right not in (0, 1):
            return None
        strides.append((down, right))
    if strides[-1][1] != 1:
        return None
    planned = plan_epilogue(spec.epilogue, [right == 0 for _, right in strides[:-1]], g.acc)
    if planned is None:
        return None
    return planned, tuple(
        OperandAddress(
            f"{8 * i}({_FRAME})",
            tuple((of, n * g.bytes) for of, n in ((_M, down), (_N, right)) if n),
            tuple((r * down + c * right) * g.bytes for r in range(rows) for c in columns),
            broadcast=right == 0,
        )
        for i, (down, right) in enumerate(strides)
    )
