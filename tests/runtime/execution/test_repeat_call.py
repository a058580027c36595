"""Functions that are generated for calls of small arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.runtime.execution.execution_context import ExecutionContext
from irc_compiler.runtime.execution.region_instance import MAX_COPIED_BYTES, BoundRegion
from irc_compiler.runtime.execution.repeat_call import make_repeat_call
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import chain, chain_answer, data

SMALL, LARGE = 100, MAX_COPIED_BYTES  # elements of four bytes


def bind(n: int) -> BoundRegion:
    """The chain's region at n elements, bound to other data than the tests call it with."""
    session = Session(chain().compile(), num_threads=1)
    instance = ExecutionContext(session.regions).instance(0, ((n,), (n,)))
    return instance.bind([x + 1 for x in data(n)])


def test_small_arrays_take_a_generated_function() -> None:
    bound = bind(SMALL)
    repeat = make_repeat_call(bound)
    assert repeat != bound.run
    a, b = data(SMALL)
    first, second = repeat([a, b]), repeat((b, a))
    assert first is not None and second is not None
    assert (first[0] == chain_answer(a, b)).all()  # a result of its own: the second kept it
    assert (second[0] == chain_answer(b, a)).all()


def test_large_arrays_take_the_general_way() -> None:
    bound = bind(LARGE)
    assert make_repeat_call(bound) == bound.run


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.tolist(),
        lambda a: a.astype(np.float64),
        lambda a: a.astype(">f4"),
        lambda a: a[:-1],
        lambda a: a.reshape(1, -1),
        lambda a: a.view(np.recarray),
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_other_inputs_are_left_to_the_general_way(at: int, change: Any) -> None:
    inputs: list[Any] = list(data(SMALL))
    inputs[at] = change(inputs[at])
    assert make_repeat_call(bind(SMALL))(inputs) is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_inputs_is_left_to_the_general_way(count: int) -> None:
    a, _ = data(SMALL)
    assert make_repeat_call(bind(SMALL))([a] * count) is None
