"""Lowers TreeEnsemble: lays trees out breadth first, siblings side by side, leaves as nodes that
are their own children."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.lazy_dataclass import dataclass
from .....ir.op import Array
from .....ir.ops import Constant, TreeEnsemble
from .....ir.ops.ml.tree_ensemble import MODES
from .....plan.specs.tree_ensemble import (
    COLUMN_BITS,
    MAX_DEPTH,
    MAX_NODES,
    NODE_WORDS,
    STEPS_PER_TEST,
    TreeEnsembleSpec,
)
from ...build.region_builder import SizeCollector
from ...build.region_lowering import RegionLowering

Ints = NDArray[np.int64]
# Nodes that several parents share are copied; the copies may be this many times the nodes.
_MAX_GROWTH: Final = 4
# Weights of a leaf are stored for each target, or its tree has one target; so many at least.
_MAX_DENSE_WEIGHTS: Final = 1 << 24
# Tables of at most so many rows are padded to a power of two, larger ones by an eighth at most.
_MAX_DOUBLED_ROWS: Final = 4096
_PADDING_BITS: Final = 3
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ = (
    MODES[f"BRANCH_{name}"] for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
)
# Outcomes (1: less, 2: greater, 3: equal, 0: one is NaN) for which each mode holds, as bits.
_HOLDS: Final = {_LEQ: 0b1010, _LT: 0b0010, _GTE: 0b1100, _GT: 0b0100, _EQ: 0b1000, _NEQ: 0b0111}


@dataclass(frozen=True)
class Forest:
    """The constants of a TreeEnsemble."""

    splits: Array
    features: Ints
    modes: Ints
    missing: Ints
    then: Ints
    other: Ints
    roots: Ints
    leaf_targets: Ints
    leaf_weights: Array


@dataclass(frozen=True)
class _Levels:
    """Every node of every tree, level by level: what it refers to, and its tree."""

    references: Ints
    trees: Ints
    depth: int


def _read_forest(graph: Graph, node: int) -> Forest | None:
    """The constants of a node, or None where one is not known."""
    found: list[Any] = []
    for port in range(1, 10):
        op = graph.op(graph.input(node, port).node)
        if not isinstance(op, Constant):
            return None
        found.append(op.data)
    return Forest(*found)


def _is_consistent(forest: Forest) -> bool:
    """Whether the tables have the sizes and modes that the layout of nodes takes for granted."""
    nodes = (forest.splits, forest.features, forest.modes, forest.missing, forest.then)
    same = all(a.shape == forest.other.shape for a in nodes) and forest.other.ndim == 1
    leaves = forest.leaf_targets.ndim == 2 and (
        forest.leaf_targets.shape == forest.leaf_weights.shape
    )
    known = ((forest.modes >= 0) & (forest.modes < len(MODES))).all()
    return bool(same and leaves and forest.leaf_targets.size and forest.roots.ndim == 1 and known)


def refuse_trees(graph: Graph, node: int, op: TreeEnsemble) -> str | None:
    """Why no kernel walks these trees, or None."""
    forest = _read_forest(graph, node)
    x, weights = (graph.tensor(graph.input(node, port)) for port in (0, 9))
    if forest is None or not _is_consistent(forest):
        return "trees are known at run time only, or their tables do not fit together"
    if weights.dtype not in (DType.f32, DType.f64) or forest.splits.dtype != (
        forest.leaf_weights.dtype
    ):
        return "splits and weights are not both f32 or both f64"
    if not (x.dtype.is_float and x.dtype.bits in (32, 64) or x.dtype.is_int and x.dtype.bits >= 8):
        return f"no kernel compares {x.dtype}"
    if x.shape is None or not isinstance(x.shape[1], int):
        return "the number of features is known at run time only"
    if not 0 < x.shape[1] <= 1 << COLUMN_BITS:
        return f"{x.shape[1]} features; kernels compare 1 to {1 << COLUMN_BITS}"
    ignores_nan = op.aggregate in ("MIN", "MAX") and np.isnan(forest.leaf_weights).any()
    odd = (forest.missing != 0) & np.isnan(forest.splits) & (forest.modes != _NEQ)
    if ignores_nan or odd.any():
        return "a split or a weight that is not a number"
    if not len(forest.roots):
        return "an ensemble without trees"
    levels = _list_levels(forest)
    if levels is None:
        return f"trees deeper than {MAX_DEPTH}, or with too many nodes for a kernel's tables"
    if _find_tree_targets(forest, levels) is None:
        dense = len(forest.leaf_targets) * op.targets
        if dense > max(_MAX_DENSE_WEIGHTS, 2 * forest.leaf_weights.size):
            return "leaves with weights of a few among many targets"
    return None


def _list_levels(forest: Forest) -> _Levels | None:
    """The nodes of all trees; None beyond the limits of the kernel."""
    limit = min(
        MAX_NODES - 1,
        _MAX_GROWTH * (len(forest.then) + len(forest.leaf_targets) + len(forest.roots)) + 1024,
    )
    references, trees = forest.roots, np.arange(len(forest.roots))
    found = [(references, trees)]
    total = len(references)
    while (inner := references >= 0).any():
        parents = references[inner]
        references = np.stack([forest.then[parents], forest.other[parents]], 1).reshape(-1)
        trees = np.repeat(trees[inner], 2)
        total += len(references)
        if total > limit or len(found) > MAX_DEPTH:
            return None
        found.append((references, trees))
    references, trees = (np.concatenate(part) for part in zip(*found, strict=True))
    return _Levels(references, trees, len(found) - 1)


def _find_tree_targets(forest: Forest, levels: _Levels) -> Ints | None:
    """The one target that the leaves of each tree name, if that is so."""
    if forest.leaf_targets.shape[1] != 1:
        return None
    ends = levels.references < 0
    named = forest.leaf_targets[-1 - levels.references[ends], 0]
    trees = levels.trees[ends]
    found = np.zeros(len(forest.roots), np.int64)
    found[trees] = named
    return found if (named >= 0).all() and (found[trees] == named).all() else None


def _choose_comparison(forest: Forest) -> str:
    """How the kernel compares: fewer instructions where no mode and no infinity needs more."""
    upper = (forest.modes == _GTE) | (forest.modes == _GT)
    finite = np.isfinite(forest.splits).all()
    if not finite or (forest.modes == _EQ).any() or (forest.modes == _NEQ).any():
        return "outcome"
    return "less_or_missing" if ((forest.missing != 0) != upper).any() else "less"


def _make_nodes(forest: Forest, levels: _Levels, comparison: str) -> tuple[Array, Ints]:
    """The kernel's node table and the root of each tree."""
    inner = levels.references >= 0
    order = np.argsort(levels.trees, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    at = levels.references[inner]
    modes, missing = forest.modes[at], forest.missing[at] != 0
    upper = (modes == _GTE) | (modes == _GT)
    splits, words = forest.splits[at], forest.features[at]
    then_first = np.zeros(len(at), bool)
    if comparison == "outcome":
        holds = np.zeros(len(MODES), np.int64)
        holds[list(_HOLDS)] = list(_HOLDS.values())
        words = words | (holds[modes] | missing) << COLUMN_BITS
    else:
        # x <= s is x < the number after s; x >= s is not x < s.
        follows = (modes == _LEQ) | (modes == _GT)
        splits = np.where(follows, np.nextafter(splits, splits.dtype.type(np.inf)), splits)
        then_first = upper
        words = words | (missing != upper).astype(np.int64) << 31
    # Children are listed as (then, other); where `other` comes first, the two are swapped.
    swapped = np.repeat(~then_first, 2)
    pairs = position[len(forest.roots) :].reshape(-1, 2)
    first = pairs[:, 0].copy()
    position[len(forest.roots) :] = np.where(swapped, pairs[:, ::-1].reshape(-1), pairs.reshape(-1))
    count = len(order)
    child, word = position.copy(), np.zeros(count, np.int64)
    split = np.full(count, -np.inf, forest.splits.dtype)
    child[inner], word[inner], split[inner] = first, words, splits
    word[~inner] = -1 - levels.references[~inner]
    columns = [split.view(np.int32).reshape(count, -1), *(
        c.astype(np.uint32).view(np.int32)[:, None] for c in (child, word)
    )]  # fmt: skip
    table = np.zeros((count + 1, NODE_WORDS), np.int32)
    joined = np.concatenate(columns, 1)
    table[position, : joined.shape[1]] = joined
    table[count] = table[count - 1]
    return table, position[: len(forest.roots)]


def _spread_weights(forest: Forest, op: TreeEnsemble) -> Array:
    """[leaves, targets]: what is not named adds 0, or NaN where the least or largest is taken."""
    fill = 0.0 if op.aggregate in ("SUM", "AVERAGE") else np.nan
    found = np.full((len(forest.leaf_targets), op.targets), fill, forest.leaf_weights.dtype)
    rows = np.arange(len(found))
    for targets, weights in zip(forest.leaf_targets.T, forest.leaf_weights.T, strict=True):
        named = targets >= 0
        at = rows[named], targets[named]
        if op.aggregate in ("SUM", "AVERAGE"):
            found[at] += weights[named]
        else:
            join = np.fmin if op.aggregate == "MIN" else np.fmax
            found[at] = join(found[at], weights[named])
    return found


@dataclass(frozen=True)
class PackedForest:
    """A forest as the kernel reads it: the tables of TreeEnsembleSpec and what it says of them."""

    nodes: Array
    trees: Array
    weights: Array
    depth: int
    comparison: str


def pack_forest(forest: Forest, op: TreeEnsemble) -> PackedForest | None:
    """The kernel's tables; None where the trees are beyond its limits."""
    levels = _list_levels(forest)
    if levels is None:
        return None
    comparison = _choose_comparison(forest)
    nodes, roots = _make_nodes(forest, levels, comparison)
    targets, weights = _find_tree_targets(forest, levels), forest.leaf_weights
    if targets is None:
        targets, weights = np.zeros_like(roots), _spread_weights(forest, op)
    trees = np.stack([roots, targets], 1).astype(np.int32)
    nodes, weights = _pad_rows(nodes, MAX_NODES), _pad_rows(weights, 1 << COLUMN_BITS)
    return PackedForest(nodes, trees, weights, levels.depth, comparison)


def _pad_rows(table: Array, limit: int) -> Array:
    """The table with rows behind its last one, so that many tables have one length, and their
    ensembles one kernel: an isolation forest is an ensemble for each tree."""
    count = len(table)
    bits = (count - 1).bit_length()
    step = 1 << (bits if count <= _MAX_DOUBLED_ROWS else bits - _PADDING_BITS)
    length = min(-(-count // step) * step, limit)
    return np.concatenate([table, np.zeros((length - count, *table.shape[1:]), table.dtype)])


def _round_depth(depth: int) -> int:
    """A depth up to which the kernel looks no more often whether the walks have ended."""
    return depth if depth < STEPS_PER_TEST else -(-depth // STEPS_PER_TEST) * STEPS_PER_TEST


def lower_trees(lowering: RegionLowering, node: int, op: TreeEnsemble) -> None:
    """One step over all rows; the tables are constants of the plan."""
    forest, name = _read_forest(lowering.graph, node), lowering.name(node)
    assert forest is not None
    packed = pack_forest(forest, op)
    assert packed is not None
    x, out = lowering.view(lowering.graph.input(node, 0)), lowering.result(Value(node))
    views = [
        x,
        lowering.array(packed.nodes, DType.i32, None, f"{name} nodes"),
        lowering.array(packed.trees, DType.i32, None, f"{name} trees"),
        lowering.array(packed.weights, out.dtype, None, f"{name} weights"),
        out,
    ]
    sizes = SizeCollector()
    rows, columns = x.shape
    assert isinstance(columns, int)
    leaves, width = packed.weights.shape
    spec = TreeEnsembleSpec(
        sizes(rows),
        columns,
        len(packed.nodes),
        len(packed.trees),
        leaves,
        width,
        op.targets,
        min(_round_depth(packed.depth), MAX_DEPTH),
        packed.comparison,
        op.aggregate,
        *(sizes.operand(v, v.strides) for v in views),
    )
    work = rows * (len(packed.trees) * (packed.depth + 1))
    lowering.region.kernel(spec, sizes, views, work, name, lowering.sources(node))
