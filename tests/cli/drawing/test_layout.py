"""The layered layout: nothing overlaps, everything points down, few edges cross."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from irc_compiler.cli.drawing.layout import GAP_X, DrawingLayout, Point, find_ranks, lay_out


def check(layout: DrawingLayout, sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> None:
    """No two boxes overlap, all edges lead down from box to box, none goes through a third."""
    frames = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(layout.centres, sizes, strict=True)
    ]
    for n, a in enumerate(frames):
        assert a[0] >= 0 and a[1] >= 0 and a[2] <= layout.width and a[3] <= layout.height
        for b in frames[n + 1 :]:
            apart = a[2] + GAP_X / 2 <= b[0] or b[2] + GAP_X / 2 <= a[0]
            assert apart or a[3] < b[1] or b[3] < a[1]
    assert len(layout.routes) == len(edges)
    for (source, target), route in zip(edges, layout.routes, strict=True):
        left, _, right, bottom = frames[source]
        assert left <= route[0][0] <= right and route[0][1] == pytest.approx(bottom)
        left, top, right, _ = frames[target]
        assert left <= route[-1][0] <= right and route[-1][1] == pytest.approx(top)
        for (x, y), (to_x, to_y) in zip(route, route[1:], strict=False):
            assert to_y > y - 1e-6
            if x == to_x:  # inside a rank; S-curves lie between ranks, where no boxes are
                for n, box in enumerate(frames):
                    crossed = box[0] < x < box[2] and y < box[3] - 1e-6 and to_y > box[1] + 1e-6
                    assert not crossed or n in (source, target)


def random_graph(seed: int, count: int) -> tuple[list[Point], list[tuple[int, int]]]:
    rng = random.Random(seed)
    sizes = [(rng.randint(30, 240) * 1.0, rng.choice([30.0, 45.0, 60.0])) for _ in range(count)]
    edges = []
    for target in range(1, count):
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            edges.append((max(0, target - rng.randint(1, 12)), target))
    return sizes, edges


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    sizes, edges = random_graph(seed, 60)
    check(lay_out(sizes, edges), sizes, edges)


def test_small_ones() -> None:
    assert lay_out([], []).centres == []
    for edges in ([], [(0, 1)], [(0, 1), (0, 1)]):
        sizes = [(50.0, 30.0), (80.0, 45.0)]
        check(lay_out(sizes, edges), sizes, edges)


def test_ranks() -> None:
    edges = [(0, 2), (2, 3), (1, 3)]  # box 1 reads nothing: it stands above its reader
    assert find_ranks(4, edges) == [0, 1, 1, 2]


def test_a_chain_is_straight_and_a_skip_goes_around() -> None:
    sizes = [(100.0, 40.0)] * 6
    edges = [(n, n + 1) for n in range(5)] + [(0, 5)]
    layout = lay_out(sizes, edges)
    check(layout, sizes, edges)
    middle = [x for x, _ in layout.centres[1:5]]
    assert max(middle) - min(middle) < 4


def test_crossings_are_undone() -> None:
    sizes = [(40.0, 30.0)] * 8
    edges = [(0, 7), (1, 6), (2, 5), (3, 4)]
    layout = lay_out(sizes, edges)
    for n, (a, b) in enumerate(edges):
        for c, d in edges[n + 1 :]:
            one = layout.centres[a][0] - layout.centres[c][0]
            assert one * (layout.centres[b][0] - layout.centres[d][0]) > 0


@pytest.mark.slow
def test_a_large_graph() -> None:
    sizes, edges = random_graph(99, 1500)
    layout = lay_out(sizes, edges)
    assert len(layout.centres) == 1500
