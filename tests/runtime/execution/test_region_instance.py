"""What a binding copies in and out, and what kernels read and write in place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError, MemoryLimitError
from irc_compiler.runtime.execution.execution_context import ExecutionContext
from irc_compiler.runtime.execution.region_instance import MAX_COPIED_BYTES, RegionInstance
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import FUNCTIONS, Maker, chain, chain_answer, data

SMALL, LARGE = 100, MAX_COPIED_BYTES  # elements of four bytes
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "strided": lambda x: np.repeat(x, 2)[::2],
    "unaligned": lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(x.dtype),
    "big-endian": lambda x: x.astype(">f4"),
    "subclass": lambda x: x.view(np.recarray),
}


def instance(n: int, **options: Any) -> RegionInstance:
    """The chain's region at n elements."""
    session = Session(chain().compile(), num_threads=1, **options)
    return ExecutionContext(session.regions).instance(0, ((n,), (n,)))


def holds(made: RegionInstance, array: Any) -> bool:
    """Do kernels get the array's own address?"""
    return array.ctypes.data in made.pointers.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("lasts", [False, True])
@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs(layout: str, n: int, lasts: bool) -> None:
    a, b = data(n)
    x = LAYOUTS[layout](a)
    made = instance(n)
    in_place = layout in ("plain", "subclass") and (lasts or n == LARGE)
    if lasts:
        copies = made.bind([x, b], lasts=True).list_copies()
        assert holds(made, x) == in_place and len(copies) == (not in_place)
        return
    assert (made.run([x, b])[0] == chain_answer(a, b)).all()
    assert holds(made, x) == in_place


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("kind", ["plain", "strided", "an input", "part of an input", "none"])
def test_given_outputs(kind: str, n: int) -> None:
    a, b = data(n)
    want = chain_answer(a, b)
    room = np.zeros(2 * n, np.float32)
    room[:n] = a
    a = room[:n]
    mine = {
        "plain": np.empty(n, np.float32),
        "strided": np.empty(2 * n, np.float32)[::2],
        "an input": a,
        "part of an input": room[n // 2 : n // 2 + n],
        "none": None,
    }[kind]
    made = instance(n)
    (out,) = made.run([a, b], [mine])
    assert (out == want).all() and (mine is None or out is mine)
    if mine is not None and kind in ("plain", "strided"):
        assert holds(made, mine) == (kind == "plain" and n == LARGE)


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_an_input_is_written_when_all_is_read(n: int) -> None:
    m = Maker()
    a, b = m.input(), m.input()
    for op in ("add", "mul"):
        m.op(op, a, b, output=True)
    session = Session(m.compile(), num_threads=1)
    x, y = data(n)
    want = x + y, x * y
    made = ExecutionContext(session.regions).instance(0, ((n,), (n,)))
    total, product = made.run([x, y], [x, None])
    assert total is x and (total == want[0]).all() and (product == want[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_the_next_call_takes_the_binding_of_the_last(n: int) -> None:
    a, b = data(n)
    made = instance(n)
    assert (made.run([a, b])[0] == chain_answer(a, b)).all()
    bound = made.repeatable
    assert bound is not None and (made.run([b, a])[0] == chain_answer(b, a)).all()
    made.run([a, b], [np.empty(n, np.float32)])
    assert made.repeatable is bound and not made.bind([a, b], [np.empty_like(a)]).repeats
    strided = LAYOUTS["strided"](a)
    # A copy of a large input is not kept; a small one has a place in the context.
    assert made.bind([strided, b]).repeats == (n == SMALL)
    for x in (strided, a):
        assert (made.run([x, b])[0] == chain_answer(a, b)).all()
    assert made.repeatable is bound
    kept = weakref.ref(a)
    del a, x, strided
    gc.collect()
    assert kept() is None


def test_a_binding_refuses_other_arrays_than_it_was_made_for() -> None:
    a, b = data(LARGE)
    bound = instance(LARGE).bind([a, b])
    assert bound.run([b, a]) is not None
    others = [a[:-1], a.astype(np.float64), a[::-1], LAYOUTS["unaligned"](a), a.tolist()]
    assert all(bound.run([x, b]) is None for x in others) and bound.run([a]) is None


def test_another_shape_than_the_plans() -> None:
    a, b = data(SMALL)
    with pytest.raises(ExecutionError, match="another shape than the plan expects"):
        instance(SMALL).run([a, b[:-1]])


def test_copies_count_against_the_memory_limit() -> None:
    a, b = data(LARGE)
    made = instance(LARGE, max_memory=6 * a.nbytes)
    made.run([a[::-1], b])
    tight = instance(LARGE, max_memory=made.layout.need + a.nbytes)
    tight.run([a[::-1], b])
    with pytest.raises(MemoryLimitError, match="copies of inputs"):
        tight.run([a[::-1], b[::-1]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_host_steps_see_the_bound_arrays(layout: str, n: int) -> None:
    FUNCTIONS["twice"] = lambda x: (x * 2,)
    m = Maker()
    a, b = m.input(), m.input()
    m.host("twice", m.op("add", m.host("twice", a), b), output=True)
    session = Session(m.compile(), num_threads=1)
    x, y = data(n)
    made = ExecutionContext(session.regions).instance(0, ((n,), (n,)))
    assert (made.run([LAYOUTS[layout](x), y])[0] == (2 * x + y) * 2).all()
    assert made.repeatable is None
