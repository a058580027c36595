"""Weight matrices as a graph holds them: floats, or small integers with scales in groups.

A matrix is [N, K], one row for each output, as GGUF and safetensors store it. It is multiplied as
x [..., K] x W^T, and read row by row where it is an embedding table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import builder as ops
from ...builder import Tensor
from ...ir import ops as o
from ...ir.dtype import DType
from ...ir.op import Array


@dataclass(frozen=True, eq=False)
class FloatMatrix:
    """f32, f16 or bf16; `form` says what the file had."""

    data: Array
    form: str

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.data.shape[0], self.data.shape[1]

    def values(self) -> Array:
        """The matrix in f32."""
        return self.data.astype(np.float32)

    def take_rows(self, index: Any) -> FloatMatrix:
        """Rows of the matrix, by a slice or by indices."""
        return replace(self, data=self.data[index])

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., K] times the transposed matrix, [..., N]."""
        return ops.matmul(x, _as_f32(_constant(self.data)), transpose_b=True)

    def pick_rows(self, ids: Tensor) -> Tensor:
        """Rows [..., K] in f32."""
        return _as_f32(ops.gather(_constant(self.data), ids))


@dataclass(frozen=True, eq=False)
class GroupedMatrix:
    """(codes - zero) * scale + offset; `group` neighbours of a row share scale and offset.

    codes [N, K] of u4, u8 or i8 (`dtype`), one to a byte; scale and offset f32 [N, K / group].
    """

    codes: Array
    dtype: DType
    group: int
    scale: Array
    form: str
    zero: int = 0
    offset: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.codes.shape[0], self.codes.shape[1]

    def values(self) -> Array:
        """The matrix in f32."""
        rows, columns = self.shape
        grouped = self._numbers().reshape(rows, -1, self.group).astype(np.float32)
        found = (grouped - np.float32(self.zero)) * self.scale[:, :, None]
        if self.offset is not None:
            found += self.offset[:, :, None]
        return found.reshape(rows, columns)

    def take_rows(self, index: Any) -> GroupedMatrix:
        """Rows of the matrix, by a slice or by indices."""
        offset = None if self.offset is None else self.offset[index]
        return replace(self, codes=self.codes[index], scale=self.scale[index], offset=offset)

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., K] times the transposed matrix, [..., N]."""
        codes, scale = self._code_constant(self.codes), _constant(self.scale)
        if self.offset is not None:
            form = o.AffineDequantize(1, self.group)
            weight = ops.apply(form, codes, scale, _constant(self.offset))
        else:
            shape = self.scale.shape if self.zero else (0, 0)
            zero = self._code_constant(np.full(shape, self.zero, np.uint8)) if self.zero else None
            weight = ops.apply(o.Dequantize(1, self.group), codes, scale, zero)
        return ops.matmul(x, weight, transpose_b=True)

    def pick_rows(self, ids: Tensor) -> Tensor:
        """Rows [..., K] in f32, from ids [B, S]; only what is picked is dequantized."""
        columns = self.shape[1]
        sizes = [0, 0, columns // self.group, self.group]
        picked = ops.convert(self._pick_codes(ids), "f32")
        if self.zero:
            picked = picked - float(self.zero)
        picked = _reshape(picked, sizes)
        found = picked * ops.unsqueeze(ops.gather(_constant(self.scale), ids), 3)
        if self.offset is not None:
            found = found + ops.unsqueeze(ops.gather(_constant(self.offset), ids), 3)
        return _reshape(found, [0, 0, columns])

    def _pick_codes(self, ids: Tensor) -> Tensor:
        """Codes [..., K] of rows. The table has two codes of 4 bits in a byte."""
        if self.dtype is not DType.u4 or self.shape[1] % 2:
            return ops.gather(_constant(self._numbers()), ids)
        pairs = self.codes.reshape(len(self.codes), -1, 2)
        table = pairs[:, :, 1] << 4
        table |= pairs[:, :, 0]
        picked = ops.unsqueeze(ops.gather(_constant(table), ids), 3)
        low = ops.apply(o.BitwiseAnd(), picked, np.uint8(15))
        high = ops.apply(o.BitwiseRightShift(), picked, np.uint8(4))
        return _reshape(ops.concat([low, high], 3), [0, 0, self.shape[1]])

    def _numbers(self) -> Array:
        """The codes as bytes of their sign."""
        return self.codes.view(np.int8) if self.dtype is DType.i8 else self.codes

    def _code_constant(self, codes: Array) -> Tensor:
        return ops.apply(o.Constant.of(codes.view(self.dtype.numpy), self.dtype))


Matrix = FloatMatrix | GroupedMatrix


def join_rows(matrices: Sequence[Matrix]) -> Matrix | None:
    """Matrices of equal form one below the other, so that one product computes them all; None where
    their forms differ."""
    first = matrices[0]
    if isinstance(first, FloatMatrix):
        alike = [m for m in matrices if isinstance(m, FloatMatrix)]
        if len(alike) < len(matrices) or len({m.data.dtype for m in alike}) > 1:
            return None
        return replace(first, data=np.concatenate([m.data for m in alike]))
    same = [m for m in matrices if isinstance(m, GroupedMatrix)]
    kinds = {(m.dtype, m.group, m.zero, m.offset is None) for m in same}
    if len(same) < len(matrices) or len(kinds) > 1:
        return None
    offsets = [m.offset for m in same if m.offset is not None]
    return replace(
        first,
        codes=np.concatenate([m.codes for m in same]),
        scale=np.concatenate([m.scale for m in same]),
        offset=np.concatenate(offsets) if offsets else None,
    )


def _constant(array: Array) -> Tensor:
    """A constant that holds the array itself."""
    return ops.apply(o.Constant.of(array, DType.from_numpy(array.dtype)))


def _as_f32(x: Tensor) -> Tensor:
    return x if x.dtype == "f32" else ops.convert(x, "f32")


def _reshape(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Reshape where 0 keeps a size."""
    return ops.apply(o.Reshape(True), x, np.array(sizes, np.int64))
