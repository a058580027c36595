"""Connectionist temporal classification: CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    fresh_symbol,
    int_of,
    ints_of,
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)

# Temporaries per step of a sequence: classes, their order, and which of them are kept.
_DECODING_BYTES = 48
# The same of one sequence for CTCLoss: logarithms per class, and states of the alignment, two for
# each label.
_LOSS_BYTES_PER_CLASS, _LOSS_BYTES_PER_STEP = 40, 320


def _decode(best: Array, valid: Array, blank: int, merge: bool) -> tuple[Array, Array]:
    """Classes [N, T] moved to the front of their rows, -1 behind them, and their counts [N].

    best [N, T] are the most probable classes, valid [N, T] the steps that count.
    """
    keep = valid & (best != blank)
    if merge:
        keep[:, 1:] &= best[:, 1:] != best[:, :-1]
    order = np.argsort(~keep, axis=1, kind="stable")
    counts = keep.sum(axis=1)
    steps: Array = np.arange(int(best.shape[1]))
    front = steps < counts[:, None]
    return np.where(front, np.take_along_axis(best, order, axis=1), -1), counts


@dataclass(frozen=True)
class CTCGreedyDecoder(Op):
    """The most probable classes [N, T, 1, 1] without blanks (the last class) and repetitions.

    data [T, N, C]; sequence_mask [T, N] is 0 from the end of each sequence on.
    """

    kind: ClassVar[str] = "CTCGreedyDecoder"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("sequence_mask"))
    ctc_merge_repeated: bool = True

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _DECODING_BYTES * outputs[0].elements + widened_bytes(*inputs)

    def infer(self, data: Fact, sequence_mask: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        one_dtype(data, sequence_mask)
        require_rank(data, "data", 3)
        require_rank(sequence_mask, "sequence_mask", 2)
        shape, mask = data.tensor.shape, sequence_mask.tensor.shape
        steps, count = (mask or shape or (fresh_symbol(self), fresh_symbol(self)))[:2]
        if shape is not None and mask is not None:
            for axis in (0, 1):
                same_size(shape[axis], mask[axis], "data and sequence_mask differ in shape")
        return (TensorType(data.tensor.dtype, (count, steps, 1, 1)),)

    def evaluate(self, data: Array, sequence_mask: Array) -> tuple[Array, ...]:
        best = widen_array(data).argmax(axis=2).T
        valid = np.logical_and.accumulate(widen_array(sequence_mask).T != 0, axis=1)
        found, _ = _decode(best, valid, data.shape[2] - 1, self.ctc_merge_repeated)
        return (narrow_array(found.astype(np.float32), data.dtype)[..., None, None],)


@dataclass(frozen=True)
class CTCGreedyDecoderSeqLen(Op):
    """The most probable classes [N, T] without blanks and repetitions, -1 behind them, and how many
    there are [N]. data [N, T, C], sequence_length [N], blank_index: the last class by default."""

    kind: ClassVar[str] = "CTCGreedyDecoderSeqLen"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("sequence_length"),
        Port("blank_index", optional=True),
    )
    outputs: ClassVar[tuple[Port, ...]] = (Port("decoded_classes"), Port("decoded_length"))
    merge_repeated: bool = True
    classes_index_type: DType = DType.i32
    sequence_length_type: DType = DType.i32

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _DECODING_BYTES * outputs[0].elements + widened_bytes(inputs[0])

    def infer(
        self, data: Fact, sequence_length: Fact, blank_index: Fact | None = None
    ) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        require_rank(data, "data", 3)
        require_rank(sequence_length, "sequence_length", 1)
        for name, fact in (("sequence_length", sequence_length), ("blank_index", blank_index)):
            require_dtype(fact, name, INTEGERS, "an integer type")
        if blank_index is not None:
            require_single(blank_index, "blank_index")
        for dtype in (self.classes_index_type, self.sequence_length_type):
            if dtype not in (DType.i32, DType.i64):
                raise ShapeError("an output type is not i32 or i64", got=dtype)
        shape = data.tensor.shape or (fresh_symbol(self), fresh_symbol(self))
        count: Dim = shape[0]
        if sequence_length.tensor.shape is not None:
            lengths = sequence_length.tensor.shape[0]
            count = same_size(count, lengths, "data and sequence_length differ in sequences")
        return (
            TensorType(self.classes_index_type, (count, shape[1])),
            TensorType(self.sequence_length_type, (count,)),
        )

    def evaluate(
        self, data: Array, sequence_length: Array, blank_index: Array | None = None
    ) -> tuple[Array, ...]:
        steps, classes = data.shape[1:]
        lengths = np.array(ints_of(sequence_length), np.int64)
        if np.any(lengths < 0) or np.any(lengths > steps):
            raise ShapeError(
                "a sequence length is out of range",
                got=lengths[:20].tolist(),
                expected=f"0..{steps}",
            )
        blank = classes - 1 if blank_index is None else int_of(blank_index)
        positions: Array = np.arange(int(steps))
        valid = positions < lengths[:, None]
        best = widen_array(data).argmax(axis=2)
        found, counts = _decode(best, valid, blank, self.merge_repeated)
        return (
            found.astype(self.classes_index_type.numpy),
            counts.astype(self.sequence_length_type.numpy),
        )


@dataclass(frozen=True)
class CTCLoss(Op):
    """Minus the logarithm of a label sequence's probability [N], summed over its alignments.

    logits [N, T, C], logit_length [N], labels [N, T], label_length [N], blank_index: the last class
    by default. Labels are made unique, or collapsed where they repeat, before; without
    `ctc_merge_repeated` a repeated class means a repeated label.
    """

    kind: ClassVar[str] = "CTCLoss"
    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("logits"),
        Port("logit_length"),
        Port("labels"),
        Port("label_length"),
        Port("blank_index", optional=True),
    )
    preprocess_collapse_repeated: bool = False
    ctc_merge_repeated: bool = True
    unique: bool = False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        logits, count = inputs[0], outputs[0].elements
        if logits is None or not count:
            return 0
        steps = 0 if logits.shape is None else logits.shape[1]
        each = _LOSS_BYTES_PER_STEP * steps if isinstance(steps, int) else 0
        return _LOSS_BYTES_PER_CLASS * logits.elements // count + each + 128 * count

    def infer(
        self,
        logits: Fact,
        logit_length: Fact,
        labels: Fact,
        label_length: Fact,
        blank_index: Fact | None = None,
    ) -> tuple[Type, ...]:
        require_dtype(logits, "logits", FLOATS, "a float type")
        one_dtype(logit_length, label_length)
        one_dtype(labels, blank_index)
        count: Dim | None = None
        for name, fact, rank in (
            ("logits", logits, 3),
            ("logit_length", logit_length, 1),
            ("labels", labels, 2),
            ("label_length", label_length, 1),
        ):
            require_rank(fact, name, rank)
            if name != "logits":
                require_dtype(fact, name, INTEGERS, "an integer type")
            if fact.tensor.shape is not None:
                own = fact.tensor.shape[0]
                count = (
                    own if count is None else same_size(count, own, "inputs differ in sequences")
                )
        have, want = labels.tensor.shape, logits.tensor.shape
        if have is not None and want is not None:
            same_size(have[1], want[1], "labels and logits differ in steps")
        if blank_index is not None:
            require_single(blank_index, "blank_index")
        return (TensorType(logits.tensor.dtype, (fresh_symbol(self) if count is None else count,)),)

    def evaluate(
        self,
        logits: Array,
        logit_length: Array,
        labels: Array,
        label_length: Array,
        blank_index: Array | None = None,
    ) -> tuple[Array, ...]:
        classes = logits.shape[2]
        blank = classes - 1 if blank_index is None else int_of(blank_index)
        lengths = zip(ints_of(logit_length), ints_of(label_length), strict=True)
        out: list[float] = []
        for n, (steps, count) in enumerate(lengths):
            if not 0 <= count <= steps <= logits.shape[1]:
                raise ShapeError(
                    "a length is out of range",
                    got=f"{count} labels, {steps} steps",
                    expected=f"labels <= steps <= {logits.shape[1]}",
                )
            target = self._target([int(v) for v in labels[n, :count]])
            if any(not 0 <= v < classes for v in (*target, blank)):
                raise ShapeError(
                    "a label is not a class", got=target[:20], expected=f"0..{classes - 1}"
                )
            wide = logits[n, :steps].astype(np.float64)
            top = wide.max(axis=1, keepdims=True, initial=-np.inf)
            log = wide - top - np.log(np.exp(wide - top).sum(axis=1, keepdims=True))
            out.append(-self._log_probability(log, target, blank))
        return (narrow_array(np.array(out, np.float64), logits.dtype),)

    def _target(self, labels: list[int]) -> list[int]:
        if self.unique:
            return list(dict.fromkeys(labels))
        if self.preprocess_collapse_repeated:
            return [v for i, v in enumerate(labels) if i == 0 or v != labels[i - 1]]
        return labels

    def _log_probability(self, log: Array, target: list[int], blank: int) -> float:
        """The forward algorithm over states blank, label, blank, ..., label, blank."""
        states = np.full(2 * len(target) + 1, blank)
        states[1::2] = target
        is_label = np.arange(len(states)) % 2 == 1
        if not len(log):
            return 0.0 if not target else -np.inf
        # A label may follow the label before it, without a blank unless repetitions are merged.
        skips = is_label.copy()
        skips[:2] = False
        if self.ctc_merge_repeated:
            skips[2:] &= states[2:] != states[:-2]
        stays = np.ones(len(states), bool) if self.ctc_merge_repeated else ~is_label
        alpha = np.full(len(states), -np.inf)
        alpha[:2] = log[0, states[:2]]
        for step in log[1:]:
            one = np.concatenate([[-np.inf], alpha[:-1]])
            two = np.concatenate([[-np.inf] * 2, alpha[:-2]])[: len(states)]
            moved = np.logaddexp(np.where(stays, alpha, -np.inf), one)
            alpha = np.logaddexp(moved, np.where(skips, two, -np.inf)) + step[states]
        return float(np.logaddexp.reduce(alpha[-2:]))
