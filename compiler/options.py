"""What a caller can choose about compilation, in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

# Constant folding may make a model's constants grow by at most this much (docs/architecture.md).
FOLDING_LIMIT = 64 * 2**20
PRECISIONS = ("f32", "bf16")


@dataclass(frozen=True)
class Options:
    """Options of the passes and of lowering.

    precision: "f32" keeps a float32 model in float32; "bf16" lets matrix products take bf16
    operands. fold_limit: bytes by which folding may enlarge the constants. verify: check the
    graph after every pass. stop_after: stop once this many rules have fired (a bisecting tool).
    """

    precision: str = "f32"
    fold_limit: int = FOLDING_LIMIT
    verify: bool = False
    stop_after: int | None = None
