"""How many tiles of rows, and how many panels, make a block: for vectors and for tiles of AMX."""

from __future__ import annotations

from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target

_UNLIMITED_ROWS = 1 << 20


def block_sizes(
    spec: GemmSpec,
    target: Target,
    tile: tuple[int, int, int],
    blocked: bool,
    pack_b: bool,
    most: int = _UNLIMITED_ROWS,
) -> tuple[int, int]:
    """MC in tiles, at most `most`, and NC in panels, for tiles of (MR, NR, KC): a block of A takes
    a third of L2, and so do its partial sums.

    Where K is not split there are none, and NC matters only as the scratch of a packed B.
    """
    (mr, nr, kc), size = tile, spec.acc.bits // 8
    h = target.heuristics
    third = (target.l2 or 256 << 10) // h.gemm_a_block_l2_divisor
    mc, nc = min(most, max(1, third // (mr * kc * size))), _UNLIMITED_ROWS
    if isinstance(spec.m, int):
        tiles = max(1, -(-spec.m // mr))
        mc = -(-tiles // -(-tiles // mc))
    if blocked:
        mc = min(mc, h.gemm_max_summed_tiles)
        nc = max(1, third // (mc * mr * nr * size))
    if pack_b:
        nc = min(nc, max(1, 3 * third // (kc * nr * size)))
    if isinstance(spec.n, int):
        panels = max(1, -(-spec.n // nr))
        nc = -(-panels // -(-panels // nc))
    return mc, nc


def is_narrow(spec: GemmSpec, nr: int) -> bool:
    """Whether an element of A is used too few times to be worth copying."""
    return isinstance(spec.n, int) and spec.n <= 2 * nr
