"""LabelEncoder's table of keys, which is kept from call to call."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.ir.ops import LabelEncoder

VALUES, DEFAULT = np.array([10, 20]), np.array([-1])


def test_other_keys_are_seen() -> None:
    op = LabelEncoder()
    x = np.array(["a", "b", "c"], object)
    keys = np.array(["a", "b"], object)
    assert op.evaluate(x, keys, VALUES, DEFAULT)[0].tolist() == [10, 20, -1]
    keys[0] = "c"  # the same array
    assert op.evaluate(x, keys, VALUES, DEFAULT)[0].tolist() == [-1, 20, 10]
    assert op.evaluate(x, keys[::-1].copy(), VALUES, DEFAULT)[0].tolist() == [-1, 10, 20]
    # The bytes of the keys are those of the integers before, but not their type.
    numbers = np.array([1, 2])
    assert op.evaluate(numbers, numbers, VALUES, DEFAULT)[0].tolist() == [10, 20]
    floats = numbers.view(np.float64)
    assert op.evaluate(numbers.astype(np.float64), floats, VALUES, DEFAULT)[0].tolist() == [-1, -1]


def test_elements_of_every_form_of_text() -> None:
    op, keys = LabelEncoder(), np.array(["a", "é"], object)
    for x in (
        np.array(["a", "é", "x"], object),
        np.array(["a", "é", "x"]),
        np.array([b"a", "é".encode(), b"x"], object),
        np.array([b"a", "é".encode(), b"x"]),
        np.array([np.str_("a"), "é".encode(), "x"], object),
    ):
        assert op.evaluate(x[:, None], keys, VALUES, DEFAULT)[0].tolist() == [[10], [20], [-1]]
    nan = np.array([np.nan, 1.0])
    assert op.evaluate(nan, np.array([np.nan, 2.0]), VALUES, DEFAULT)[0].tolist() == [10, -1]


def test_the_first_unknown_value_is_named() -> None:
    x = np.array([["a", "q"], ["r", "b"]], object)
    with pytest.raises(ExecutionError, match="none of the keys") as caught:
        LabelEncoder().evaluate(x, np.array(["a", "b"], object), VALUES)
    assert caught.value.got == "'q'"
