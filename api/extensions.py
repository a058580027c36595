"""What operations and passes of one's own are made of (docs/extensions.md).

import irc_compiler as irc
from irc_compiler.api.extensions import Builder, Elementwise, Op, Patch, Port, Ref
"""

from __future__ import annotations

from ..compiler.rewrite.patch import MatchFailure, Patch
from ..ir import ops as operations
from ..ir.dims import Dim
from ..ir.dtype import DType
from ..ir.errors import ShapeError
from ..ir.graph import Graph, Value
from ..ir.op import Array, Fact, Op, Port
from ..ir.ops.math.elementwise import Binary, Elementwise, Unary
from ..ir.scalar.builder import Builder, Ref
from ..ir.types import TensorType, Type

__all__ = [
    "Array",
    "Binary",
    "Builder",
    "DType",
    "Dim",
    "Elementwise",
    "Fact",
    "Graph",
    "MatchFailure",
    "Op",
    "Patch",
    "Port",
    "Ref",
    "ShapeError",
    "TensorType",
    "Type",
    "Unary",
    "Value",
    "operations",
]
