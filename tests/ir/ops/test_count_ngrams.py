"""Counts of n-grams against onnxruntime and onnx.reference, of words and of numbers."""

from __future__ import annotations

import random
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.ir.ops.count_ngrams import NgramCounter
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

MODES = ["TF", "IDF", "TFIDF"]
# Lengths of n-grams, and how many items may be left out between two of one.
LENGTHS = [(1, 1, 0), (1, 2, 0), (1, 3, 2), (2, 2, 1), (2, 3, 5), (3, 3, 0)]


def draw_attributes(seed: int, lengths: tuple[int, int, int], mode: str, weighted: bool) -> Any:
    """Attributes over the items 0 to 5, one n-gram being the beginning of others, and the batch."""
    generator = random.Random(seed)
    grams: list[tuple[int, ...]] = []
    starts = list[int]()
    for n in range(1, lengths[1] + 1):
        starts.append(sum(map(len, grams)))
        drawn = {tuple(generator.choices(range(6), k=n)) for _ in range(6)}
        grams += sorted(drawn)
    columns = list(range(len(grams)))
    generator.shuffle(columns)
    attributes: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": lengths[0],
        "max_gram_length": lengths[1],
        "max_skip_count": lengths[2],
        "ngram_counts": starts,
        "ngram_indexes": columns,
    }
    if weighted:
        attributes["weights"] = [generator.uniform(0.1, 2) for _ in columns]
    pool = [item for gram in grams for item in gram]
    batch = np.array([[generator.randrange(8) for _ in range(17)] for _ in range(5)])
    return attributes, pool, batch


def make_model(kind: int, shape: list[Any], attributes: dict[str, Any]) -> Any:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_counts_are_those_of_onnxruntime(
    lengths: tuple[int, int, int], mode: str, weighted: bool
) -> None:
    attributes, pool, batch = draw_attributes(len(mode), lengths, mode, weighted)
    words = np.array([[f"w{i}" for i in row] for row in batch], object)
    for kind, key, items, data in (
        (TensorProto.INT64, "pool_int64s", pool, batch),
        (TensorProto.STRING, "pool_strings", [f"w{i}" for i in pool], words),
    ):
        model = make_model(kind, ["n", "c"], {**attributes, key: items})
        want: Any = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})[
            0
        ]
        net = irc.compile_model(model.SerializeToString())
        np.testing.assert_array_equal(net({"x": data})[0], want)
        if mode == "TF":  # onnx.reference needs weights, and takes them in the order of columns
            found: Any = ReferenceEvaluator(model).run(None, {"x": data})[0]
            np.testing.assert_array_equal(found, want)


def test_a_single_row_gives_a_single_row() -> None:
    attributes, pool, batch = draw_attributes(0, (1, 2, 0), "TF", False)
    model = make_model(TensorProto.INT64, ["c"], {**attributes, "pool_int64s": pool})
    net = irc.compile_model(model.SerializeToString())
    want: Any = ReferenceEvaluator(model).run(None, {"x": batch[0]})[0]
    assert want.any()
    np.testing.assert_array_equal(net({"x": batch[0]})[0], want)


def count(data: Any, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "pool": (1, 2, 1, 2),
        "ngram_counts": (0, 2),
        "ngram_indexes": (0, 1, 2),
        "weights": (),
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
    }
    return NgramCounter(**(given | changes)).count(data)


def test_a_skip_beyond_the_row_takes_no_time() -> None:
    # Three pairs of 1 and 2 are 1, 2 and 3 items apart; each item counts once.
    assert count([1, 1, 1, 2], max_skip_count=2**62).tolist() == [3.0, 1.0, 3.0]
    assert count(np.zeros((2, 0), np.int64)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ngram_counts": (0, 5)}, "do not ascend"),
        ({"ngram_counts": (2, 0)}, "do not ascend"),
        ({"ngram_counts": (-1, 2)}, "do not ascend"),
        ({"ngram_indexes": (0, 1)}, "has no column"),
        ({"ngram_indexes": (0, 1, -2)}, "has no column"),
        ({"mode": "IDF", "weights": (1.0,)}, "weights are missing"),
        ({"mode": "none"}, "no such mode"),
    ],
)
def test_contradicting_attributes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        count([1, 2], **changes)


@pytest.mark.parametrize("shape", [(1, 1, 1), (0, 4)])
def test_another_rank(shape: tuple[int, ...]) -> None:
    with pytest.raises(ExecutionError, match="n-grams are of"):
        count(np.ones(shape, np.int64))
