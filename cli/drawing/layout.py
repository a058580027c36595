"""A layered layout: every edge points down, no box overlaps another, few edges cross.

After Sugiyama, Tagawa and Toda (1981), in four steps: ranks by longest path; order within a rank
by barycentres, sweeping down and up; positions by least squares under the order's separations
(pool adjacent violators); edges through the gaps that they reserved in the ranks they cross.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

GAP_X = 24.0  # between boxes of a rank
GAP_Y = 44.0  # between ranks
LANE = 10.0  # width of an edge that passes a rank
MARGIN = 24.0
# Above this many boxes and lanes, fewer sweeps: the picture is for searching in by then.
_MAX_FULLY_SWEPT_BOXES = 4000


@dataclass(frozen=True)
class DrawingLayout:
    """Centres of the boxes and points of each edge, from box to box, in pixels."""

    centres: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


class _Layers:
    """Boxes and lanes by rank. Items 0..n-1 are boxes, the rest lanes; `links` join neighbours."""

    def __init__(self, sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> None:
        self.count = len(sizes)
        self.widths = [w for w, _ in sizes]
        self.ranks = find_ranks(len(sizes), edges)
        self.up: list[list[int]] = [[] for _ in sizes]
        self.down: list[list[int]] = [[] for _ in sizes]
        self.paths: list[list[int]] = []
        lanes: dict[tuple[int, int], int] = {}  # one lane per box and rank, for all its consumers
        for source, target in edges:
            path = [source]
            for rank in range(self.ranks[source] + 1, self.ranks[target]):
                lane = lanes.get((source, rank))
                if lane is None:
                    lane = lanes[source, rank] = len(self.ranks)
                    self.ranks.append(rank)
                    self.widths.append(LANE)
                    self.up.append([])
                    self.down.append([])
                    self._link(path[-1], lane)
                path.append(lane)
            self._link(path[-1], target)
            self.paths.append([*path, target])
        self.layers: list[list[int]] = [[] for _ in range(max(self.ranks, default=-1) + 1)]
        for item, rank in enumerate(self.ranks):
            self.layers[rank].append(item)

    def _link(self, above: int, below: int) -> None:
        self.down[above].append(below)
        self.up[below].append(above)


def find_ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path to each box; a box without inputs is just above its first consumer. Boxes
    are numbered so that edges go from lower to higher numbers."""
    readers: list[list[int]] = [[] for _ in range(count)]
    ranks = [0] * count
    has_source = [False] * count
    for source, target in edges:
        readers[source].append(target)
        has_source[target] = True
    for box in range(count):
        for reader in readers[box]:
            ranks[reader] = max(ranks[reader], ranks[box] + 1)
    for box in range(count):
        if not has_source[box] and readers[box]:
            ranks[box] = min(ranks[r] for r in readers[box]) - 1
    return ranks


def lay_out(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> DrawingLayout:
    """Place boxes of these widths and heights; edges (from, to) go from lower to higher numbers."""
    layers = _Layers(sizes, edges)
    _order(layers)
    x = _place_centres(layers)
    left = min((x[i] - layers.widths[i] / 2 for i in range(len(x))), default=0.0) - MARGIN
    x = [v - left for v in x]
    heights = [
        max([sizes[i][1] for i in layer if i < layers.count], default=0.0)
        for layer in layers.layers
    ]
    tops: list[float] = []
    y = MARGIN
    for height in heights:
        tops.append(y)
        y += height + GAP_Y
    centres = [
        (x[i], tops[layers.ranks[i]] + heights[layers.ranks[i]] / 2) for i in range(len(sizes))
    ]
    bands = [(top, top + height) for top, height in zip(tops, heights, strict=True)]
    routes = _route(layers, x, centres, sizes, bands)
    width = max((x[i] + layers.widths[i] / 2 for i in range(len(x))), default=0.0) + MARGIN
    return DrawingLayout(centres, routes, width, max(y - GAP_Y, 0.0) + MARGIN)


def _order(layers: _Layers) -> None:
    """Sort each layer so that few links cross."""
    many = len(layers.ranks) > _MAX_FULLY_SWEPT_BOXES
    best, fewest = [list(layer) for layer in layers.layers], _count_crossings(layers)
    for sweep in range(6 if many else 16):
        downwards = sweep % 2 == 0
        links = layers.up if downwards else layers.down
        numbered = list(enumerate(layers.layers))
        index = {item: n for layer in layers.layers for n, item in enumerate(layer)}
        for _, layer in numbered if downwards else reversed(numbered):
            weight = {
                item: sum(index[o] for o in links[item]) / len(links[item])
                if links[item]
                else index[item]
                for item in layer
            }
            layer.sort(key=lambda item: weight[item])
            index.update({item: n for n, item in enumerate(layer)})
        crossings = _count_crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers.layers], crossings
        if not fewest:
            break
    layers.layers[:] = best


def _count_crossings(layers: _Layers) -> int:
    """Pairs of links between neighbouring layers that cross."""
    total = 0
    for above, below in zip(layers.layers, layers.layers[1:], strict=False):
        index = {item: n for n, item in enumerate(below)}
        seen: list[int] = []
        for item in above:
            ends = sorted(index[t] for t in layers.down[item])
            for end in ends:
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                seen.insert(bisect_right(seen, end), end)
    return total


def _place_centres(layers: _Layers) -> list[float]:
    """Centres along a rank: near the neighbours, lanes straight above all, nothing too close."""
    x = [0.0] * len(layers.ranks)
    for layer in layers.layers:
        at = 0.0
        for item in layer:
            x[item] = at + layers.widths[item] / 2
            at += layers.widths[item] + GAP_X
        shift = at / 2
        for item in layer:
            x[item] -= shift
    sweeps = 6 if len(layers.ranks) > _MAX_FULLY_SWEPT_BOXES else 24
    for sweep in range(sweeps):
        last = sweep >= sweeps - 2
        downwards = sweep % 2 == 0
        for layer in layers.layers if downwards else reversed(layers.layers):
            wanted: list[float] = []
            weights: list[float] = []
            for item in layer:
                near = layers.up[item] if downwards else layers.down[item]
                others = layers.up[item] + layers.down[item] if last or not near else near
                pulls = [(_pull(layers, item, o), x[o]) for o in others]
                weight = sum(w for w, _ in pulls)
                wanted.append(sum(w * v for w, v in pulls) / weight if weight else x[item])
                # Where both can't have their way, lanes give way to boxes.
                weights.append(4.0 if item < layers.count else 1.0)
            _separate(layers, layer, wanted, weights, x)
    return x


def _pull(layers: _Layers, item: int, other: int) -> float:
    """How much a neighbour attracts. A lane hardly pulls a box that reads another box, or each
    reader of a long lane would shift the whole chain below it a little further aside."""
    return 0.02 if (item >= layers.count) != (other >= layers.count) else 1.0


def _separate(
    layers: _Layers,
    layer: Sequence[int],
    wanted: Sequence[float],
    weights: Sequence[float],
    x: list[float],
) -> None:
    """The positions nearest to the wanted ones, weighted, that keep order and gaps.

    Without the gaps' sum before each item this is isotonic regression: blocks of violators take
    their weighted mean.
    """
    offsets: list[float] = []
    at = 0.0
    for n, item in enumerate(layer):
        if n:
            before = layers.widths[layer[n - 1]]
            at += (before + layers.widths[item]) / 2 + GAP_X
        offsets.append(at)
    blocks: list[list[float]] = []  # sum of weight * value, weight, items
    for value, weight, offset in zip(wanted, weights, offsets, strict=True):
        block = [(value - offset) * weight, weight, 1]
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            before_block = blocks.pop()
            block = [a + b for a, b in zip(before_block, block, strict=True)]
        blocks.append(block)
    n = 0
    for total, weight, count in blocks:
        for _ in range(int(count)):
            x[layer[n]] = total / weight + offsets[n]
            n += 1


def _route(
    layers: _Layers,
    x: Sequence[float],
    centres: Sequence[Point],
    sizes: Sequence[Point],
    bands: Sequence[tuple[float, float]],
) -> list[list[Point]]:
    """Points of each edge: out of its box, down its lanes, into the reader's box. Edges enter a
    box side by side, in the order in which they come."""
    entering: dict[int, list[int]] = {}
    for number, path in enumerate(layers.paths):
        entering.setdefault(path[-1], []).append(number)
    entry: dict[int, float] = {}
    for box, numbers in entering.items():
        numbers.sort(key=lambda n: (x[layers.paths[n][-2]], n))
        room = min(sizes[box][0] - 16, 28.0 * (len(numbers) - 1))
        step = room / max(1, len(numbers) - 1)
        for n, number in enumerate(numbers):
            entry[number] = x[box] - room / 2 + n * step if len(numbers) > 1 else x[box]
    routes: list[list[Point]] = []
    for number, path in enumerate(layers.paths):
        source, target = path[0], path[-1]
        bottom = bands[layers.ranks[source]][1]
        points = [(x[source], centres[source][1] + sizes[source][1] / 2)]
        if points[0][1] < bottom:
            points.append((x[source], bottom))
        for lane in path[1:-1]:
            top, end = bands[layers.ranks[lane]]
            points += [(x[lane], top), (x[lane], end)]
        top = bands[layers.ranks[target]][0]
        upper = centres[target][1] - sizes[target][1] / 2
        if upper > top:
            points.append((entry[number], top))
        points.append((entry[number], upper))
        routes.append(points)
    return routes
