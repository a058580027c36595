"""Ensembles of decision trees: a worker walks one tree for several rows at a time, or, where rows
are left over, several trees for one row.

A walk is a chain of dependent loads, so LANES independent walks run interleaved, without a branch
that depends on data: a leaf is its own child. After a few steps a branch ends the walk where all
lanes have reached a leaf. Trees are the outer loop over a block of rows, so that a tree and the
rows stay in the first-level cache. What is read from a table is limited before it is used as a
position: node tables come from files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ....ir.dtype import DType
from ....plan.specs.tree_ensemble import (
    COLUMN_BITS,
    NODE_WORDS,
    STEPS_PER_TEST,
    TreeEnsembleSpec,
)
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel, share
from ...llvmir.values import I1, I32, I64, Value, bytes_of, integer, vec
from ..emit.casts import cast, memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import RuntimeSizes, base_pointer

Change: TypeAlias = Callable[[Value], Value]

LANES = 8
# Rows that walk a tree before the next tree is loaded.
_BLOCK_ROWS = 256


def generate(spec: TreeEnsembleSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of an ensemble of trees."""
    module = Module(target)
    entry = open_kernel(module, symbol, [READ] * 4 + [WRITE], spec.runtime_dims)
    _Trees(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


class _Trees:
    def __init__(self, spec: TreeEnsembleSpec, entry: OpenKernel) -> None:
        self.spec, self.entry = spec, entry
        f = self.f = entry.function
        sizes = self.sizes = RuntimeSizes(f, entry.dims)
        self.data, self.nodes, self.trees, self.weights, self.out = (
            base_pointer(f, sizes, b, o)
            for b, o in zip(entry.buffers, spec.operands(), strict=True)
        )
        self.dtype = spec.weights.dtype
        self.kind = memory_type(self.dtype)
        # A node's words: the split, the first child, the column with flags.
        self.child_word = 1 if self.dtype is DType.f32 else 2
        self.last_column = f.cast(f.sub(sizes.value(spec.columns), 1), I32)

    def run(self) -> None:
        f, spec = self.f, self.spec
        rows = self.sizes.value(spec.rows)
        lo, hi = share(f, rows, self.entry.worker, self.entry.workers, LANES)
        with f.range(lo, hi, _BLOCK_ROWS, unroll=1, outer=True) as first:
            end = f.smin(f.add(first, _BLOCK_ROWS), hi)
            self.begin(first, end)
            groups = f.add(first, f.and_(f.sub(end, first), -LANES))
            with f.range(0, spec.tree_count, unroll=1, outer=True) as tree:
                root, target = self.tree(tree)
                with f.range(first, groups, LANES, unroll=1) as row:
                    rows_ = [f.add(row, k) for k in range(LANES)]
                    self.add_leaves(rows_, [root] * LANES, [target] * LANES)
            with f.range(groups, end, unroll=1, outer=True) as row:
                full = spec.tree_count // LANES * LANES
                for low, high, step in ((0, full, LANES), (full, spec.tree_count, 1)):
                    with f.range(low, high, step, unroll=1) as tree:
                        pairs = [self.tree(f.add(tree, k)) for k in range(step)]
                        self.add_leaves([row] * step, *map(list, zip(*pairs, strict=True)))
            self.end(first, end)

    def limit(self, value: Value, last: Value | int) -> Value:
        """value, or `last` where it is beyond it; both are i32 without a sign."""
        f = self.f
        return f.intrinsic("umin", value, f.as_value(last, I32))

    def tree(self, tree: Value) -> tuple[Value, Value]:
        """The root of a tree and the target of its leaves, as i64."""
        f = self.f
        pair = f.at(self.trees, f.mul(tree, 2), I32)
        root = self.limit(f.load(I32, pair), self.spec.node_count - 1)
        target = self.limit(f.load(I32, f.at(pair, 1, I32)), self.spec.targets - 1)
        return f.cast(root, I64, signed_=False), f.cast(target, I64, signed_=False)

    # -- walks ----------------------------------------------------------------------------------

    def node(self, at: Value) -> Value:
        return self.f.at(self.nodes, self.f.mul(at, NODE_WORDS), I32)

    def words(self, at: Value) -> tuple[Value, Value]:
        """The first child of a node, and its column with flags."""
        f, node = self.f, self.node(at)
        child, word = (f.load(I32, f.at(node, self.child_word + k, I32)) for k in range(2))
        return child, word

    def walk(self, rows: Sequence[Value], roots: Sequence[Value]) -> list[Value]:
        """The words of the leaves that rows reach from roots."""
        f = self.f
        stride = self.sizes.value(self.spec.data.strides[0])
        starts = [
            f.at(self.data, f.mul(r, stride), memory_type(self.spec.data.dtype)) for r in rows
        ]
        at = [f.var(I64, root) for root in roots]
        going = f.var(I1, integer(1, I1))
        tests = -(-self.spec.depth // STEPS_PER_TEST)
        left = f.var(I64, tests)
        with f.while_(lambda: f.and_(f.icmp("sgt", left.get(), 0), going.get())):
            now = [a.get() for a in at]
            for _ in range(min(STEPS_PER_TEST, self.spec.depth)):
                now = [self.step(x, n) for x, n in zip(starts, now, strict=True)]
            moves = integer(0)
            for a, n in zip(at, now, strict=True):
                child = f.cast(self.words(n)[0], I64, signed_=False)
                moves = f.or_(moves, f.xor(child, n))
                a.set(n)
            going.set(f.icmp("ne", moves, 0))
            left.set(f.sub(left.get(), 1))
        return [self.words(a.get())[1] for a in at]

    def step(self, row: Value, at: Value) -> Value:
        """The child of a node that a row goes on to."""
        f, spec = self.f, self.spec
        child, word = self.words(at)
        split = f.load(self.kind, self.node(at), align=4)
        has_flags = spec.comparison != "less"
        column = f.and_(word, (1 << COLUMN_BITS) - 1) if has_flags else word
        column = f.cast(self.limit(column, self.last_column), I64, signed_=False)
        source = memory_type(spec.data.dtype)
        offset = f.mul(column, self.sizes.value(spec.data.strides[1]))
        x = cast(f, f.load(source, f.at(row, offset, source)), spec.data.dtype, self.dtype)
        if spec.comparison == "outcome":
            low, high = (f.cast(f.fcmp(p, x, split), I32) for p in ("ole", "oge"))
            outcome = f.add(f.add(low, f.shl(high, 1)), COLUMN_BITS)
            second = f.and_(f.lshr(word, outcome), 1)
        else:
            second = f.cast(f.fcmp("olt", x, split), I32)
            if has_flags:
                flag = f.and_(f.cast(f.fcmp("uno", x, split), I32), f.lshr(word, 31))
                second = f.or_(second, flag)
        first = self.limit(child, spec.node_count - 2)
        return f.add(f.cast(first, I64, signed_=False), f.cast(second, I64, signed_=False))

    # -- sums -----------------------------------------------------------------------------------

    def begin(self, first: Value, end: Value) -> None:
        """Set the rows' results to where the aggregate begins."""
        is_sum = self.spec.aggregate in ("SUM", "AVERAGE")
        start = self.f.as_value(0.0 if is_sum else float("nan"), self.kind)
        self.for_each_result(first, end, lambda _: start)

    def end(self, first: Value, end: Value) -> None:
        """Divide sums by the number of trees; write 0 where no leaf named the target."""
        f, spec = self.f, self.spec
        if spec.aggregate == "AVERAGE":
            self.for_each_result(first, end, lambda v: f.fdiv(v, float(spec.tree_count)))
        elif spec.aggregate != "SUM":
            self.for_each_result(
                first, end, lambda v: f.select(f.fcmp("uno", v, v), f.as_value(0.0, self.kind), v)
            )

    def for_each_result(self, first: Value, end: Value, change: Change) -> None:
        f = self.f
        with f.range(first, end, unroll=1) as row, f.range(0, self.spec.targets) as target:
            address = self.result(row, target)
            f.store(change(f.load(self.kind, address)), address)

    def result(self, row: Value, target: Value | int) -> Value:
        f, (rows, targets) = self.f, map(self.sizes.value, self.spec.out.strides)
        offset = f.add(f.mul(row, rows), f.mul(f.as_value(target, I64), targets))
        return f.at(self.out, offset, self.kind)

    def add_leaves(
        self, rows: Sequence[Value], roots: Sequence[Value], targets: Sequence[Value]
    ) -> None:
        """Walk from roots and add the weights of the leaves, in order."""
        f, spec = self.f, self.spec
        for row, word, target in zip(rows, self.walk(rows, roots), targets, strict=True):
            number = f.and_(word, (1 << COLUMN_BITS) - 1)
            leaf = f.cast(self.limit(number, spec.leaves - 1), I64, signed_=False)
            weights = f.at(self.weights, f.mul(leaf, spec.width), self.kind)
            if spec.width == 1:
                self.join(weights, self.result(row, target), self.kind)
            elif spec.out.strides[1] == 1:
                self.join_rows(weights, self.result(row, 0))
            else:
                with f.range(0, spec.width, unroll=1) as t:
                    self.join(f.at(weights, t, self.kind), self.result(row, t), self.kind)

    def join_rows(self, weights: Value, results: Value) -> None:
        """Join the contiguous weights of a leaf with the results of a row."""
        f, width = self.f, self.spec.width
        lanes = max(1, f.target.lanes(bytes_of(self.kind) * 8))
        full = width // lanes * lanes
        with f.range(0, full, lanes, unroll=1) as t:
            pair = [f.at(p, t, self.kind) for p in (weights, results)]
            self.join(pair[0], pair[1], vec(self.kind, lanes))
        while full < width:
            lanes = min(lanes, 1 << (width - full).bit_length() - 1)
            pair = [f.at(p, full, self.kind) for p in (weights, results)]
            self.join(pair[0], pair[1], vec(self.kind, lanes))
            full += lanes

    def join(self, weight: Value, result: Value, type_: str) -> None:
        f = self.f
        word = {"MIN": "minnum", "MAX": "maxnum"}.get(self.spec.aggregate)
        values = f.load(type_, result), f.load(type_, weight)
        f.store(f.intrinsic(word, *values) if word else f.fadd(*values), result)
