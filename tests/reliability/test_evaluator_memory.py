"""The memory of NumPy evaluation: what every operation allocates is charged before it is allocated.

A charge is what `charge_memory` asks of the budget: outputs and the declared bound of temporaries
(`Op.scratch_bytes`).
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import MemoryLimitError
from irc_compiler.ir.input_check import charge_memory, evaluate_bounded
from irc_compiler.ir.limits.memory_budget import Budget, use_budget, value_bytes
from irc_compiler.ir.op import Op
from irc_compiler.ir.scalar.blocks import BLOCK_ELEMENTS

from ..support.models.large_operands import CASES

# Operations without tensors of their own, and those of PYTHON_VALUES below.
WITHOUT_CASE = frozenset(
    "Assign CastMap ConcatFromSequence Constant CountTextNgrams DictVectorizer Fail Group If "
    "LabelEncoder Loop OnnxNode Optional OptionalGetElement OptionalHasElement Parameter "
    "ReadValue Result SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SplitToSequence SupportVotes TensorIterator TreeEnsemble TypedParameter "
    "ZipMap".split()
)
# Peaks may exceed the charge by this factor, and by the blocks that elementwise work goes through.
MOST_OVER = 1.05
BLOCKS = 16 * 8 * BLOCK_ELEMENTS
# A charge of more than this many times the peak would refuse what fits.
MOST_CHARGED = 4


class _Recording(Budget):
    """A budget without a limit that notes the largest request."""

    largest = 0

    def require(self, size: int, what: str = "", where: str | None = None) -> None:
        self.largest = max(self.largest, self.used + size)


def charge_and_peak(op: Op, arrays: list[Any]) -> tuple[int, int]:
    """Bytes that evaluation asks of the budget, and bytes that it allocates at once."""
    with use_budget(_Recording(0)) as budget, np.errstate(all="ignore"):
        charge_memory(op, arrays, "")
        tracemalloc.start()
        try:
            outputs = op.evaluate(*op.slots(list(arrays), running=True))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(budget, _Recording)
        return max(budget.largest, value_bytes(list(outputs))), peak


def label(case: Any) -> str:
    op, arrays = case
    name = type(op).__name__
    return f"{name}-{arrays[0].dtype}" if arrays else name


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=label)
def test_temporaries_are_charged(case: Any) -> None:
    charge, peak = charge_and_peak(*case)
    assert peak <= MOST_OVER * charge + BLOCKS, f"{peak / charge:.3f} of {charge}"
    assert charge <= MOST_CHARGED * (peak + BLOCKS), f"{charge} charged for {peak}"


def test_every_operation_has_a_case() -> None:
    cased = {op.kind for op, _ in CASES}
    missing = {cls.kind for cls in o.ALL_OPS} - cased - WITHOUT_CASE
    assert not missing, "an operation needs a case in support/models/large_operands.py"


def test_a_refusal_comes_before_the_allocation() -> None:
    """Scores of attention are 2048 times as large as what goes in and comes out."""
    small = np.ones((1, 4096, 2), np.float32)
    op = o.Attention()
    tracemalloc.start()
    try:
        with use_budget(Budget(64 << 20)), pytest.raises(MemoryLimitError, match="temporaries"):
            charge_memory(op, [small, small, small], "here")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def _trees(aggregate: str, rows: int, targets: int) -> tuple[Op, list[Any]]:
    """An ensemble of 64 stumps."""
    count = np.arange(64)
    zeros, floats = np.zeros(64, np.int64), np.zeros(64, np.float32)
    leaves = np.zeros((128, 2), np.int64), np.zeros((128, 2), np.float32)
    x = np.zeros((rows, 8), np.float32)
    nodes = [floats, zeros, zeros, zeros, -1 - 2 * count, -2 - 2 * count, count]
    return o.TreeEnsemble(targets, aggregate), [x, *nodes, *leaves]


_MANY, _TEXTS = np.arange(1 << 16), np.array([f"text {n}" for n in range(1 << 16)], object)
_FLOATS = np.zeros((4096, 16), np.float32)
# Operations of maps, sequences, strings and trees, which need more than a mebibyte each.
PYTHON_VALUES: list[tuple[Op, list[Any]]] = [
    _trees("SUM", 4096, 4),
    _trees("MAX", 4096, 4),
    (o.LabelEncoder(), [_MANY, _MANY, _MANY]),
    (o.LabelEncoder(), [_TEXTS, _TEXTS, _MANY]),
    (o.SupportVotes(16), [np.zeros((2048, 120), np.float32), *[np.ones(120, np.float32)] * 2]),
    (o.SupportVotes(3), [np.zeros((1 << 16, 3), np.float32), *[np.ones(0, np.float32)] * 2]),
    (o.ZipMap(), [_FLOATS, np.arange(16)]),
    (o.ZipMap(), [_FLOATS.reshape(-1, 1), np.arange(1)]),
    (o.DictVectorizer(DType.f32), [{1: 1.0}, _MANY]),
    (o.DictVectorizer(DType.string), [{1: "a"}, _MANY]),
    (o.CastMap(DType.f32, 1 << 20), [{1: 1.0}]),
    (o.CastMap(DType.string), [dict.fromkeys(range(1 << 14), 1.0)]),
    (o.SplitToSequence(), [np.zeros((1 << 12, 4), np.float32)]),
    (o.SplitToSequence(), [np.zeros((1 << 12, 4), np.float32), np.array(1)]),
    (o.ConcatFromSequence(0), [[_FLOATS] * 16]),
    (o.SequenceInsert(), [[_FLOATS[0, :1]] * (1 << 17), _FLOATS]),
    (o.SequenceErase(), [[_FLOATS[0, :1]] * (1 << 17)]),
    (o.StringTensorUnpack(), [_TEXTS]),
    (o.StringTensorPack(),
     [np.zeros(1 << 14, np.int32), np.full(1 << 14, 999, np.int32), np.zeros(999, np.uint8)]),
    (o.GenerateProposals(1.0, 0.7, 999, 99),
     [np.ones((1, 3), np.float32), np.ones((64, 64, 4, 4), np.float32),
      np.ones((1, 16, 64, 64), np.float32), np.ones((1, 4, 64, 64), np.float32)]),
    (o.MatrixNms(), [np.ones((1, 512, 4), np.float32), np.ones((1, 1, 512), np.float32)]),
    (o.NMSRotated(), [np.ones((1, 999, 5), np.float32), np.ones((1, 1, 999), np.float32),
                      np.array(9), np.array(0.5), np.array(0.0)]),
]  # fmt: skip


@pytest.mark.parametrize("case", PYTHON_VALUES, ids=lambda c: type(c[0]).__name__)
def test_a_small_limit_is_kept(case: Any) -> None:
    """A refusal comes before the memory is taken, also where Python's objects take most of it."""
    op, arrays = case
    tracemalloc.start()
    try:
        with use_budget(Budget(1 << 20)), pytest.raises(MemoryLimitError):
            evaluate_bounded(op, list(arrays), "here")
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("case", PYTHON_VALUES, ids=lambda c: type(c[0]).__name__)
def test_values_of_python_are_charged(case: Any) -> None:
    charge, peak = charge_and_peak(*case)
    assert peak <= MOST_OVER * charge + (1 << 20), f"{peak / charge:.3f} of {charge}"
    assert charge <= MOST_CHARGED * (peak + (1 << 20)), f"{charge} charged for {peak}"


@pytest.mark.slow
def test_elementwise_temporaries_stay_small() -> None:
    x = np.linspace(-4, 4, 1 << 20, dtype=np.float32)
    charge, peak = charge_and_peak(o.Convert(DType.bf16), [x])
    assert charge == 2 * x.size and peak < charge + BLOCKS
    charge, peak = charge_and_peak(o.Gelu(), [x])
    assert charge == x.nbytes and peak < charge + BLOCKS
