"""Ensembles of trees against TreeEnsemble's own meaning, bit for bit, and forged node tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.compiler.lowering.ops.ml.tree_ensemble import Forest, pack_forest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import TreeEnsemble
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.tree_ensemble import TreeEnsembleSpec
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, Sizes, run, same_bits

DTYPES = {np.float32: DType.f32, np.float64: DType.f64, np.int64: DType.i64}
LEQ, LT, GTE, GT, EQ, NEQ = range(6)
COLUMNS = 5


def grow(
    seed: int, trees: int, depth: int, modes: list[int], *, targets: int = 1, width: int = 1,
    missing: tuple[int, ...] = (0,), dtype: Any = np.float32, full: bool = False,
) -> Forest:  # fmt: skip
    """Random trees on integers 0..3, so that splits meet values; weights are small integers."""
    r = np.random.default_rng(seed)
    then, other, leaf_targets = list[int](), list[int](), list[Any]()

    def new_leaf(tree: int) -> int:
        dense = np.arange(width) if width > 1 else [tree % targets]
        leaf_targets.append(dense)
        return -len(leaf_targets)

    def new_node(tree: int, level: int) -> int:
        if level == depth or (level and not full and r.random() < 0.25):
            return new_leaf(tree)
        at = len(then)
        then.append(0)
        other.append(0)
        then[at], other[at] = new_node(tree, level + 1), new_node(tree, level + 1)
        return at

    roots = [new_node(tree, 0) for tree in range(trees)]
    count, leaves = len(then), len(leaf_targets)
    whole = lambda x: np.array(x, np.int64)  # noqa: E731
    return Forest(
        r.integers(0, 4, count).astype(dtype), r.integers(0, COLUMNS, count),
        r.choice(modes, count).astype(np.int64), r.choice(missing, count).astype(np.int64),
        whole(then), whole(other), whole(roots), whole(leaf_targets),
        r.integers(-50, 50, (leaves, width)).astype(dtype),
    )  # fmt: skip


def rows_of(count: int, dtype: Any) -> np.ndarray:
    r = np.random.default_rng(count)
    x = r.integers(0, 4, (count, COLUMNS)).astype(dtype)
    if x.dtype.kind == "f":
        x[r.random(x.shape) < 0.15] = np.nan
        x[r.random(x.shape) < 0.05] = np.inf
    return x


def make_spec(
    forest: Forest, op: TreeEnsemble, x: np.ndarray, *, dynamic: bool = False
) -> tuple[TreeEnsembleSpec, list[np.ndarray], list[int]]:
    """The spec, its inputs and its run-time sizes."""
    packed = pack_forest(forest, op)
    assert packed is not None
    sizes, dtype = Sizes(dynamic), DTYPES[forest.leaf_weights.dtype.type]
    spec = TreeEnsembleSpec(
        sizes(len(x)), COLUMNS, len(packed.nodes), len(packed.trees), *packed.weights.shape,
        op.targets, packed.depth, packed.comparison, op.aggregate,
        Operand(DTYPES[x.dtype.type], (sizes(COLUMNS), 1)), Operand(DType.i32, (4, 1)),
        Operand(DType.i32, (2, 1)), Operand(dtype, (packed.weights.shape[1], 1)),
        Operand(dtype, (op.targets, 1)),
    )  # fmt: skip
    return spec, [x, packed.nodes, packed.trees, packed.weights], sizes.dims


def check(forest: Forest, op: TreeEnsemble, x: np.ndarray, isa: str, comparison: str = "") -> None:
    """Bits equal evaluation's for one worker and three, with sizes known and not."""
    wanted = op.evaluate(x, *vars(forest).values())[0]
    for dynamic, workers in ((False, 1), (True, 3)):
        spec, inputs, dims = make_spec(forest, op, x, dynamic=dynamic)
        assert spec.comparison == (comparison or spec.comparison)
        verify_specs([spec], host_target())
        found = run(spec, inputs, [wanted.shape], isa=isa, dims=dims, workers=workers)
        assert found.status == 0
        assert same_bits(found.outs[0], wanted), (dynamic, workers)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("modes", "missing", "comparison"),
    [
        ([LEQ], (0,), "less"),
        ([LT], (0,), "less"),
        ([GTE, GT], (1,), "less"),
        ([LT, GTE], (0, 1), "less_or_missing"),
        ([LEQ, GT], (0, 1), "less_or_missing"),
        ([EQ], (0,), "outcome"),
        ([NEQ], (0, 1), "outcome"),
        ([LEQ, LT, GTE, GT, EQ, NEQ], (0, 1), "outcome"),
    ],
)
def test_modes(isa: str, modes: list[int], missing: tuple[int, ...], comparison: str) -> None:
    forest = grow(8, 11, 6, modes, missing=missing)
    for rows in (1, 8, 21):
        check(forest, TreeEnsemble(1), rows_of(rows, np.float32), isa, comparison)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_aggregates(isa: str, aggregate: str, dtype: Any) -> None:
    """One target; a target per tree; a weight for each target of a leaf."""
    for targets, width in ((1, 1), (3, 1), (11, 11)):
        forest = grow(targets, 9, 4, [LT, GT], targets=targets, width=width, dtype=dtype)
        check(forest, TreeEnsemble(targets, aggregate), rows_of(19, dtype), isa)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_leaves_that_name_some_of_the_targets(aggregate: str) -> None:
    forest = grow(3, 9, 4, [LT, GT], targets=4, width=2)
    named = np.random.default_rng(0).integers(-1, 3, forest.leaf_targets.shape)
    named[named[:, 0] == named[:, 1], 1] = -1
    forest = replace(forest, leaf_targets=named)
    check(forest, TreeEnsemble(4, aggregate), rows_of(19, np.float32), ISAS[0])


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_depths_and_row_blocks(isa: str) -> None:
    """Trees that are leaves, shorter than the steps between two tests, and longer; two blocks."""
    for depth in (0, 1, 3, 4, 5, 9):
        forest = grow(depth, 3, depth, [LEQ], full=True)
        check(forest, TreeEnsemble(1), rows_of(9, np.float32), isa)
    check(grow(1, 17, 5, [LEQ]), TreeEnsemble(1), rows_of(531, np.float32), isa)
    check(grow(1, 17, 5, [LEQ]), TreeEnsemble(1), rows_of(0, np.float32), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("split", "mode"), [(s, m) for s in (np.inf, -np.inf, np.nan, 0.0, -0.0) for m in range(6)]
)
def test_splits_that_are_not_finite(isa: str, split: float, mode: int) -> None:
    forest = grow(5, 5, 4, [mode], missing=(0,))
    forest = replace(forest, splits=np.full_like(forest.splits, split))
    x = rows_of(9, np.float32)
    x[0], x[1], x[2] = -np.inf, 1e-45, -0.0
    check(forest, TreeEnsemble(1), x, isa)


@pytest.mark.slow
@pytest.mark.aarch64
def test_integers_are_compared_as_floats() -> None:
    forest = grow(5, 5, 4, [LEQ, GTE], missing=(0, 1))
    check(forest, TreeEnsemble(1), rows_of(13, np.int64), ISAS[0])


@pytest.mark.slow
def test_shared_nodes_are_copied() -> None:
    """A chain of comparisons whose first children are one node, as a set of members has."""
    base = grow(5, 1, 3, [LEQ], full=True)
    chain = np.arange(3)
    forest = replace(
        base,
        splits=np.concatenate([np.arange(3, dtype=np.float32), base.splits]),
        features=np.concatenate([chain * 0, base.features]),
        modes=np.concatenate([chain * 0 + EQ, base.modes]),
        missing=np.concatenate([chain * 0, base.missing]),
        then=np.concatenate([chain * 0 + 3, np.where(base.then >= 0, base.then + 3, base.then)]),
        other=np.concatenate([[1, 2, -1], np.where(base.other >= 0, base.other + 3, base.other)]),
    )
    check(forest, TreeEnsemble(1), rows_of(40, np.float32), ISAS[0])
    # Each level shares its child with the level above: copies would be 2^40 nodes.
    steps = np.arange(1, 41)
    steps[-1] = -1
    ones = np.ones(40, np.int64)
    forest = Forest(
        ones.astype(np.float32), ones, ones, ones, steps, steps, np.zeros(1, np.int64),
        np.zeros((1, 1), np.int64), np.ones((1, 1), np.float32),
    )  # fmt: skip
    assert pack_forest(forest, TreeEnsemble(1)) is None


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("modes", [[LEQ], [LT, GTE], [EQ]], ids=["less", "missing", "outcome"])
@pytest.mark.parametrize("rows", [3, 16])
def test_forged_tables_stay_inside_memory(isa: str, modes: list[int], rows: int) -> None:
    """Any numbers in the tables, cycles among them: the kernel ends and touches no protected page.
    Inputs and outputs are next to such pages."""
    rng = np.random.default_rng(rows)
    forest = grow(rows, 9, 6, modes, missing=(0, 1) if len(modes) > 1 else (0,))
    spec, inputs, dims = make_spec(forest, TreeEnsemble(1), rows_of(rows, np.float32))
    extremes = np.array([-1, 0, 1, 2**31 - 1, -(2**31), 1 << 27, len(inputs[1])], np.int32)
    for trial in range(12):
        forged = [a.copy() for a in inputs]
        for table in forged[1:3]:
            at = rng.random(table.shape) < (0.1, 0.5, 1.0)[trial % 3]
            table[at] = rng.choice(extremes, int(at.sum()))
        for place in ("start", "end"):
            found = run(spec, forged, [(rows, 1)], isa=isa, dims=dims, at=place, workers=2)
            assert found.status == 0


def net_of(forest: Forest) -> irc.CompiledModel:
    x = ops.parameter("x", ("N", COLUMNS), "f32")
    tables = (ops.constant(table) for table in vars(forest).values())
    return irc.compile_model(ops.model({"y": ops.apply(TreeEnsemble(1), x, *tables)}))


def test_trees_of_similar_sizes_share_a_kernel() -> None:
    grown = [grow(seed, 1, 7 + seed % 2, [LEQ]) for seed in range(16)]
    forests = [f for f in grown if len(f.then) > 15]
    specs = {step.spec for f in forests for step in net_of(f).plan.kernel_steps()}
    assert len({len(f.then) for f in forests}) > 6 and len(specs) <= 3
    assert {spec.depth for spec in specs if isinstance(spec, TreeEnsembleSpec)} == {8}
    # Tables of many rows grow by an eighth at most.
    large = grow(1, 40, 9, [LEQ], full=True)
    found = pack_forest(large, TreeEnsemble(1))
    assert found is not None and len(found.nodes) > 40_000
    assert len(found.nodes) <= 1.13 * (2 * len(large.then) + 40)
    assert len(found.weights) <= 1.13 * len(large.leaf_weights)


def test_tables_that_do_not_fit_together_stay_in_python() -> None:
    forest = grow(1, 3, 3, [LEQ])
    assert "1 native (1 tree_ensemble), 0 in Python" in net_of(forest).report()
    modes = forest.modes + 9
    for change in ({"modes": modes}, {"modes": modes[:-1]}, {"missing": forest.missing[:0]}):
        assert "1 in Python" in net_of(replace(forest, **change)).report()


@pytest.mark.parametrize(
    "change",
    [
        {"node_count": 1}, {"depth": 1 << 20}, {"tree_count": 0}, {"leaves": 0}, {"columns": 0},
        {"width": 2}, {"comparison": "more"}, {"aggregate": "PRODUCT"},
        {"nodes": Operand(DType.i32, (3, 1))}, {"nodes": Operand(DType.i64, (4, 1))},
        {"trees": Operand(DType.i32, (2, 1), 1)}, {"weights": Operand(DType.f16, (1, 1))},
        {"data": Operand(DType.f16, (5, 1))},
    ],
    ids=lambda c: next(iter(c)),
)  # fmt: skip
def test_what_no_generator_takes(change: dict[str, Any]) -> None:
    spec, _, _ = make_spec(grow(1, 3, 3, [LEQ]), TreeEnsemble(1), rows_of(3, np.float32))
    with pytest.raises(VerificationError):
        verify_specs([replace(spec, **change)], host_target())
