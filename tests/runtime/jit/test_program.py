"""Programs: kernels compiled once, shared, cached; constants packed once and shared."""

from __future__ import annotations

import dataclasses
import gc
import importlib.metadata
import weakref

import numpy as np
import pytest
from irc_compiler.ir.deferred_array import DeferredArray, StoredArray
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.execution.session import Session
from irc_compiler.runtime.jit import program as programs
from irc_compiler.runtime.jit.program import build_program, compilations
from irc_compiler.runtime.kernels.emit.contract import Kernel
from support.tiny_plans import TARGET, Maker, chain, chain_answer, compile_plan, data, generate


class Disk(dict):
    """A code cache that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.hits = 0

    def get(self, key: str) -> bytes | None:  # type: ignore[override]
        self.asked += 1
        self.hits += key in self
        return super().get(key)

    def put(self, key: str, value: bytes) -> None:
        assert len(key) == 64 and isinstance(value, bytes)
        self[key] = value


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tiny generator in place of the real one (so that code is shared); what it was asked."""
    made: list[str] = []

    def counted(spec, target, symbol) -> Kernel:
        made.append(symbol)
        return generate(spec, target, symbol)

    monkeypatch.setattr(programs, "_generator", lambda: counted)
    monkeypatch.setattr(programs, "_generators", lambda: "tests")
    monkeypatch.setattr(programs, "_loaded", weakref.WeakValueDictionary())
    return made


def test_equal_specs_are_compiled_once() -> None:
    before = compilations()
    program = chain(length=9).compile()
    assert program.compiled == 2 and len(program.kernels) == 2  # add and mul
    assert compilations() == before + 2


@pytest.mark.slow
def test_code_is_shared_while_a_program_lives(tiny: list[str]) -> None:
    plan = chain(length=5).plan()
    first = build_program(plan, {}, TARGET)
    second = build_program(plan, {}, TARGET)
    assert (first.compiled, second.compiled) == (2, 0) and len(tiny) == 2
    a, b = data(50)
    del first
    gc.collect()
    assert (Session(second, num_threads=1).run([a, b])[0] == chain_answer(a, b, 5)).all()
    del second
    gc.collect()
    assert build_program(plan, {}, TARGET).compiled == 2


@pytest.mark.slow
def test_code_outlives_its_program_while_a_call_needs_it(tiny: list[str]) -> None:
    a, b = data(50)
    call = Session(build_program(chain().plan(), {}, TARGET), num_threads=1).bind([a, b])
    gc.collect()
    assert (call()[0] == chain_answer(a, b)).all()


@pytest.mark.slow
def test_the_disk_cache_saves_compiling(tiny: list[str]) -> None:
    disk, plan = Disk(), chain(length=4).plan()
    assert build_program(plan, {}, TARGET, code_cache=disk).compiled == 2
    gc.collect()
    before = compilations()
    program = build_program(plan, {}, TARGET, code_cache=disk)
    assert program.compiled == 0 and compilations() == before and disk.hits == 2
    a, b = data(77)
    assert (Session(program, num_threads=1).run([a, b])[0] == chain_answer(a, b, 4)).all()


def test_a_key_depends_on_spec_and_target(tiny: list[str]) -> None:
    add, mul = chain().plan().specs()
    keys = {
        programs._kernel_key(s, t) for s in (add, mul) for t in (TARGET, generic_target("plain"))
    }
    assert len(keys) == (4 if TARGET != generic_target("plain") else 2)


def test_another_llvm_finds_no_code_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (spec, *_) = chain(length=9).plan().specs()
    monkeypatch.setattr(programs, "_generators", programs._generators.__wrapped__)
    before = programs._kernel_key(spec, TARGET)
    assert programs._kernel_key(spec, TARGET) == before
    real = importlib.metadata.version
    other = {"llvmlite": "9"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: other.get(name) or real(name))
    assert programs._kernel_key(spec, TARGET) != before


def test_a_plan_for_another_machine_is_refused() -> None:
    plan = dataclasses.replace(chain().plan(), target_key="0" * 16)
    with pytest.raises(VerificationError, match="another machine"):
        compile_plan(plan)


@pytest.mark.parametrize("weights", [{}, {0: np.zeros(5, np.float32)}, {0: np.zeros(4)}])
def test_wrong_weights_are_refused(weights: dict) -> None:
    m = Maker(4)
    m.op("add", m.input(), m.constant(np.zeros(4, np.float32)), output=True)
    with pytest.raises(VerificationError, match="weight"):
        compile_plan(m.plan(), weights)


@pytest.mark.parametrize("how", ["swapped", "unaligned", "strided", "plain"])
def test_weights_of_any_layout(how: str) -> None:
    want = np.arange(100, dtype=np.float32)
    if how == "swapped":
        weight = want.astype(">f4")
    elif how == "unaligned":
        weight = np.empty(401, np.uint8)[1:].view(np.float32)
        weight[:] = want
    elif how == "strided":
        weight = np.repeat(want, 2)[::2]
    else:
        weight = want
    m = Maker(100)
    m.op("add", m.input(), m.constant(want), output=True)
    program = compile_plan(m.plan(), {0: weight})
    assert (Session(program).run([want])[0] == 2 * want).all()
    assert program.constant_bytes == 400
    assert (program.constants[0] is weight) == (how == "plain")


@pytest.mark.parametrize("consume", [True, False])
def test_memory_of_dropped_weights_goes_back_meanwhile(
    monkeypatch: pytest.MonkeyPatch, consume: bool
) -> None:
    """After every so many bytes, not only at the end, and only where weights are dropped."""
    weights = {n: np.zeros((100, 1000), np.float32) for n in range(8)}
    constants = [PlanConstant(n, DType.f32, (100, 1000), PackedB(32)) for n in weights]
    held: list[int] = []
    monkeypatch.setattr(programs, "_TRIMMED_BYTES", 1 << 20)
    monkeypatch.setattr(programs, "trim_heap", lambda: held.append(len(weights)))
    programs._constants(constants, weights, consume)
    assert held == ([5, 2, 0] if consume else [])


def test_arrays_in_memory_are_packed_before_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the two are not there at the same time."""
    monkeypatch.setattr(programs, "usable_cores", lambda: 1)
    large, held = np.ones((1024, 1024), np.float32), list[set[int]]()

    def make() -> np.ndarray:
        held.append(set(weights))
        return large

    weights: dict[int, StoredArray] = {
        0: DeferredArray(DType.f32, large.shape, make),
        1: np.ones((512, 1024), np.float32),
    }
    constants = [PlanConstant(n, DType.f32, w.shape, PackedB(32)) for n, w in weights.items()]
    first, second = programs._constants(constants, weights, True)
    assert held == [{0}] and not weights
    assert first.size == 1024 * 1024 and second.size == 512 * 1024


def test_weights_go_when_all_is_made_of_them() -> None:
    """A source of two constants stays until the second is made; without `consume` all stay. Large
    ones are made by other threads than small ones."""
    rng = np.random.default_rng(2)
    shapes = {0: (300, 1100), 1: (300, 1100), 2: (3, 11), 3: (5, 7)}
    weights = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    plain = [PlanConstant(n, DType.f32, s) for n, s in shapes.items()]
    packed = [PlanConstant(n, DType.f32, (300, 1100), PackedB(32)) for n in (1, 0, 1)]
    packed[2] = dataclasses.replace(packed[2], layout=PackedB(16))
    wanted = [programs.make_constant(c, weights[c.source]) for c in (*plain, *packed)]
    held = dict(weights)
    made = programs._constants([*plain, *packed], held, False)
    assert set(held) == {0, 1, 2, 3}
    again = programs._constants([*plain, *packed], held, True)
    assert held == {}
    for a, b, c in zip(made, again, wanted, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, c)
    with pytest.raises(VerificationError, match="missing"):
        programs._constants(plain, held, True)
