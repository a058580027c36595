"""The spec of ensembles of decision trees: each row walks every tree, and the leaves add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, resolver
from .checks import spec_error

# A node is this many 32-bit words.
NODE_WORDS: Final = 4
# Nodes are numbered by i32, and columns and leaves by the low bits of a word.
MAX_NODES: Final = 1 << 26
COLUMN_BITS: Final = 28
MAX_DEPTH: Final = 1 << 12
# Steps between two tests whether all walks of a group have reached a leaf.
STEPS_PER_TEST: Final = 4
COMPARISONS: Final = ("less", "less_or_missing", "outcome")
AGGREGATES: Final = ("SUM", "AVERAGE", "MIN", "MAX")


@dataclass(frozen=True)
class TreeEnsembleSpec(Spec):
    """out[r, t]: what the leaves that row r reaches add to target t, in the order of the trees.

    A node is its split (in the type of the weights; f32: one word and the last word is unused),
    the number of its first child, and a word whose low COLUMN_BITS are the column that it compares;
    f32: (split, child, word, 0), f64: (split low, split high, child, word). The second child
    follows the first. With x the column's value, converted to the split's type, the second child is
    taken if: "less": x < split; "less_or_missing": x < split, or either is NaN and bit 31 of the
    word is set; "outcome": bit 28 + (x <= split) + 2 * (x >= split) of the word is set. A leaf is
    its own first child, its split is -inf, its high bits are 0 and its low bits are its number.
    `depth` steps lead from any root to a leaf.

    trees holds (root, target) per tree. weights walks (leaves, width): one weight for the tree's
    target, or one for each target (width = targets). MIN and MAX ignore NaN and give 0 where there
    is nothing else.

    The numbers in node and tree tables are not verified beforehand: the kernel limits each to
    the table that it is used for. Buffers: data, nodes, trees, weights, out.
    """

    family: ClassVar[str] = "tree_ensemble"
    ranges: ClassVar[Mapping[str, Range]] = {
        "rows": COUNT,
        "columns": (1, 1 << COLUMN_BITS),
        "node_count": (2, MAX_NODES),
        "tree_count": (1, MAX_NODES),
        "leaves": (1, 1 << COLUMN_BITS),
        "width": (1, MAX_NODES),
        "targets": (1, MAX_NODES),
        "depth": (0, MAX_DEPTH),
    }

    rows: Size
    columns: Size
    node_count: int
    tree_count: int
    leaves: int
    width: int
    targets: int
    depth: int
    comparison: str
    aggregate: str
    data: Operand
    nodes: Operand
    trees: Operand
    weights: Operand
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.nodes, self.trees, self.weights, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [
            (self.rows, self.columns),
            (self.node_count, NODE_WORDS),
            (self.tree_count, 2),
            (self.leaves, self.width),
            (self.rows, self.targets),
        ]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.tree_count, max(self.depth, 1))

    def verify(self, target: Target) -> None:
        where, dtype = self.where, self.weights.dtype
        types = (self.nodes.dtype, self.trees.dtype, self.out.dtype)
        if dtype not in (DType.f32, DType.f64) or types != (DType.i32, DType.i32, dtype):
            raise spec_error(
                "the tables of a tree ensemble have wrong types",
                where,
                (dtype, *types),
                "f32 or f64",
            )
        data = self.data.dtype
        if not (data.is_float and data.bits in (32, 64) or data.is_int and data.bits >= 8):
            raise spec_error(
                "tree ensembles do not compare this type", where, data, "f32, f64, integers"
            )
        if self.comparison not in COMPARISONS or self.aggregate not in AGGREGATES:
            got = f"{self.comparison}, {self.aggregate}"
            raise spec_error(
                "unknown comparison or aggregation of a tree ensemble", where, got, COMPARISONS
            )
        if self.width not in (1, self.targets):
            raise spec_error("leaves have other weights", where, self.width, self.targets)
        tables = (self.nodes, self.trees, self.weights)
        for table, row in zip(tables, (NODE_WORDS, 2, self.width), strict=True):
            if table.strides != (row, 1) or table.offset != 0:
                raise spec_error("a table is not contiguous", where, table.strides, (row, 1))

    def distinguishes_denormals(self) -> bool:
        return True

    def flops(self, dims: Sequence[int]) -> int:
        return resolver(dims)(self.rows) * self.tree_count * (self.depth + self.width)

    def describe(self, size: Callable[[Size], str]) -> str:
        shape = f" [{size(self.rows)}, {size(self.columns)}]"
        return f"{shape} {self.tree_count} trees of depth {self.depth}, {self.aggregate.lower()}"
