"""Runs through Python and through several regions: right answers, fresh outputs, named errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.ir import dims as dim
from irc_compiler.ir.errors import ExecutionError, InputError
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import PlanConstant, Terminal
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import (
    FUNCTIONS,
    Call,
    Maker,
    N,
    compile_plan,
    data,
    f32,
    make_plan,
)


def host_plan() -> Maker:
    m = Maker()
    a, b = m.input(), m.input()
    c = m.op("add", a, b)
    d = m.host("twice", c)
    e = m.op("mul", d, b)
    m.host("minus", e, a, output=True)
    return m


@pytest.mark.parametrize("n", [0, 3, 20_000])
def test_host_steps_between_kernels(n: int) -> None:
    FUNCTIONS["twice"] = lambda x: (x * 2,)
    FUNCTIONS["minus"] = lambda x, y: (x - y,)
    session = Session(host_plan().compile(), num_threads=1)
    a, b = data(n)
    want = (a + b) * 2 * b - a
    call = session.bind([a, b])
    for _ in range(2):
        assert (session.run([a, b])[0] == want).all()
        assert (call()[0] == want).all()
    out = call()[0]
    a += 1
    assert call()[0] is out and (out == (a + b) * 2 * b - a).all()


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda x: (x.astype(np.float64),), "float64[3]"),
        (lambda x: (x[:1],), "float32[1]"),
        (lambda x: (), "too few"),
        (lambda x: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_host_step_is_an_error_with_its_name(function: Any, part: str) -> None:
    FUNCTIONS["twice"], FUNCTIONS["minus"] = function, lambda x, y: (x - y,)
    session = Session(host_plan().compile(), num_threads=1)
    a, b = data(3)
    with pytest.raises(ExecutionError) as e:
        session.run([a, b])
    assert part in str(e.value) and "Call twice" in str(e.value)
    FUNCTIONS["twice"] = lambda x: (x * 2,)
    assert (session.run([a, b])[0] == (a + b) * 2 * b - a).all()


def two_regions() -> Any:
    """y = a + b; z = positive(y), of any length; out = z + z. Also y is an output."""
    first, second = Maker(), Maker(dim.symbol("N", 0))
    first.op("add", first.input(), first.input(), output=True)
    z = second.input()
    second.op("add", z, z, output=True)
    t, u = TensorType(f32, (N,)), TensorType(f32, (dim.symbol("K", 0),))
    terminal = Terminal(Call("positive"), (2,), (3,), "positive", "a test")
    regions = (first.region((0, 1), (2,), terminal), second.region((3,), (4,)))
    return make_plan([t, t, t, u, u], (0, 1), (4, 2, 3), regions)


def test_a_shape_that_depends_on_data() -> None:
    FUNCTIONS["positive"] = lambda x: (x[x > 0],)
    session = Session(compile_plan(two_regions()), num_threads=1)
    for n in (0, 1, 10, 30_000, 10):
        a, b = data(n, n)
        z, y, p = session.run([a, b])
        assert (y == a + b).all() and (p == y[y > 0]).all() and (z == 2 * p).all()
    call = session.bind([a, b])
    a += 5
    z, y, p = call()
    assert (y == a + b).all() and (p == y[y > 0]).all() and (z == 2 * p).all()


def test_results_of_a_terminal_never_alias() -> None:
    FUNCTIONS["positive"] = lambda x: (x,)  # hands its input on
    session = Session(compile_plan(two_regions()), num_threads=1)
    a, b = data(50_000)
    z, y, p = session.run([a, b])
    assert not np.may_share_memory(y, p) and not np.may_share_memory(z, p)


def test_inputs_and_constants_as_outputs_are_copies() -> None:
    m = Maker()
    m.op("copy", m.input(), output=True)
    t = TensorType(f32, (N,))
    c = np.arange(3, dtype=np.float32)
    plan = make_plan(
        [t, t, TensorType(f32, (3,))],
        (0,),
        (0, 1, 2, 2),
        (m.region((0,), (1,)),),
        (PlanConstant(0, f32, (3,)),),
        constant_slots=((2, 0),),
    )
    session = Session(compile_plan(plan, {0: c}), num_threads=1)
    a, _ = data(20_000)
    outs = session.run([a])
    arrays = [a, c, *outs]
    for i, x in enumerate(arrays):
        assert not any(np.may_share_memory(x, y) for y in arrays[:i])
    assert (outs[0] == a).all() and (outs[2] == c).all() and (outs[3] == c).all()


def test_profile_times_every_step() -> None:
    FUNCTIONS["twice"] = lambda x: (x * 2,)
    FUNCTIONS["minus"] = lambda x, y: (x - y,)
    session = Session(host_plan().compile(), num_threads=1)
    times = session.profile(list(data(1000)))
    assert [(t.step, t.kind, t.native) for t in times] == [
        (0, "elementwise", True),
        (1, "Call", False),
        (2, "elementwise", True),
        (3, "Call", False),
    ]
    assert all(t.seconds > 0 for t in times) and times[0].sources == ("node_add0",)


def permuted() -> Any:
    """Plan inputs (a, unused, b) and outputs (p, s) of a region with inputs (b, a), outputs
    (s, p)."""
    m = Maker()
    b, a = m.input(), m.input()
    s = m.op("add", a, b, output=True)
    m.op("mul", s, b, output=True)
    t = TensorType(f32, (N,))
    return make_plan([t] * 5, (0, 1, 2), (4, 3), (m.region((2, 0), (3, 4)),))


@pytest.mark.parametrize("n", [4, 30_000])
def test_inputs_in_another_order_and_an_unused_one(n: int) -> None:
    session = Session(compile_plan(permuted()), num_threads=1)
    a, b = data(n)
    unused = np.zeros(n, np.float32)
    call = session.bind([a, unused, b])
    for _ in range(2):
        for p, s in (session.run([a, unused, b]), call()):
            assert (s == a + b).all() and (p == (a + b) * b).all()
    for bad in (unused.astype(np.float64), unused[1:], None):
        with pytest.raises(InputError, match="'in1'"):
            session.run([a, bad, b])
