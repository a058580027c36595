"""Views against NumPy's own strides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.compiler.strided_view import (
    View,
    broadcast_to,
    coalesce,
    is_contiguous,
    permute,
    reshape,
    row_major,
    take,
)
from irc_compiler.ir.dims import Dim, evaluate, symbol
from irc_compiler.ir.dtype import DType


def plain(shape: tuple[Dim, ...]) -> View:
    return View(0, DType.i64, shape, row_major(shape))


def read(view: View, memory: np.ndarray, **sizes: int) -> np.ndarray:
    """The elements a view shows of a buffer."""
    shape = [evaluate(d, sizes) for d in view.shape]
    strides = [evaluate(d, sizes) * memory.itemsize for d in view.strides]
    start = memory[evaluate(view.offset, sizes) :]
    return np.lib.stride_tricks.as_strided(start, shape, strides)


@st.composite
def moved(draw: st.DrawFn) -> tuple[View, np.ndarray, np.ndarray]:
    """A view after random movements, its buffer, and the array NumPy has after the same ones."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    memory = np.arange(int(np.prod(shape)))
    view, array = plain(shape), memory.reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        axis = draw(st.integers(0, view.rank - 1))
        kind = draw(st.sampled_from(["permute", "take", "reverse", "broadcast"]))
        size = array.shape[axis]
        if kind == "permute":
            order = draw(st.permutations(range(view.rank)))
            view, array = permute(view, order), array.transpose(order)
        elif kind == "take":
            start = draw(st.integers(0, size - 1))
            step = draw(st.integers(1, 2))
            picked = array[(slice(None),) * axis + (slice(start, None, step),)]
            view, array = take(view, axis, start, picked.shape[axis], step), picked
        elif kind == "reverse":
            view, array = take(view, axis, size - 1, size, -1), np.flip(array, axis)
        else:
            wide = (draw(st.integers(1, 3)), *array.shape)
            view, array = broadcast_to(view, wide), np.broadcast_to(array, wide)
    return view, memory, array


@pytest.mark.slow
@settings(deadline=None)
@given(moved())
def test_movements_are_numpys(case: tuple[View, np.ndarray, np.ndarray]) -> None:
    view, memory, array = case
    assert (read(view, memory) == array).all()
    if is_contiguous(view) and array.size:
        start = int(view.offset)  # type: ignore[arg-type]
        assert (memory[start : start + array.size].reshape(array.shape) == array).all()


@pytest.mark.slow
@settings(deadline=None)
@given(moved(), st.randoms(use_true_random=False))
def test_reshape_is_numpys_or_says_no(
    case: tuple[View, np.ndarray, np.ndarray], random: object
) -> None:
    view, memory, array = case
    count, target = array.size, []
    while count > 1:
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        target.append(random.choice([1, *divisors]))  # type: ignore[attr-defined]
        count //= target[-1]
    found = reshape(view, tuple(target))
    if found is not None:
        assert (read(found, memory) == array.reshape(target)).all()
    else:
        assert not is_contiguous(view)


@pytest.mark.slow
@settings(deadline=None)
@given(moved())
def test_coalesced_axes_visit_the_same_elements(
    case: tuple[View, np.ndarray, np.ndarray],
) -> None:
    view, memory, array = case
    axes, (strides, own) = coalesce(view.shape, [view.strides, row_major(view.shape)])
    merged = View(0, DType.i64, axes, strides, view.offset)
    assert (read(merged, memory).reshape(-1) == array.reshape(-1)).all()
    assert 1 not in axes
    order = View(0, DType.i64, axes, own)
    assert (read(order, np.arange(array.size)).reshape(-1) == np.arange(array.size)).all()


def test_symbolic_heads_are_strides() -> None:
    """[B, S, H*D] -> heads first is a view; the way back needs no copy before the last reshape."""
    b, s = symbol("B"), symbol("S")
    view = reshape(plain((b, s, 24)), (b, s, 4, 6))
    assert view is not None
    heads = permute(view, (0, 2, 1, 3))
    memory = np.arange(2 * 5 * 24)
    wanted = memory.reshape(2, 5, 4, 6).transpose(0, 2, 1, 3)
    assert (read(heads, memory, B=2, S=5) == wanted).all()
    assert reshape(heads, (b, s, 24)) is None
    assert reshape(permute(heads, (0, 2, 1, 3)), (b, s, 24)) is not None


def test_a_size_that_may_be_1_gets_a_stride_that_knows() -> None:
    n = symbol("N", 1)
    view = broadcast_to(plain((n, 3)), (symbol("M", 1), 3))
    memory = np.arange(30)
    assert (read(view, memory, N=1, M=4) == memory[:3]).all()
    assert (read(view, memory, N=4, M=4) == memory[:12].reshape(4, 3)).all()
