"""Compressed weights: a product's constant right operand that stays small integers in memory.

Recognised here for lowering and for the passes that must not expand such a constant.
"""

from __future__ import annotations

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph
from ....ir.op import Op
from ....plan.packing.layouts import PackedB
from ....plan.packing.panel_params import (
    bf16x3_group,
    compressed_layout,
    dot_group,
    has_f16_conversion,
    normal_scales,
)
from ....plan.specs.base import Operand
from ....plan.specs.gemm import Compressed
from ....plan.target import Target
from ...compressed_weights import CompressedWeight, compressed_weight, narrow_to_f16
from ...options import Options
from ...strided_view import View
from ..build.region_lowering import RegionLowering


def right_ports(graph: Graph, node: int, op: Op) -> tuple[int, ...]:
    """The inputs that a product reads at run time: a compressed weight is known."""
    count = len(graph.inputs(node))
    known = compressed_weight(graph, node) is not None
    return tuple(p for p in range(count) if p != 1 or not known)


def packed_codes(
    lowering: RegionLowering, weight: CompressedWeight, name: str
) -> tuple[View, PackedB]:
    """The buffer of a compressed weight's codes, and their layout."""
    codes, target = weight.codes, lowering.target
    layout = compressed_layout(weight.k, weight.n, codes.dtype, weight.group, target)
    assert layout is not None
    return lowering.array(codes.content, codes.dtype, layout, name, weight.transposed), layout


def compressed_operand(
    lowering: RegionLowering, weight: CompressedWeight, name: str
) -> tuple[View, PackedB, list[View]]:
    """The buffers of a compressed weight: its codes, their layout, scales, and zeros or offsets.
    Their strides mean nothing and are 0."""
    codes, layout = packed_codes(lowering, weight, name)
    ones = (1,) * (len(weight.codes.content.shape) - 2)
    shape = (*ones, weight.k, weight.n)
    b = View(codes.buffer, codes.dtype, shape, (0,) * len(shape))
    given = (weight.scale, weight.zero, weight.offset)
    arrays = [x for x in given if isinstance(x, np.ndarray)]
    if has_f16_conversion(lowering.target):
        arrays = [narrow_to_f16(x) for x in arrays]
    scaling = [
        lowering.array(x, DType.from_numpy(x.dtype), PackedB(layout.nr), name) for x in arrays
    ]
    return b, layout, scaling


def compressed_spec(
    weight: CompressedWeight,
    scaling: list[View],
    rank: int,
    options: Options,
    target: Target,
    *,
    rounds: bool,
) -> Compressed:
    """What a product of `rank` axes says of a compressed weight. rounds: whether factors are
    rounded to half precision, if activations are not int8."""
    scale, *others = (Operand(v.dtype, (0,) * rank) for v in scaling)
    zero = weight.zero if isinstance(weight.zero, int) else others[0]
    offset = None if weight.offset is None else others[-1]
    group, codes, bf16x3 = 0, weight.codes.dtype, False
    if options.activations == "int8":
        group = dot_group(weight.k, weight.group, codes)
    rounded = not group and scale.dtype.numpy == weight.scale.dtype
    exact = weight.scale.dtype == np.float32 and options.denormals != "keep"
    if not group and exact and not rounds:
        number = zero if isinstance(zero, int) else 0
        group = bf16x3_group(weight.k, weight.group, codes, number, target)
        rounded, bf16x3 = rounded and not group, group > 0
    normal = rounded and normal_scales(weight.scale)
    return Compressed(weight.group, scale, zero, normal, offset, rounded, group, bf16x3)
