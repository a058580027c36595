"""Inverses of matrices: Inverse."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import Type
from ..shape_inference import require_dtype, same_size
from .elementwise import FLOATS


@dataclass(frozen=True)
class Inverse(Op):
    """The inverse of each matrix [..., n, n], transposed where `adjoint`. A singular matrix is an
    error."""

    kind: ClassVar[str] = "Inverse"
    version: ClassVar[int] = 14
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    adjoint: bool = False

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        shape = data.tensor.shape
        if shape is not None:
            if len(shape) < 2:
                raise ShapeError("Inverse takes matrices", got=data.type, expected="rank 2 or more")
            same_size(shape[-1], shape[-2], "a matrix is not square")
        return (data.tensor,)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        wide: Any = data.astype(np.float64)
        inverse: Any = np.linalg.inv
        out: Array = inverse(wide)
        out = out.swapaxes(-1, -2) if self.adjoint else out
        return (cast_array(out, DType.from_numpy(data.dtype)),)
