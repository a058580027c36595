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
from irc_compiler.ir.input_check import charge_memory
from irc_compiler.ir.limits.memory_budget import Budget, use_budget, value_bytes
from irc_compiler.ir.op import Op
from irc_compiler.ir.scalar.blocks import BLOCK_ELEMENTS

from ..support.models.large_operands import CASES

# Operations without tensors of their own, or of sequences, whose evaluators charge what they make.
WITHOUT_CASE = frozenset(
    "Assign CastMap ConcatFromSequence Constant DictVectorizer Fail Group If LabelEncoder Loop "
    "OnnxNode Optional OptionalGetElement OptionalHasElement Parameter ReadValue Result "
    "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
    "SplitToSequence SupportVotes TensorIterator TreeEnsemble TypedParameter ZipMap".split()
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


def test_elementwise_temporaries_stay_small() -> None:
    x = np.linspace(-4, 4, 1 << 20, dtype=np.float32)
    charge, peak = charge_and_peak(o.Convert(DType.bf16), [x])
    assert charge == 2 * x.size and peak < charge + BLOCKS
    charge, peak = charge_and_peak(o.Gelu(), [x])
    assert charge == x.nbytes and peak < charge + BLOCKS
