"""RangeMaximum: the maximum of a list to whose ranges numbers are added, in logarithmic time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.compiler.lowering.build.range_maximum import RangeMaximum

INTEGERS = st.integers(-(2**70), 2**70)


@pytest.mark.slow
@given(st.lists(INTEGERS, min_size=1, max_size=40), st.data())
@settings(max_examples=100, deadline=None)
def test_the_maximum_is_that_of_a_list(values: list[int], data: st.DataObject) -> None:
    tree = RangeMaximum(values)
    assert tree.maximum() == max(values)
    for _ in range(10):
        first, after = (data.draw(st.integers(0, len(values))) for _ in range(2))
        amount = data.draw(INTEGERS)
        tree.add(first, after, amount)
        values = [v + amount if first <= i < after else v for i, v in enumerate(values)]
        assert tree.maximum() == max(values)


def test_an_addition_visits_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    visits, add = 0, RangeMaximum._add_to_node

    def count(*args: Any) -> None:
        nonlocal visits
        visits += 1
        add(*args)

    monkeypatch.setattr(RangeMaximum, "_add_to_node", count)
    tree = RangeMaximum([0] * 100_000)
    tree.add(1, 99_999, 5)
    assert tree.maximum() == 5 and visits <= 2 * 17
