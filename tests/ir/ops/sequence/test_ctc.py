"""CTC operations against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import openvino.opset4 as o4
import openvino.opset6 as o6
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.ops import CTCGreedyDecoder, CTCGreedyDecoderSeqLen, CTCLoss
from support.openvino_operations import check, k

F, I = np.float32, np.int32  # noqa: E741
_R = np.random.default_rng(3)
LOGITS = _R.standard_normal((3, 6, 4)).astype(F)


@pytest.mark.parametrize("merge", [True, False])
def test_greedy_decoder(merge: bool) -> None:
    mask = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 0, 1], [0, 0, 1]], F)
    data = LOGITS.transpose(1, 0, 2).copy()
    check(lambda *x: o1.ctc_greedy_decoder(*x, merge), [data, mask], native=True)


@pytest.mark.slow
@pytest.mark.parametrize("merge", [True, False])
def test_greedy_decoder_with_lengths(merge: bool) -> None:
    lengths = np.array([6, 3, 5], I)
    check(lambda *x: o6.ctc_greedy_decoder_seq_len(*x, None, merge), [LOGITS, lengths], native=True)
    check(
        lambda *x: o6.ctc_greedy_decoder_seq_len(*x, merge, "i64", "i64"),
        [LOGITS, lengths, k([1], I)],
        native=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"ctc_merge_repeated": False},
        {"preprocess_collapse_repeated": True},
        {"unique": True},
        {"unique": True, "ctc_merge_repeated": False},
    ],
    ids=str,
)
def test_loss(flags: dict[str, Any]) -> None:
    labels = np.array([[0, 1, 1, 2, 0, 0], [2, 2, 0, 0, 0, 0], [1, 0, 2, 1, 0, 2]], I)
    inputs = [LOGITS, np.array([6, 5, 6], I), labels, np.array([4, 2, 5], I)]
    check(lambda *x: o4.ctc_loss(*x, **flags), inputs)
    check(lambda *x: o4.ctc_loss(*x, **flags), [*inputs, k(3, I)])


def test_bad_inputs() -> None:
    with pytest.raises(ShapeError, match="sequence length is out of range"):
        CTCGreedyDecoderSeqLen().evaluate(LOGITS, np.array([7, 1, 1], I))
    two = np.array([2, 2, 2], I)
    with pytest.raises(ShapeError, match="label is not a class"):
        CTCLoss().evaluate(LOGITS, two, np.full((3, 6), 9, I), two)
    with pytest.raises(ShapeError, match="length is out of range"):
        CTCLoss().evaluate(LOGITS, two, np.zeros((3, 6), I), two + 1)
    assert CTCGreedyDecoder().evaluate(LOGITS, np.zeros((3, 6), F))[0].max() == -1
