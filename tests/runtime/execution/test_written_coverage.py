"""No result holds what the heap held before, whatever a plan leaves unwritten."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import ARENA, INPUT, OUTPUT, Buffer, KernelStep, Plan, Region
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_bytes import Piece, WrittenBytes, fill_shape, normalize_piece
from irc_compiler.plan.verify.written_coverage import Coverage
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import compile_plan, f32, make_plan, pointwise


def copy_of(count: int, at: int = 0, stride: int = 1) -> ElementwiseSpec:
    """out[at + i * stride] = x[i] for i < count."""
    return dataclasses.replace(pointwise("copy", count), outs=(Operand(f32, (stride,), at),))


def plan_of(count: int, size: int, *pieces: ElementwiseSpec, through_arena: bool = False) -> Plan:
    """x[count] copied in pieces into y[size], or into a buffer that is copied to y."""
    buffers = [Buffer(INPUT, f32, (count,), 0), Buffer(OUTPUT, f32, (size,), 0)]
    steps = [KernelStep(p, (0, 1), (), 1) for p in pieces]
    if through_arena:
        buffers.append(Buffer(ARENA, f32, (size,), first=0, last=len(pieces)))
        steps = [dataclasses.replace(s, buffers=(0, 2)) for s in steps]
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
        session.run_into([x], [given])
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
