"""N-grams, hashes and warped time against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node
from support.models.exact_int8 import create_session

MS = "com.microsoft"
_R = np.random.default_rng(61)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def words(*shape: int) -> Any:
    return _R.integers(0, 4, shape)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("length", [1, 5, 12])
def test_repeated_ngrams_are_blocked(size: int, length: int) -> None:
    scores = _R.standard_normal((3, 6)).astype(np.float32)
    compare(*one_node("NGramRepeatBlock", [words(3, length), scores], ["y"], domain=MS,
                      ngram_size=size))  # fmt: skip


SOURCE = i64(2, 7, 3, 9, 3, 5, 7, 3, 8, 4)
SPLITS: list[tuple[Any, ...]] = [
    (i64(0, 7, 3), i64(0)), (i64(0, 3, 9), i64(0)), (i64(2, 7, 3), i64(0)), (i64(4), i64(0)),
    (i64(0), i64(3), i64(9, 3, 5, 6, 1, 1, 1, 1)), (i64(0, 1), i64(3), i64(1, 3, 5, 7, 3, 8, 4, 1)),
    (i64(0), i64(3), i64(9, 3, 5, 7, 3, 8, 4, 1)), (i64(5), i64(10), i64(7)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"min_ngram_size": 2, "max_ngram_size": 4}])
@pytest.mark.parametrize("case", SPLITS, ids=lambda c: str(len(c)))
def test_bifurcations(case: tuple[Any, ...], how: dict[str, int]) -> None:
    model = one_node("BifurcationDetector", [SOURCE, *case], ["t", "i"], domain=MS, **how)
    compare(*model)


def ngram_inputs(kind: type, packed: bool) -> list[Any]:
    ids = _R.integers(-9, 9, (11,) if packed else (2, 6)).astype(kind)
    ends = [np.array([0, 2, 3, 11], np.int32)] if packed else []
    return [ids, np.array([31, -17, 100_001], kind), np.array([11, 13, 7, 5], kind), *ends]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("more", ["", "past", "offsets", "stop", "segments", "all"])
def test_hashes_of_ngrams(kind: type, packed: bool, more: str) -> None:
    inputs, count = ngram_inputs(kind, packed), 3 if packed else 2
    every = more == "all"
    past = _R.integers(-9, 9, (count, 2)).astype(kind) if every or more == "past" else None
    offsets = np.array([0, 11, 24, 31], kind) if every or more == "offsets" else None
    # A token that is there.
    stop = np.array(inputs[0].reshape(-1)[4], kind) if every or more == "stop" else None
    segments = None
    if every or more == "segments":
        segments = np.cumsum(_R.random(inputs[0].shape) < 0.4, axis=-1).astype(np.int32)
    given = [*inputs, past, offsets, stop, segments]
    while given[-1] is None:
        given.pop()
    name = "VarlenNGramHashMapping" if packed else "NGramHashMapping"
    model = one_node(name, given, ["h", "p"], domain=MS, pad_id=1, n_head_per_ngram=2,
                     max_ngram_size=3, reset_on_eos=int(stop is not None))  # fmt: skip
    compare(*model)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"positive": 0, "seed": 5}])
@pytest.mark.parametrize("kind", ["i4", "u4", "i8", "u8", "f4", "f8"])
def test_murmur_hash_of_numbers(kind: str, how: dict[str, int]) -> None:
    x = _R.integers(0, 2**31, (3, 4)).astype(kind)
    compare(*one_node("MurmurHash3", [x], ["y"], domain=MS, **how))


def check_on_host(op_type: str, x: Any, **attributes: int) -> None:
    model, feeds = one_node(op_type, [x], ["y"], domain=MS, **attributes)
    (wanted,) = create_session(model).run(None, feeds)
    (found,) = irc.compile_model(model)(feeds)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"positive": 0, "seed": 5}])
def test_murmur_hash_of_texts(how: dict[str, int]) -> None:
    texts = np.array([["", "a", "ab", "abc"], ["abcd", "hello", "Grüße", "日本"]], object)
    check_on_host("MurmurHash3", texts, **how)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (1, 5), (6, 2), (1, 7, 9), (20, 31)])
@pytest.mark.parametrize("costs", ["random", "equal", "few"])
def test_warped_time(shape: tuple[int, ...], costs: str) -> None:
    """Of equal sums the same path."""
    x = _R.standard_normal(shape).astype(np.float32)
    x = {"random": x, "equal": 0 * x, "few": np.round(x)}[costs]
    check_on_host("DynamicTimeWarping", x)
