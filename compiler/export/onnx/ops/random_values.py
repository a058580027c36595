"""Random values: the distribution is kept, the numbers are the runtime's own."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.ops import RandomUniform
from ..context import ExportContext, Exported, ExportFunction
from ..value_types import data_type


def _random_uniform(n: ExportContext) -> Exported:
    op = n.cast_op(RandomUniform)
    limits = [n.known(port) for port in (1, 2)]
    low, high = (None if v is None else float(v.reshape(-1)[0]) for v in limits)
    to = op.output_type
    if low is None or high is None:
        raise n.error("limits that are not constants")
    wide = to if to.is_float else DType.f32
    seed = float(op.global_seed * 65536 + op.op_seed) if op.global_seed or op.op_seed else None
    like = n.add("Expand", n.scalar(0, wide), n.vector(0))
    found = n.add(
        "RandomUniformLike",
        like,
        dtype=data_type(wide, n.opset, n.where),
        low=low,
        high=high,
        seed=seed,
    )
    return found if wide is to else n.cast(n.add("Floor", found), to)


EXPORTERS: dict[str, ExportFunction] = {"RandomUniform": _random_uniform}
