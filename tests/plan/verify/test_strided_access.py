"""Walks that lie apart: never said of two that meet, and said of a concatenation's parts."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.plan.verify.strided_access import StridedAccess, are_disjoint


def elements(walk: StridedAccess) -> set[int]:
    return {
        walk.offset + sum(i * stride for i, (_, stride) in zip(at, walk.terms, strict=True))
        for at in product(*(range(size) for size, _ in walk.terms))
    }


STRIDES = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 24, -1, -4, -12])
WALKS = st.builds(
    StridedAccess,
    st.just(0),
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(1, 4), STRIDES), max_size=3).map(tuple),
)


@pytest.mark.slow
@given(WALKS, WALKS)
@settings(max_examples=2000, deadline=None)
def test_are_disjoint_holds_for_all_elements(a: StridedAccess, b: StridedAccess) -> None:
    if are_disjoint(a, b):
        assert not elements(a) & elements(b)


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (StridedAccess(0, 0, ((5, 24), (8, 1))), StridedAccess(0, 8, ((5, 24), (16, 1))), True),
        (
            StridedAccess(0, 16, ((5, 24), (8, 1))),
            StridedAccess(0, 0, ((2, 96), (3, 24), (16, 1))),
            True,
        ),
        (
            StridedAccess(0, 4 * 24 + 7, ((5, -24), (8, -1))),
            StridedAccess(0, 8, ((5, 24), (16, 1))),
            True,
        ),
        (StridedAccess(0, 0, ((5, 24), (9, 1))), StridedAccess(0, 8, ((5, 24), (16, 1))), False),
        (StridedAccess(0, 0, ((5, 24), (8, 1))), StridedAccess(0, 8, ((5, 24), (17, 1))), False),
        (StridedAccess(0, 0, ((5, 24), (8, 1))), StridedAccess(0, 8, ((5, 25), (16, 1))), False),
        (StridedAccess(0, 0, ((5, 24), (8, 1))), StridedAccess(1, 8, ((5, 24), (16, 1))), False),
    ],
)
def test_are_disjoint_of_parts_of_a_buffer(a: StridedAccess, b: StridedAccess, apart: bool) -> None:
    assert are_disjoint(a, b) is are_disjoint(b, a) is apart
