"""No result holds what the heap held before, whatever a plan leaves unwritten."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import (
    ARENA,
    BRANCH,
    INPUT,
    JUMP,
    LOOP,
    LOOP_END,
    OUTPUT,
    Buffer,
    ControlStep,
    KernelStep,
    Plan,
    Region,
)
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.scan_topk import TopKSpec
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_bytes import Piece, WrittenBytes, fill_shape, normalize_piece
from irc_compiler.plan.verify.written_coverage import Coverage
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import compile_plan, f32, make_plan, pointwise


def copy_of(count: int, at: int = 0, stride: int = 1) -> ElementwiseSpec:
    """out[at + i * stride] = x[i] for i < count."""
    return replace(pointwise("copy", count), outs=(Operand(f32, (stride,), at),))


def plan_of(count: int, size: int, *pieces: ElementwiseSpec, through_arena: bool = False) -> Plan:
    """x[count] copied in pieces into y[size], or into a buffer that is copied to y."""
    buffers = [Buffer(INPUT, f32, (count,), 0), Buffer(OUTPUT, f32, (size,), 0)]
    steps = [KernelStep(p, (0, 1), (), 1) for p in pieces]
    if through_arena:
        buffers.append(Buffer(ARENA, f32, (size,), first=0, last=len(pieces)))
        steps = [replace(s, buffers=(0, 2)) for s in steps]
        steps.append(KernelStep(pointwise("copy", size), (2, 1), (), 1))
    region = Region((0,), (1,), (), (), tuple(buffers), tuple(steps))
    types = [TensorType(f32, (count,)), TensorType(f32, (size,))]
    return make_plan(types, (0,), (1,), (region,))


def unwritten(plan: Plan) -> frozenset[int]:
    tables = RegionLayoutTables(plan.regions[0], plan.constants)
    return Coverage(tables).unwritten(tables.sizes({}))


@pytest.mark.parametrize("through_arena", [False, True], ids=["output", "arena"])
@pytest.mark.parametrize("size", [64, 1 << 16], ids=["small", "large"])
def test_what_a_plan_leaves_out_is_zero(size: int, through_arena: bool) -> None:
    plan = plan_of(4, size, copy_of(4), through_arena=through_arena)
    assert unwritten(plan)
    x = np.arange(1, 5, dtype=np.float32)
    session = Session(compile_plan(plan), num_threads=1)
    for _ in range(20):
        poison = [np.full(size + 16, np.nan, np.float32) for _ in range(8)]
        del poison
        (y,) = session.run([x])
        np.testing.assert_array_equal(y[:4], x)
        assert not y[4:].any()
        given = np.full(size, np.nan, np.float32)
        session.run([x], out=[given])
        assert not given[4:].any()
    np.testing.assert_array_equal(session.bind([x])()[0], y)


@pytest.mark.parametrize(
    "pieces",
    [
        [copy_of(8)],
        [copy_of(4), copy_of(4, 4)],
        [copy_of(4, 4), copy_of(4)],
        [copy_of(4, 0, 2), copy_of(4, 1, 2)],
        [copy_of(4, 6, -2), copy_of(4, 7, -2)],
        [copy_of(5), copy_of(5, 3)],
    ],
    ids=["whole", "halves", "halves backwards", "even and odd", "downwards", "overlapping"],
)
def test_pieces_that_make_the_whole(pieces: list[ElementwiseSpec]) -> None:
    count = max(p.axes[0] for p in pieces if isinstance(p.axes[0], int))
    assert not unwritten(plan_of(count, 8, *pieces))
    assert not unwritten(plan_of(count, 8, *pieces, through_arena=True))


@pytest.mark.parametrize(
    "pieces",
    [
        [copy_of(7)],
        [copy_of(4), copy_of(4)],
        [copy_of(4), copy_of(3, 5)],
        [copy_of(4, 0, 2), copy_of(4, 0, 2)],
        [copy_of(4, 0, 2), copy_of(3, 1, 2)],
    ],
    ids=["less", "twice", "a gap", "even twice", "odd but one"],
)
def test_pieces_that_do_not(pieces: list[ElementwiseSpec]) -> None:
    assert unwritten(plan_of(8, 8, *pieces))
    assert unwritten(plan_of(8, 8, *pieces, through_arena=True))


@pytest.mark.parametrize(("count", "missing"), [(4, 0), (5, 2)])
def test_a_kernel_that_writes_less_for_some_sizes(count: int, missing: int) -> None:
    """The largest five of four values do not exist."""
    row = Operand(f32, (1,))
    spec = TopKSpec((), 4, count, row, row, Operand(DType.i32, (1,)))
    types = [TensorType(t, (n,)) for t, n in ((f32, 4), (f32, count), (DType.i32, count))]
    ports = ((INPUT, 0), (OUTPUT, 0), (OUTPUT, 1))
    buffers = [
        Buffer(kind, t.dtype, t.shape or (), n) for t, (kind, n) in zip(types, ports, strict=True)
    ]
    region = Region((0,), (1, 2), (), (), tuple(buffers), (KernelStep(spec, (0, 1, 2), (), 1),))
    assert len(unwritten(make_plan(types, (0,), (1, 2), (region,)))) == missing


@pytest.mark.slow
def test_written_bytes_are_those_of_a_set() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        found, model = WrittenBytes(), set[int]()
        for _ in range(rng.integers(1, 6)):
            length = int(rng.integers(1, 4))
            terms = [
                (int(rng.integers(1, 4)), int(rng.integers(-8, 9)))
                for _ in range(rng.integers(0, 3))
            ]
            start = 40 + int(rng.integers(0, 12))
            found.add(start, terms, length)
            places = {start}
            for size, stride in terms:
                places = {p + i * stride for p in places for i in range(size)}
            model |= {p + i for p in places for i in range(length)}
        for low in range(100):
            for high in range(low + 1, 100):
                if found.holds(low, (), high - low):
                    assert model.issuperset(range(low, high))


def phases(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Piece]:
    """Every step-th index along each axis, from each first one on, as transposed convolutions
    write their outputs."""
    sizes = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    return [
        normalize_piece(
            sum(f * s for f, s in zip(first, sizes, strict=True)),
            [
                (-(-(n - f) // k), k * s)
                for n, f, k, s in zip(shape, first, strides, sizes, strict=True)
            ],
            1,
        )
        for first in np.ndindex(strides)
        if all(f < n for f, n in zip(first, shape, strict=True))
    ]


@pytest.mark.parametrize("shape", [(2, 5, 7, 9, 4), (3, 9, 7, 4), (1, 4, 6, 4), (2, 3, 1, 4)])
def test_phases_make_the_whole(shape: tuple[int, ...]) -> None:
    pieces = phases(shape, (1, *[2] * (len(shape) - 2), 1))
    assert fill_shape(pieces, shape) or len(pieces) == 1
    if len(pieces) > 1:
        assert not fill_shape(pieces[1:], shape)
        assert not fill_shape([pieces[0], *pieces[:-1]], shape)


def test_what_fills_a_shape_is_all_of_it() -> None:
    rng = np.random.default_rng(7)
    filled = 0
    for _ in range(3000):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        total = int(np.prod(shape))
        pieces: list[Piece] = []
        model = np.zeros(4 * total + 64, np.int64)
        for _ in range(rng.integers(1, 4)):
            terms = [
                (int(rng.integers(1, 4)), int(rng.integers(1, total + 1)))
                for _ in range(rng.integers(0, 3))
            ]
            piece = normalize_piece(int(rng.integers(0, total)), terms, int(rng.integers(1, 4)))
            places = {piece[0]}
            for size, stride in piece[1]:
                places = {p + i * stride for p in places for i in range(size)}
            if max(places) + piece[2] <= total:
                pieces.append(piece)
                model[sorted({p + i for p in places for i in range(piece[2])})] = 1
        if pieces and fill_shape(pieces, shape):
            filled += 1
            assert model[:total].all()
    assert filled > 20


# Random walks: nested loops and branches that write and read pieces of an output and of a buffer.
SIZE, MAX_TRIPS = 4, 3
Walk = list[tuple[Any, ...]]


def draw_walk(rng: random.Random, depth: int, most: int) -> Walk:
    """Pieces (kind, root, first, count, step, through the view that moves with the loop around it),
    branches (kind, one way, the other) and loops (kind, trips, whether all of them run, the views
    that move with it, body)."""
    found: Walk = []
    for _ in range(rng.randint(0, most)):
        kind = rng.random()
        if depth and kind < 0.2:
            found.append(("branch", *(draw_walk(rng, depth - 1, 3) for _ in range(2))))
        elif depth and kind < 0.45:
            views = [[rng.randint(low, SIZE) for low in (0, 1, 0)] for _ in range(2)]
            body = draw_walk(rng, depth - 1, 3)
            found.append(("loop", rng.randint(1, MAX_TRIPS), rng.random() < 0.7, views, body))
        else:
            first, count, step = rng.randint(0, SIZE - 1), rng.randint(1, SIZE), rng.randint(1, 3)
            verb, root = rng.choice(["write", "write", "read"]), rng.randint(0, 1)
            found.append((verb, root, first, count, step, rng.random() < 0.6))
    return found


class _Forged:
    """The plan of a walk, and runs of it on sets of elements. A piece is cut to its buffer."""

    def __init__(self, walk: Walk) -> None:
        self.buffers = [
            Buffer(INPUT, f32, (SIZE,), 0),
            Buffer(INPUT, DType.boolean, (), 1),
            Buffer(OUTPUT, f32, (SIZE,), 0),
            Buffer(ARENA, f32, (SIZE,), first=0, last=999),
            Buffer(ARENA, f32, (SIZE,), first=0, last=999),
        ]
        self.steps: list[Any] = []
        self.walk = self.lower(walk, (2, 3))
        last = len(self.steps) - 1
        kept = [replace(b, last=last) if b.last == 999 else b for b in self.buffers]
        dims = tuple(range(1, MAX_TRIPS + 1))
        region = Region((0, 1), (2,), (), dims, tuple(kept), tuple(self.steps))
        slots = [
            TensorType(f32, (SIZE,)), TensorType(DType.boolean, ()), TensorType(f32, (SIZE,)),
        ]  # fmt: skip
        self.plan = make_plan(slots, (0, 1), (2,), (region,))

    def lower(self, walk: Walk, views: tuple[int, int]) -> Walk:
        """The steps of a walk, and the walk with pieces as (kind, root, first, count, step) of a
        view; views are the buffers that move with the loop around it."""
        return [self.lower_one(one, views) for one in walk]

    def lower_one(self, one: tuple[Any, ...], views: tuple[int, int]) -> tuple[Any, ...]:
        steps = self.steps
        if one[0] == "branch":
            begin = len(steps)
            steps.append(None)
            first = self.lower(one[1], views)
            jump = len(steps)
            steps.append(None)
            second = self.lower(one[2], views)
            steps[begin] = ControlStep(BRANCH, jump + 1, condition=1)
            steps[jump] = ControlStep(JUMP, len(steps))
            return ("branch", first, second)
        if one[0] == "loop":
            _, trips, sure, wanted, body = one
            begin = len(steps)
            steps.append(None)
            moved = [self.view(v, w, trips, begin) for v, w in zip(views, wanted, strict=True)]
            inner = self.lower(body, (moved[0][0], moved[1][0]))
            steps[begin] = ControlStep(LOOP, len(steps), trips - 1, condition=None if sure else 1)
            steps.append(ControlStep(LOOP_END, begin))
            return ("loop", trips, sure, [(at, by) for _, at, by in moved], inner)
        kind, root, at, count, step, through = one
        b = views[root] if through else root + 2
        size = self.buffers[b].shape[0]
        assert isinstance(size, int)
        at = at % size
        count = min(count, (size - 1 - at) // step + 1)
        spec = copy_of(count, at, step) if kind == "write" else read_of(count, at, step)
        steps.append(KernelStep(spec, (0, b) if kind == "write" else (b, 4), (), 1))
        return (kind, root, at, count, step, through)

    def view(self, around: int, wanted: tuple[int, ...], trips: int, loop: int) -> Any:
        """A view of a buffer that moves with a loop and stays inside: (buffer, offset, stride)."""
        size = self.buffers[around].shape[0]
        assert isinstance(size, int)
        at = wanted[0] % size
        count = min(wanted[1], size - at)
        by = min(wanted[2], (size - at - count) // max(trips - 1, 1))
        self.buffers.append(
            Buffer(
                self.buffers[around].kind,
                f32,
                (count,),
                0 if around == 2 else -1,
                first=0,
                last=999 if self.buffers[around].kind == ARENA else 0,
                alias_of=around,
                alias_offset=at,
                loop=loop,
                stride=by,
            )  # fmt: skip
        )
        return len(self.buffers) - 1, at, by

    def run(self, rng: Any) -> set[int]:
        """The roots that a run with random ways and numbers of iterations reads, or leaves, with
        elements that are not written."""
        self.written: list[set[int]] = [set(), set()]
        self.missing: set[int] = set()
        self.run_walk(self.walk, (0, 0), rng)
        if len(self.written[0]) < SIZE:
            self.missing.add(2)
        return self.missing

    def run_walk(self, walk: Walk, starts: tuple[int, int], rng: Any) -> None:
        for one in walk:
            if one[0] == "branch":
                self.run_walk(one[rng.randint(1, 2)], starts, rng)
            elif one[0] == "loop":
                _, trips, sure, views, body = one
                for i in range(trips if sure else rng.randint(0, trips)):
                    moved = [s + at + i * by for s, (at, by) in zip(starts, views, strict=True)]
                    self.run_walk(body, (moved[0], moved[1]), rng)
            else:
                kind, root, at, count, step, through = one
                first = at + (starts[root] if through else 0)
                touched = set(range(first, first + count * step, step))
                if kind == "write":
                    self.written[root] |= touched
                elif not touched <= self.written[root]:
                    self.missing.add(root + 2)


def read_of(count: int, at: int, stride: int) -> ElementwiseSpec:
    """out[i] = x[at + i * stride] for i < count."""
    return replace(pointwise("copy", count), inputs=(Operand(f32, (stride,), at),))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_run_of_a_forged_walk_reads_what_is_not_written(seed: int) -> None:
    """Whatever way branches go and however often loops run, what is read or left unwritten is
    among the buffers that the runtime fills with zeros."""
    rng = random.Random(seed)
    # Verification refuses a buffer that no step writes.
    first = [("write", root, 0, 1, 1, False) for root in (0, 1)]
    shown = 0
    for _ in range(60):
        walk = [*first, *draw_walk(rng, 3, 5)]
        forged = _Forged(walk)
        verify_plan(forged.plan)
        found = unwritten(forged.plan)
        shown += len(found) < 2
        for _ in range(12):
            assert forged.run(rng) <= found, walk
    assert shown > 5, "too few walks write a whole buffer"
