"""Beams of a beam search from its steps and parents: GatherTree."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import NUMBERS
from ..shape_inference import (
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)


class GatherTree(Op):
    """The tokens of each beam [T, N, beams], `end_token` behind its end.

    step_ids and parent_idx [T, N, beams], max_seq_len [N], end_token a number.
    """

    kind: ClassVar[str] = "GatherTree"
    version: ClassVar[int] = 1
    scratch_width: ClassVar[int] = 12
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("step_ids"),
        Port("parent_idx"),
        Port("max_seq_len"),
        Port("end_token"),
    )

    def infer(
        self, step_ids: Fact, parent_idx: Fact, max_seq_len: Fact, end_token: Fact
    ) -> tuple[Type, ...]:
        dtype = one_dtype(step_ids, parent_idx, max_seq_len, end_token)
        require_dtype(step_ids, "step_ids", NUMBERS, "a numeric type")
        require_rank(step_ids, "step_ids", 3)
        require_rank(parent_idx, "parent_idx", 3)
        require_rank(max_seq_len, "max_seq_len", 1)
        require_single(end_token, "end_token")
        have, other = step_ids.tensor.shape, parent_idx.tensor.shape
        if have is not None and other is not None:
            for a, b in zip(have, other, strict=True):
                same_size(a, b, "step_ids and parent_idx differ in shape")
        shape = have or other
        if shape is not None and max_seq_len.tensor.shape is not None:
            same_size(shape[1], max_seq_len.tensor.shape[0], "max_seq_len has a number per batch")
        return (TensorType(dtype, shape),)

    def evaluate(
        self, step_ids: Array, parent_idx: Array, max_seq_len: Array, end_token: Array
    ) -> tuple[Array, ...]:
        steps, batch, beams = step_ids.shape
        end = end_token.reshape(-1)[0]
        lengths = np.clip(max_seq_len.astype(np.int64), 0, steps)
        parents = parent_idx.astype(np.int64)
        step: Array = np.arange(int(steps))
        used = step[1:, None, None] < lengths[None, :, None]
        if np.any(used & ((parents[1:] < 0) | (parents[1:] >= beams))):
            raise ShapeError(
                "parent_idx names a beam that is out of range", expected=f"0..{beams - 1}"
            )
        out = np.full(step_ids.shape, end, step_ids.dtype)
        count: Array = np.arange(int(batch))
        rows = count[:, None]
        beam: Array = np.broadcast_to(np.asarray(range(beams), np.int64), (batch, beams))
        for t in range(steps - 1, -1, -1):
            inside = (t < lengths)[:, None]
            out[t] = np.where(inside, step_ids[t, rows, beam], out[t])
            if t:
                beam = np.where(inside, parents[t, rows, beam], beam)
        ended = np.logical_or.accumulate(out == end, axis=0)
        return (np.where(ended, end, out).astype(step_ids.dtype, copy=False),)
