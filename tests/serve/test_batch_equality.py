"""Batching changes no bit: sizes are compared with lone calls before they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import pytest
from irc_compiler.serve.batch_equality import BatchEquality, equal_bits, make_check_values
from irc_compiler.serve.settings import Batching
from support.serving import affine

SHAPES = ((4,),)
ROWS = [np.ones((1, 4), np.float32)]


def test_rows_of_a_model_have_the_bits_of_lone_calls() -> None:
    net = irc.compile_model(affine(0.3))
    equality = BatchEquality(lambda inputs: net(list(inputs)))
    for size in (2, 3, 8, 17, 32):
        assert equality.lookup(SHAPES, size) is None
        assert equality.check(SHAPES, size, ROWS)
        assert equality.lookup(SHAPES, size) is True
    assert equality.different_sizes() == []


def sum_in_another_order(inputs: Sequence[Any]) -> list[Any]:
    """Row sums that from four rows on add up from the other end, as a kernel might."""
    x = inputs[0]
    columns = range(x.shape[1]) if len(x) < 4 else reversed(range(x.shape[1]))
    total = np.zeros(len(x), np.float32)
    for column in columns:
        total = total + x[:, column]
    return [total]


def test_a_size_with_other_bits_is_found() -> None:
    equality = BatchEquality(sum_in_another_order)
    shapes, rows = ((1000,),), [np.ones((1, 1000), np.float32)]
    assert equality.check(shapes, 2, rows)
    assert not equality.check(shapes, 4, rows)
    assert equality.lookup(shapes, 4) is False
    assert equality.different_sizes() == [4]


def test_a_row_that_depends_on_others_is_found() -> None:
    equality = BatchEquality(lambda inputs: [inputs[0] - inputs[0].mean(0)])
    assert not equality.check(SHAPES, 2, ROWS)


def test_an_output_without_the_batch_is_found() -> None:
    equality = BatchEquality(lambda inputs: [np.zeros((1, 3), np.float32)])
    assert not equality.check(SHAPES, 2, ROWS)


def test_only_so_many_shapes_are_kept() -> None:
    equality = BatchEquality(lambda inputs: list(inputs))
    for n in range(300):
        equality.check(((n,),), 2, [np.ones((1, n), np.float32)])
    assert equality.lookup(((299,),), 2) is True
    assert equality.lookup(((0,),), 2) is None


def test_values_of_a_check() -> None:
    tokens = np.array([[7, 8], [9, 10]])
    np.testing.assert_array_equal(make_check_values(tokens, 3), [[7, 8], [9, 10], [7, 8]])
    drawn = make_check_values(np.zeros((1, 5), ml_dtypes.bfloat16), 3)
    assert drawn.dtype == ml_dtypes.bfloat16 and len(np.unique(drawn.astype(np.float32))) > 10


def test_bits_and_not_values_are_compared() -> None:
    assert not equal_bits(np.float32([0.0]), np.float32([-0.0]))
    assert equal_bits(np.float32([np.nan]), np.float32([np.nan]))
    assert not equal_bits(np.float32([1]), np.float64([1]))


@pytest.mark.parametrize(
    ("batching", "sizes"),
    [
        (Batching(8), (2, 4, 8)),
        (Batching(12), (2, 4, 8, 12)),
        (Batching(16, preferred_sizes=(3, 6, 40)), (3, 6, 16)),
        (Batching(1), (1,)),
    ],
)
def test_admissible_sizes(batching: Batching, sizes: tuple[int, ...]) -> None:
    assert batching.sizes == sizes
