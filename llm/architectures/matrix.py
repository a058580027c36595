"""Weight matrices as a graph holds them: floats, or small integers with scales in groups.

A matrix is [N, K], one row for each output, as GGUF and safetensors store it. It is multiplied as
x [..., K] x W^T, and read row by row where it is an embedding table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ... import builder as ops
from ...builder import Tensor
from ...compiler.compressed_weights import narrow_to_f16
from ...ir import ops as o
from ...ir.deferred_array import DeferredArray
from ...ir.dtype import DType
from ...ir.int4 import Int4Bytes
from ...ir.lazy_dataclass import dataclass
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

    dtype: of the codes, u4, u8 or i8. codes: their bytes in rows, u8 [N, K], of u4 [N, K / 2]: two
    in a byte, the first in the low half. scale and offset: f32 [N, K / group].
    """

    codes: DeferredArray
    dtype: DType
    group: int
    scale: Array
    form: str
    zero: int = 0
    offset: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        rows, width = self.codes.shape
        return rows, width * 2 if self.dtype is DType.u4 else width

    def values(self) -> Array:
        """The matrix in f32."""
        rows, columns = self.shape
        numbers = self._number_array().unpack().view(np.int8 if self.dtype.is_signed else np.uint8)
        grouped = numbers.reshape(rows, -1, self.group).astype(np.float32)
        found = (grouped - np.float32(self.zero)) * self.scale[:, :, None]
        if self.offset is not None:
            found += self.offset[:, :, None]
        return found.reshape(rows, columns)

    def take_rows(self, index: Any) -> GroupedMatrix:
        """Rows of the matrix, by a slice or by indices."""
        scale, codes = self.scale[index], self.codes
        picked = DeferredArray(
            codes.dtype, (len(scale), codes.shape[1]), lambda: codes.unpack()[index]
        )
        offset = None if self.offset is None else self.offset[index]
        return replace(self, codes=picked, scale=scale, offset=offset)

    def multiply(self, x: Tensor) -> Tensor:
        """x [..., K] times the transposed matrix, [..., N]."""
        codes, scale = _deferred_constant(self._number_array()), _constant(self.scale)
        if self.offset is not None:
            form = o.AffineDequantize(1, self.group)
            weight = ops.apply(form, codes, scale, _constant(self.offset))
        else:
            shape = self.scale.shape if self.zero else (0, 0)
            zero = self._zero_constant(shape) if self.zero else None
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
        found = picked * ops.unsqueeze(_pick_numbers(self.scale, ids), 3)
        if self.offset is not None:
            found = found + ops.unsqueeze(_pick_numbers(self.offset, ids), 3)
        return _reshape(found, [0, 0, columns])

    def _pick_codes(self, ids: Tensor) -> Tensor:
        """Codes [..., K] of rows. The table has two codes of 4 bits in a byte."""
        if self.dtype is not DType.u4:
            return ops.gather(_deferred_constant(self._number_array()), ids)
        picked = ops.unsqueeze(ops.gather(_deferred_constant(self.codes), ids), 3)
        low = ops.apply(o.BitwiseAnd(), picked, np.uint8(15))
        high = ops.apply(o.BitwiseRightShift(), picked, np.uint8(4))
        return _reshape(ops.concat([low, high], 3), [0, 0, self.shape[1]])

    def _number_array(self) -> DeferredArray:
        """The codes as numbers of their type, [N, K]."""
        codes, dtype, shape = self.codes, self.dtype, self.shape

        def make() -> Array | Int4Bytes:
            found = codes.unpack()
            four = dtype is DType.u4
            return Int4Bytes(dtype, shape, found.reshape(-1)) if four else found.view(dtype.numpy)

        return DeferredArray(dtype, shape, make, codes)

    def _zero_constant(self, shape: tuple[int, ...]) -> Tensor:
        zero = np.full(shape, self.zero, np.uint8).view(self.dtype.numpy)
        return ops.apply(o.Constant.of(zero, self.dtype))


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
    codes = [m.codes for m in same]
    rows = sum(c.shape[0] for c in codes)
    joined = DeferredArray(
        first.codes.dtype,
        (rows, first.codes.shape[1]),
        lambda: np.concatenate([c.unpack() for c in codes]),
    )
    return replace(
        first,
        codes=joined,
        scale=np.concatenate([m.scale for m in same]),
        offset=np.concatenate(offsets) if offsets else None,
    )


def _deferred_constant(array: DeferredArray) -> Tensor:
    return ops.apply(o.DeferredConstant(array))


def _constant(array: Array) -> Tensor:
    """A constant that holds the array itself."""
    return ops.apply(o.Constant.of(array, DType.from_numpy(array.dtype)))


def _pick_numbers(table: Array, ids: Tensor) -> Tensor:
    """Rows of numbers in f32, of a table in f16 where that has them all."""
    return _as_f32(ops.gather(_constant(narrow_to_f16(table)), ids))


def _as_f32(x: Tensor) -> Tensor:
    return x if x.dtype == "f32" else ops.convert(x, "f32")


def _reshape(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Reshape where 0 keeps a size."""
    return ops.apply(o.Reshape(True), x, np.array(sizes, np.int64))
