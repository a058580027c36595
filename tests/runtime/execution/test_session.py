"""Runs: right answers, fresh outputs, untouched inputs, host steps, regions, shapes, errors."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir import dims as dim
from irc_compiler.ir.errors import ExecutionError, InputError, MemoryLimitError
from irc_compiler.ir.types import TensorType
from irc_compiler.runtime.driver.abi import PARTS_MASK, PARTS_SHIFT
from irc_compiler.runtime.execution import region_set
from irc_compiler.runtime.execution.session import Session
from irc_compiler.runtime.jit.program import compilations
from irc_compiler.runtime.machine.cpus import usable_cores
from irc_compiler.runtime.machine.memory_planner import live_peak
from support.tiny_plans import (
    Maker,
    N,
    chain,
    chain_answer,
    compile_plan,
    data,
    f32,
    i64,
    make_plan,
)

SIZES = [0, 1, 5, 63, 64, 1000, 4096, 4097, 50_000]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(chain().compile(), num_threads=1)


@pytest.mark.parametrize("n", SIZES)
def test_a_chain_at_any_size(session: Session, n: int) -> None:
    a, b = data(n)
    (out,) = session.run([a, b])
    assert out.dtype == np.float32 and (out == chain_answer(a, b)).all() and out.shape == (n,)


def test_calls_of_two_shapes_in_turn_make_no_binding_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session(chain().compile(), num_threads=1)
    sizes = [3, 50_000, 0, 100]
    for n in [*sizes, *sizes]:  # a larger arena ends the bindings of the first calls
        session.run(data(n))
    context = session._take_context()
    with monkeypatch.context() as patch:
        patch.setattr(context, "instance", None)  # which a call that is not repeated takes
        session._pool.append(context)
        for n in [*sizes, *reversed(sizes), *sizes]:
            a, b = data(n)
            assert (session.run([a, b])[0] == chain_answer(a, b)).all()
            assert (session.run([b, a])[0] == chain_answer(b, a)).all()
    # Other types and ranks of shapes that were seen are refused as before.
    for wrong in (np.zeros(3), np.zeros((3, 1), np.float32), [1.0] * 3):
        with pytest.raises(InputError):
            session.run([wrong, wrong])


@pytest.mark.parametrize("n", [7, 50_000])
def test_outputs_are_fresh_and_inputs_untouched(session: Session, n: int) -> None:
    a, b = data(n)
    a.flags.writeable = b.flags.writeable = False
    first = session.run([a, b])[0]
    kept = first.copy()
    second = session.run([a + 1, b])[0]
    assert not np.may_share_memory(first, second) and not np.may_share_memory(first, a)
    assert (first == kept).all() and (second != kept).any()
    first[:] = 0
    assert (session.run([a, b])[0] == kept).all()


@pytest.mark.parametrize("n", [8, 50_000])
@pytest.mark.parametrize("how", ["reversed", "strided", "swapped", "unaligned", "transposed"])
def test_any_strides_alignment_and_byte_order(session: Session, n: int, how: str) -> None:
    a, b = data(n)
    if how == "reversed":
        x = a[::-1].copy()[::-1]
    elif how == "strided":
        x = np.repeat(a, 3)[::3]
    elif how == "swapped":
        x = a.astype(">f4")
    elif how == "unaligned":
        raw = np.empty(a.nbytes + 1, np.uint8)
        x = raw[1:].view(np.float32)
        x[:] = a
        assert not x.flags.aligned
    else:
        x = np.asfortranarray(np.stack([a, a]))[0]
    assert (session.run([x, b])[0] == chain_answer(a, b)).all()
    call = session.bind([x, b])
    assert (call()[0] == chain_answer(a, b)).all()
    x[:] = 2
    assert (call()[0] == chain_answer(np.full(n, 2, np.float32), b)).all()


def test_a_new_shape_starts_no_llvm(session: Session) -> None:
    before = compilations()
    for n in range(100, 164):
        a, b = data(n)
        assert (session.run([a, b])[0] == chain_answer(a, b)).all()
    assert compilations() == before


@pytest.mark.slow
def test_memory_stays_flat_over_many_shapes(session: Session) -> None:
    a, b = data(70_000)
    session.run([a, b])
    context = session._pool[-1]
    arena = context.space.arena
    for n in range(1, 2200):
        session.run([a[:n], b[:n]])
    assert context.space.arena is arena
    assert len(context.instances) <= 32 and len(session.regions.layouts) <= 2048


@pytest.mark.parametrize(("count", "nbytes", "kept"), [(140, 1 << 30, 140), (2048, 1 << 14, 128)])
def test_as_many_layouts_are_kept_as_take_few_bytes(
    count: int, nbytes: int, kept: int, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_set, "_MAX_CACHED_LAYOUTS", count)
    monkeypatch.setattr(region_set, "_MAX_LAYOUT_BYTES", nbytes)
    session.regions.layouts.clear()
    a, b = data(200)
    for n in range(1, 150):
        session.run([a[:n], b[:n]])
    layouts = session.regions.layouts
    assert len(layouts) == kept and min(layouts.values(), key=lambda x: x.nbytes).nbytes > 128


@pytest.mark.slow
def test_a_growing_shape_rarely_moves_the_arena() -> None:
    session = Session(chain().compile(), num_threads=1)
    arenas = set()
    for n in range(500_000, 500_400):
        a = np.ones(n, np.float32)
        assert session.run([a, a])[0][-1] == 3
        arenas.add(id(session._pool[-1].space.arena))
    assert len(arenas) <= 3


def test_bound_call_reads_the_arrays_in_place(session: Session) -> None:
    a, b = data(100)
    call = session.bind([a, b])
    out = call()[0]
    assert (out == chain_answer(a, b)).all()
    a += 3
    assert call()[0] is out and (out == chain_answer(a, b)).all()
    call.result = {"y": out}
    assert call() == {"y": out}


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 30_000])
@pytest.mark.parametrize("step", [1, 2])
def test_a_bound_call_keeps_its_inputs(session: Session, n: int, step: int) -> None:
    """A bound call reads the memory of its inputs: it keeps and releases them."""
    a, b = data(n * step)
    want, kept = chain_answer(a[::step], b[::step]), weakref.ref(a)
    call = session.bind([a[::step], b[::step]])
    del a, b
    gc.collect()
    assert kept() is not None and (call()[0] == want).all()
    del call
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("n", [1, 100, 9001])
def test_bound_outputs_begin_with_a_cache_line(session: Session, n: int) -> None:
    kept = [session.bind(list(data(n))) for _ in range(4)]
    assert all(call()[0].ctypes.data % 64 == 0 for call in kept)


@pytest.mark.parametrize("n", [16, 9000])
def test_two_bound_calls_and_runs_do_not_disturb_each_other(session: Session, n: int) -> None:
    a, b = data(n)
    c, d = data(n, 1)
    one, two = session.bind([a, b]), session.bind([c, d])
    x, y = one()[0], two()[0]
    session.run([d, a])
    assert (x == chain_answer(a, b)).all() and (y == chain_answer(c, d)).all()


@pytest.mark.parametrize(
    ("inputs", "parts"),
    [
        ([np.zeros(3, np.float32)], ["another number of inputs", "got: 1", "in0, in1"]),
        (["x", np.zeros(3, np.float32)], ["'in0' is not an array", "got: str"]),
        ([np.zeros(3), np.zeros(3, np.float32)], ["'in0'", "got: float64", "float32", "astype"]),
        ([np.zeros((3, 1), np.float32)] * 2, ["'in0'", "dimensions", "got: 2", "f32[N]"]),
        (
            [np.zeros(3, np.float32), np.zeros(4, np.float32)],
            ["'in1' has another shape", "axis 0 of input 'in1'", "got: [4]", "N is 3 (axis 0 of"],
        ),
        ([np.zeros(3, np.float32), None], ["'in1' is missing", "f32[N]"]),
    ],
)
def test_input_errors_say_what_and_which(session: Session, inputs: list, parts: list) -> None:
    for make in (session.run, session.bind):
        with pytest.raises(InputError) as e:
            make(inputs)
        assert all(p in str(e.value) for p in parts), str(e.value)
    # The pool is healthy, also where the last good shape is the same.
    a, b = data(3)
    assert (session.run([a, b])[0] == chain_answer(a, b)).all()
    with pytest.raises(InputError):
        session.run(inputs)


def test_bounds_of_a_symbol() -> None:
    session = Session(chain(dim.symbol("N", 2, 9)).compile(), num_threads=1)
    for n in (1, 10):
        with pytest.raises(InputError, match="does not allow") as e:
            session.run([np.zeros(n, np.float32)] * 2)
        assert "2..9" in str(e.value)
    assert session.run([np.ones(2, np.float32)] * 2)[0].tolist() == [3, 3]


def test_static_sizes_and_constants() -> None:
    m = Maker(6)
    c = m.constant(np.arange(6, dtype=np.float32))
    m.op("add", m.op("mul", m.input(), c), c, output=True)
    session = Session(m.compile(), num_threads=1)
    x = np.full(6, 2, np.float32)
    assert session.run([x])[0].tolist() == [0, 3, 6, 9, 12, 15]
    with pytest.raises(InputError, match="another shape"):
        session.run([np.zeros(7, np.float32)])


def test_equal_constants_are_stored_once() -> None:
    array = np.arange(8, dtype=np.float32)[::-1]  # not contiguous: a copy is made
    programs = []
    for _ in range(2):
        m = Maker(8)
        m.op("add", m.input(), m.constant(array), output=True)
        programs.append(m.compile())
    assert programs[0].constants[0] is programs[1].constants[0]
    mine = np.arange(8, dtype=np.float32)
    m = Maker(8)
    m.op("add", m.input(), m.constant(mine), output=True)
    assert m.compile().constants[0] is mine


def test_a_status_names_step_sources_and_element(session: Session) -> None:
    m = Maker()
    picked = m.pick(m.input(), m.input(i64))
    m.op("add", picked, picked, output=True)
    session = Session(m.compile(), num_threads=1)
    x = np.arange(10, dtype=np.float32)
    good = np.arange(10)[::-1].copy()
    assert (session.run([x, good])[0] == 2 * x[::-1]).all()
    bad = good.copy()
    bad[7] = 10
    call = session.bind([x, bad])
    for run in (lambda: session.run([x, bad]), call):
        with pytest.raises(ExecutionError) as e:
            run()
        for part in ("outside the axis", "step 0, pick", "from G", "element 7"):
            assert part in str(e.value)
    bad[7] = 3
    assert (call()[0] == 2 * x[bad]).all()
    assert (session.run([x, good])[0] == 2 * x[::-1]).all()


def test_too_large_is_refused_before_anything_is_allocated() -> None:
    session = Session(chain(length=4).compile(), num_threads=1, max_memory=1 << 20)
    a = np.ones(50_000, np.float32)
    session.run([a, a])
    big = np.ones(200_000, np.float32)
    with pytest.raises(MemoryLimitError) as e:
        session.run([big, big])
    assert "max_memory" in str(e.value) and "temporary [200000]" in str(e.value)
    assert session.run([a, a])[0][0] == 3
    assert len(session._pool[-1].space.arena) <= 1 << 20


@pytest.mark.slow
def test_no_input_is_kept(session: Session) -> None:
    for n in (10, 30_000):
        a, b = data(n)
        ref = weakref.ref(a)
        session.run([a, b])
        del a
        gc.collect()
        assert ref() is None


@pytest.mark.slow
def test_eight_threads_share_a_session(session: Session) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            n = int(rng.integers(1, 9000))
            a, b = data(n, seed)
            if not (session.run([a, b])[0] == chain_answer(a, b)).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and len(session._pool) <= 9


class Taken(list[Any]):
    """A pool whose last context another thread takes as soon as somebody has seen it."""

    def __len__(self) -> int:
        return 1


def test_a_context_may_be_taken_by_another_thread() -> None:
    session = Session(chain().compile(), num_threads=1)
    a, b = data(9)
    for call in (session.run, session.profile):
        session._pool = Taken()
        call([a, b])
        assert [*session._pool]
    session._pool = Taken()
    mine = np.empty(9, np.float32)
    session.run([a, b], out=[mine])
    assert (mine == chain_answer(a, b)).all()


def test_a_closed_session_says_so() -> None:
    session = Session(chain().compile(), num_threads=1)
    a, b = data(4)
    session.run([a, b])
    session.close()
    with pytest.raises(ExecutionError, match="closed"):
        session.run([a, b])


@pytest.mark.parametrize("n", [6, 30_000])
def test_results_into_given_arrays(session: Session, n: int) -> None:
    a, b = data(n)
    want = chain_answer(a, b)
    mine = np.full(2 * n, np.nan, np.float32)[::2]
    (out,) = session.run([a, b], out=[mine])
    assert out is mine and (mine == want).all()
    assert (session.run([a, b], out=[None])[0] == want).all()
    session.run([a, b], out=[a])  # over an input
    assert (a == want).all()
    read_only = np.zeros(n, np.float32)
    read_only.flags.writeable = False
    for bad in (np.zeros(n), np.zeros(n + 1, np.float32), read_only, [0] * n):
        with pytest.raises(InputError, match="'out0'"):
            session.run([a, b], out=[bad])
    with pytest.raises(InputError, match="number of output arrays"):
        session.run([a, b], out=[])


def test_shapes_that_an_expression_forbids() -> None:
    m = Maker()
    a, b = m.input(), m.input()
    m.sizes.append(dim.broadcast(N, dim.minimum(N + 1, 40)))
    m.op("add", a, b, output=True)
    session = Session(m.compile(), num_threads=1)
    session.run(list(data(40)))
    with pytest.raises(InputError) as e:
        session.run(list(data(41)))
    assert "can't run at these shapes" in str(e.value) and "in0 [41]" in str(e.value)
    session.run(list(data(40)))


def test_one_value_as_two_outputs() -> None:
    m = Maker()
    a = m.input()
    m.op("add", a, a, output=True)
    t = TensorType(f32, (N,))
    plan = make_plan([t, t], (0,), (1, 1), (m.region((0,), (1,)),))
    session = Session(compile_plan(plan), num_threads=1)
    for n in (4, 30_000):
        x, _ = data(n)
        one, two = session.run([x])
        assert (one == 2 * x).all() and (two == one).all() and not np.may_share_memory(one, two)


def test_an_outgrown_arena_is_given_back() -> None:
    session = Session(chain().compile(), num_threads=1)
    for n in (10, 1000, 50_000, 10, 200_000):
        a, b = data(n)
        assert (session.run([a, b])[0] == chain_answer(a, b)).all()
        context = session._pool[-1]
        assert all(f.space is context.space for f in context.instances.values())


def test_the_arena_fits_what_lives_after_any_shape() -> None:
    """At most a tenth larger, but for small ones, however large the shape before was."""
    session = Session(chain().compile(), num_threads=1)
    (code,) = session.regions.compiled
    for n in (4_000_000, 1_500_000, 1_450_000, 3_000_000, 3_100_000, 2_000_000):
        placement = code.layout([(n,), (n,)]).placement
        sizes = code.tables.sizes({s.symbol: n for s in code.region.symbols})
        least = live_peak(sizes.nbytes[code.arena], code._first, code._last)
        assert 4 << 20 < least <= placement.peak <= 1.1 * least


def test_stats() -> None:
    session = Session(chain().compile(), num_threads=1)
    session.run(list(data(1000)))
    session.run(list(data(20)))
    stats = session.stats()
    assert (stats.threads, stats.contexts, stats.shapes, stats.kernels) == (1, 1, 2, 2)
    assert stats.arena_bytes >= 8000 and stats.constant_bytes == 0


@pytest.mark.skipif(usable_cores() < 2, reason="not run: this process may use one CPU only")
def test_large_steps_have_more_parts_where_cores_differ() -> None:
    """Every part runs, with scratch of its own, and no bit changes."""
    a, b = data(4_000_000)
    sessions = [
        Session(chain(length=1).compile(), num_threads=2, parts_per_thread=n) for n in (1, 8)
    ]
    few, many = (session.bind([a, b]) for session in sessions)
    assert many()[0].tobytes() == few()[0].tobytes()
    parts = [
        {int(f) >> PARTS_SHIFT & PARTS_MASK for f in s.regions.layout(0, (a.shape, b.shape)).flags}
        for s in sessions
    ]
    assert parts == [{0}, {16}]
    small = sessions[1].regions.layout(0, ((8,), (8,)))
    assert not small.flags.any()
