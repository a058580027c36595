"""Hostile plans: whatever is changed in a plan, the answer is VerificationError, never a signal."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.ir import dims as dim
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, MemoryLimitError, VerificationError
from irc_compiler.ir.types import SequenceType, TensorType
from irc_compiler.plan.plan import (
    ARENA,
    CONSTANT,
    Buffer,
    HostStep,
    KernelStep,
    Plan,
    PlanConstant,
    SymbolSource,
)
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Spec
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import (
    TARGET,
    Call,
    Maker,
    N,
    chain,
    compile_plan,
    data,
    f32,
    i64,
    pick,
    pointwise,
)

SIZE = RuntimeDim(0)


def change(plan: Plan, **parts: Any) -> Plan:
    """The plan with its only region changed."""
    return dataclasses.replace(plan, regions=(dataclasses.replace(plan.regions[0], **parts),))


def change_buffer(plan: Plan, b: int, **parts: Any) -> Plan:
    buffers = list(plan.regions[0].buffers)
    buffers[b] = dataclasses.replace(buffers[b], **parts)
    return change(plan, buffers=tuple(buffers))


def change_step(plan: Plan, n: int, **parts: Any) -> Plan:
    steps = list(plan.regions[0].steps)
    steps[n] = dataclasses.replace(steps[n], **parts)
    return change(plan, steps=tuple(steps))


# Buffers of chain(): 0, 1 inputs, 2, 3 temporaries, 4 output; steps add, mul, add.
PLAN = chain().plan()

STATIC: dict[str, tuple[Plan, str]] = {
    "unknown kind": (change_buffer(PLAN, 2, kind="heap"), "kind is not known"),
    "no element size": (change_buffer(PLAN, 2, dtype=f32.string), "no fixed size"),
    "negative size": (change_buffer(PLAN, 2, shape=(-1,)), "not a number"),
    "input beyond": (change_buffer(PLAN, 0, index=2), "there is not"),
    "output beyond": (change_buffer(PLAN, 4, index=1), "there is not"),
    "two of one input": (change_buffer(PLAN, 1, index=0), "two buffers are input 0"),
    "constant beyond": (change_buffer(PLAN, 1, kind=CONSTANT, index=0), "there is not"),
    "lifetime reversed": (change_buffer(PLAN, 2, first=2, last=1), "not a range"),
    "lifetime beyond": (change_buffer(PLAN, 2, last=99), "not a range"),
    "used before its life": (change_buffer(PLAN, 2, first=1), "outside its lifetime"),
    "used after its life": (change_buffer(PLAN, 2, last=0), "outside its lifetime"),
    "inside itself": (change_buffer(PLAN, 2, alias_of=2), "alias one another"),
    "inside an input": (change_buffer(PLAN, 2, alias_of=0), "differ in kind"),
    "input inside": (change_buffer(PLAN, 0, alias_of=2), "only an arena"),
    "inside nothing": (change_buffer(PLAN, 2, alias_of=17), "there is not"),
    "dtype of a slot": (
        dataclasses.replace(PLAN, slots=(*PLAN.slots[:2], TensorType(i64, (N,)))),
        "differ in type",
    ),
    "rank of a slot": (
        dataclasses.replace(PLAN, slots=(TensorType(f32, ()), *PLAN.slots[1:])),
        "differ in rank",
    ),
    "no rank of a slot": (
        dataclasses.replace(PLAN, slots=(TensorType(f32, None), *PLAN.slots[1:])),
        "differ in rank",
    ),
    "dtype of an operand": (change_buffer(PLAN, 2, dtype=i64), "differ in element type"),
    "buffer beyond": (change_step(PLAN, 0, buffers=(0, 1, 5)), "there is not"),
    "buffer below": (change_step(PLAN, 0, buffers=(0, -1, 2)), "there is not"),
    "too few buffers": (change_step(PLAN, 0, buffers=(0, 2)), "one buffer per operand"),
    "size beyond": (change_step(PLAN, 0, dims=(1,)), "there is not"),
    "size missing": (change_step(PLAN, 0, dims=()), "a size the step does not give"),
    "negative argument": (
        change_step(PLAN, 0, spec=pointwise("add", RuntimeDim(-1))),
        "a size the step does not give",
    ),
    "writes an input": (change_step(PLAN, 0, buffers=(0, 1, 1)), "is written"),
    "reads before a write": (change_step(PLAN, 0, buffers=(0, 3, 2)), "before anything"),
    "output not written": (change_step(PLAN, 2, buffers=(3, 1, 2)), "never written"),
    "strides of another rank": (
        change_step(
            PLAN,
            0,
            spec=dataclasses.replace(pointwise("add", 4), outs=(Operand(f32, (1, 1)),)),
        ),
        "one stride per axis",
    ),
    "symbol of no input": (change(PLAN, symbols=(SymbolSource("N", 2, 0),)), "there is not"),
    "symbol of no axis": (change(PLAN, symbols=(SymbolSource("N", 0, 1),)), "there is not"),
    "region input not defined": (change(PLAN, inputs=(0, 2)), "read before it is written"),
    "slot beyond": (change(PLAN, outputs=(9,)), "there is not"),
    "output slot": (
        dataclasses.replace(PLAN, outputs=(dataclasses.replace(PLAN.outputs[0], slot=7),)),
        "read before",
    ),
    "input slot": (
        dataclasses.replace(PLAN, inputs=(dataclasses.replace(PLAN.inputs[0], slot=-1),)),
        "there is not",
    ),
    "input that is not a tensor": (
        dataclasses.replace(PLAN, slots=(SequenceType(TensorType(f32, (N,))), *PLAN.slots[1:])),
        "not a tensor",
    ),
    "type of a constant slot": (
        dataclasses.replace(
            PLAN,
            slots=(*PLAN.slots, TensorType(f32, (3,))),
            constants=(PlanConstant(0, DType.f64, (3,)),),
            constant_slots=((3, 0),),
        ),
        "differ in type",
    ),
    "constant slot": (dataclasses.replace(PLAN, constant_slots=((2, 0),)), "there is not"),
    "host writes an input": (
        change(PLAN, steps=(*PLAN.regions[0].steps, HostStep(Call("x"), (0,), (1,), "x"))),
        "is written",
    ),
}


@pytest.mark.parametrize("name", STATIC)
def test_verify_plan_rejects_a_broken_plan(name: str) -> None:
    plan, message = STATIC[name]
    with pytest.raises(VerificationError) as e:
        verify_plan(plan)
    assert message in str(e.value)
    with pytest.raises(VerificationError):
        compile_plan(plan)


def test_verify_plan_accepts_a_good_plan() -> None:
    verify_plan(PLAN)


def shifted(n: Any = SIZE, **walk: Any) -> ElementwiseSpec:
    spec = pointwise("add", n)
    return dataclasses.replace(spec, inputs=(dataclasses.replace(spec.inputs[0], **walk),) * 2)


def one_step(spec: Spec, *, size: Any = N, dims: tuple[Any, ...] = (N,)) -> Plan:
    m = Maker()
    a, b, out = m.input(n=size), m.input(n=size), m.place(True, n=size)
    m.sizes = list(dims)
    m.steps.append(KernelStep(spec, (a, b, out), tuple(range(len(dims))), 1, "it"))
    plan = m.plan()
    return change(plan, symbols=(SymbolSource("N", 0, 0),))


M = dim.symbol("N", 0, 1 << 30)
DYNAMIC: dict[str, tuple[Plan, str]] = {
    "one too far": (one_step(shifted(offset=1)), "leaves its buffer"),
    "before its start": (one_step(shifted(offset=-1)), "leaves its buffer"),
    "strides too far": (one_step(shifted(strides=(2,))), "leaves its buffer"),
    "backwards": (one_step(shifted(strides=(-1,))), "leaves its buffer"),
    "stride at run time": (
        one_step(shifted(strides=(RuntimeDim(1),)), dims=(N, N * N)),
        "leaves its buffer",
    ),
    "more than there is": (one_step(shifted(), dims=(N + 1,)), "leaves its buffer"),
    "a size below zero": (one_step(shifted(), dims=(N - 100,)), "negative number of elements"),
    "a fixed size": (one_step(shifted(n=11)), "leaves its buffer"),
    "overflowing strides": (one_step(shifted(strides=(1 << 61,))), "leaves its buffer"),
    "a size beyond 64 bits": (
        one_step(shifted(strides=(RuntimeDim(1),)), dims=(N, 1 << 70)),
        "beyond any machine",
    ),
    "dynamic strides beyond memory": (
        one_step(shifted(strides=(RuntimeDim(1),)), dims=(N, 1 << 61)),
        "leaves its buffer",
    ),
    "overflow by a power": (one_step(shifted(), dims=(N**40,)), "beyond any machine"),
    "writes beyond": (
        one_step(
            dataclasses.replace(
                pointwise("add", RuntimeDim(0)), outs=(Operand(f32, (1,), offset=3),)
            )
        ),
        "leaves its buffer",
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_verify_plan_rejects_an_operand_outside_its_buffer(name: str) -> None:
    plan, message = DYNAMIC[name]
    verify_plan(plan)
    a, b = data(10)
    with pytest.raises(VerificationError) as e:
        Session(compile_plan(plan), num_threads=1).run([a, b])
    assert message in str(e.value)


def test_verify_plan_accepts_backward_and_broadcast_strides_inside() -> None:
    spec = pointwise("add", RuntimeDim(0))
    back = Operand(f32, (-1,), offset=RuntimeDim(1))
    spec = dataclasses.replace(spec, inputs=(back, Operand(f32, (0,))))
    tables = RegionLayoutTables(one_step(spec, dims=(N, N - 1)).regions[0], ())
    tables.sizes({"N": 10})
    tables.sizes({"N": 0})  # nothing is touched, whatever the offset


def test_verify_plan_rejects_a_size_beyond_any_machine() -> None:
    plan = one_step(shifted(), dims=(N**3,))
    with pytest.raises(VerificationError) as e:
        RegionLayoutTables(plan.regions[0], ()).sizes({"N": 1 << 21})
    assert e.value.got == f"{1 << 63}, which is N**3" and e.value.expected == "sizes below 2^62"
    plan = one_step(shifted(), dims=(N**40,))
    with pytest.raises(VerificationError, match="beyond any machine") as e:
        RegionLayoutTables(plan.regions[0], ()).sizes({"N": 1 << 21})
    assert str(e.value.got).startswith("about 2^840, which is ")


def test_verify_plan_rejects_a_buffer_beyond_any_machine() -> None:
    plan = one_step(shifted(), size=M * M)
    with pytest.raises(MemoryLimitError, match="any machine's memory"):
        RegionLayoutTables(plan.regions[0], ()).sizes({"N": 1 << 24})


def parts_plan(offset: Any, size: Any, dtype: Any = f32) -> Plan:
    """temporary[10]; a part of it is written and read."""
    m = Maker(10)
    a = m.input()
    whole = m.op("add", a, a)
    m.buffers.append(
        Buffer(ARENA, dtype, (size,), first=1, last=2, alias_of=whole, alias_offset=offset)
    )
    part = len(m.buffers) - 1
    copy = pointwise("copy", size)
    walk = Operand(dtype, (1,))
    copy = dataclasses.replace(copy, inputs=(walk,), outs=(walk,))
    m.buffers.append(Buffer(ARENA, dtype, (size,), first=1, last=2))
    m.steps.append(KernelStep(copy, (part, len(m.buffers) - 1), (), 1))
    m.op("add", whole, a, output=True)
    return m.plan()


def test_verify_plan_keeps_an_alias_inside_its_buffer() -> None:
    for offset, size in ((0, 10), (3, 7), (10, 0)):
        RegionLayoutTables(parts_plan(offset, size).regions[0], ()).sizes({})
    for offset, size in ((4, 7), (0, 11), (11, 0)):
        with pytest.raises(VerificationError, match="exceeds the one that it aliases"):
            RegionLayoutTables(parts_plan(offset, size).regions[0], ()).sizes({})
    with pytest.raises(VerificationError, match="another element size"):
        RegionLayoutTables(parts_plan(1, 2, i64).regions[0], ()).sizes({})
    RegionLayoutTables(parts_plan(0, 5, i64).regions[0], ()).sizes({})


def in_place(spec: Any, same: bool = True) -> Plan:
    """temporary = a + b, then `spec` from the temporary into itself."""
    m = Maker(10)
    a, b = m.input(), m.input()
    t = m.op("add", a, b)
    m.buffers.append(Buffer(ARENA, f32, (10 if same else 9,), first=1, last=2, alias_of=t))
    m.steps.append(KernelStep(spec, (t, b, len(m.buffers) - 1), (), 1))
    m.op("copy", len(m.buffers) - 1, output=True) if same else m.op("copy", t, output=True)
    return m.plan()


def test_verify_plan_of_in_place_results() -> None:
    good = in_place(pointwise("mul", 10))
    a, b = data(10)
    assert (Session(compile_plan(good)).run([a, b])[0] == (a + b) * b).all()
    back = dataclasses.replace(pointwise("mul", 10), outs=(Operand(f32, (-1,), offset=9),))
    short = dataclasses.replace(
        pointwise("mul", 9), inputs=(Operand(f32, (1,), offset=1), Operand(f32, (1,)))
    )
    for plan in (in_place(back), in_place(short, same=False)):
        with pytest.raises(VerificationError, match="overwrites what it reads"):
            Session(compile_plan(plan)).run([a, b])
    m = Maker(10)
    data_, t = m.input(), m.op("copy", 0)
    m.buffers.append(Buffer(ARENA, f32, (10,), first=1, last=2, alias_of=t))
    m.buffers.append(Buffer(CONSTANT, i64, (10,), 0))
    m.steps.append(KernelStep(pick(10, 10), (t, len(m.buffers) - 1, len(m.buffers) - 2), (), 1))
    m.op("copy", t, output=True)
    m.constants, m.weights = [PlanConstant(0, i64, (10,))], {0: np.arange(10)}
    assert data_ == 0
    with pytest.raises(VerificationError, match="overwrites what it reads"):
        Session(m.compile()).run([a])


NUMBERS = st.one_of(
    st.integers(-3, 12), st.sampled_from([1 << 31, -(1 << 31), 1 << 62, -(1 << 63), 1 << 80])
)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_verify_plan_rejects_random_damage_without_a_crash(data_: st.DataObject) -> None:
    """Any one number of a plan replaced: it runs right, or is refused with an irc.Error."""
    plan = data_.draw(damaged(PLAN))
    a, b = data(7)
    try:
        session = Session(compile_plan(plan), num_threads=1, max_memory=1 << 20)
        out = session.run([a, b])
    except Error:
        return
    assert all(isinstance(o, np.ndarray) for o in out)


@st.composite
def damaged(draw: Any, plan: Plan) -> Plan:
    region = plan.regions[0]
    what = draw(st.sampled_from(["buffer", "step", "walk", "dims", "slots", "symbol"]))
    n = draw(NUMBERS)
    if what == "buffer":
        b = draw(st.integers(0, len(region.buffers) - 1))
        field = draw(
            st.sampled_from(["index", "first", "last", "alias_of", "alias_offset", "shape"])
        )
        return change_buffer(plan, b, **{field: (n,) if field == "shape" else n})
    if what == "symbol":
        return change(plan, symbols=(SymbolSource("N", n, draw(NUMBERS)),))
    if what == "slots":
        return change(plan, **{draw(st.sampled_from(["inputs", "outputs"])): (n, draw(NUMBERS))})
    if what == "dims":
        return change(plan, dims=(draw(st.sampled_from([n, N + n, N * n])),))
    s = draw(st.integers(0, len(region.steps) - 1))
    step = region.steps[s]
    assert isinstance(step, KernelStep)
    if what == "step":
        buffers = list(step.buffers)
        buffers[draw(st.integers(0, 2))] = n
        return change_step(plan, s, buffers=tuple(buffers))
    walk = Operand(f32, (n,), draw(NUMBERS))
    spec = step.spec
    assert isinstance(spec, ElementwiseSpec)
    return change_step(plan, s, spec=dataclasses.replace(spec, outs=(walk,)))


def test_verify_plan_of_400_steps_is_quick() -> None:
    """No bar on time here: that it is not quadratic. benchmarks show the figure."""
    m = chain(length=400)
    tables = RegionLayoutTables(m.region((0, 1), (2,)), ())
    times = []
    for n in range(1, 30):
        start = time.thread_time()
        tables.sizes({"N": n})
        times.append(time.thread_time() - start)
    assert min(times) < 0.1
    assert TARGET is not None
