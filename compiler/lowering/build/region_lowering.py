"""What every lowering function works with: the schedule, the region that is built, and views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ....ir.deferred_array import StoredArray
from ....ir.dims import Dim, product
from ....ir.dtype import DType
from ....ir.errors import VerificationError
from ....ir.graph import Graph, Value
from ....ir.ops import Constant as ConstantOp
from ....ir.scalar.builder import Builder, Ref
from ....ir.scalar.program import Program
from ....ir.types import TensorType
from ....plan.packing.layouts import Layout
from ....plan.plan import PlanConstant
from ....plan.specs.elementwise import ElementwiseSpec
from ....plan.target import Target
from ...options import Options
from ...strided_view import (
    BlockedAxes,
    View,
    broadcast_to,
    coalesce,
    is_contiguous,
    memory_order,
    permute,
    reshape,
    take,
)
from ..schedule.fusion import Fusion
from ..schedule.schedule import Schedule
from ..schedule.storage_types import LINE_BITS
from .plan_builder import PlanBuilder
from .region_builder import RegionBuilder, SizeCollector
from .scalar_programs import node_program

T = TypeVar("T")


@dataclass
class RegionLowering:
    """One region as it is built from the schedule, or a body whose steps are part of a region.

    plan: what the regions of a plan share. inputs: the slots of the region's inputs. placed: where
    a value is to be written, decided before its step: a region output's memory. divided: values
    that a product reads, or writes, with several strides per axis.
    """

    schedule: Schedule
    plan: PlanBuilder
    region: RegionBuilder = field(default_factory=RegionBuilder)
    inputs: list[int] = field(default_factory=list[int])
    views: dict[Value, View] = field(default_factory=dict[Value, View])
    placed: dict[Value, View] = field(default_factory=dict[Value, View])
    divided: dict[Value, BlockedAxes] = field(default_factory=dict[Value, BlockedAxes])

    def enter_body(self, body: Schedule) -> RegionLowering:
        """The lowering of a body into the same region."""
        return RegionLowering(body, self.plan, self.region)

    # Facts ------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that is lowered."""
        return self.schedule.graph

    @property
    def target(self) -> Target:
        """The machine that the plan is for."""
        return self.schedule.target

    @property
    def options(self) -> Options:
        """The options of the compilation."""
        return self.schedule.options

    @property
    def fusion(self) -> Fusion:
        """What is computed together."""
        return self.schedule.fusion

    def tensor(self, value: Value) -> TensorType:
        """The value's type, which is a tensor's."""
        return self.graph.tensor(value)

    def shape(self, value: Value) -> tuple[Dim, ...]:
        """The value's shape."""
        return self.graph.shape(value)

    def name(self, node: int) -> str:
        """A node's name for reports."""
        record = self.graph.node(node)
        return record.name or f"{record.op.kind}_{node}"

    def sources(self, *nodes: int) -> tuple[str, ...]:
        """Names of the model's operations that these nodes compute."""
        found: dict[str, None] = {}
        for node in nodes:
            found.update(dict.fromkeys(self.graph.node(node).sources or (self.name(node),)))
        return tuple(found)

    def vectors(self, shape: Sequence[Dim], dtype: DType) -> Dim:
        """The work of touching every element once, in vector operations."""
        return product(shape) // max(1, self.target.vector_bits // max(8, dtype.bits)) + 1

    # Constants --------------------------------------------------------------------------------

    def constant_op(self, value: Value) -> ConstantOp | None:
        """The constant that a value is, also through a conversion that nothing folded."""
        return self.plan.constant_op(self.graph, value)

    def constant(
        self,
        value: Value,
        layout: Layout | None = None,
        transposed: bool = False,
        rounded: DType | None = None,
    ) -> View | None:
        """The buffer of a constant value in a layout, or None if the value is not a constant.

        rounded: the type its elements are rounded to as they are packed.
        """
        op = self.constant_op(value)
        if op is None:
            return None
        dtype, name = self.tensor(value).dtype, self.name(value.node)
        rounds = rounded not in (None, dtype)
        return self.array(op.content, rounded or dtype, layout, name, transposed, rounds)

    def array(
        self,
        data: StoredArray,
        dtype: DType,
        layout: Layout | None,
        name: str,
        transposed: bool = False,
        rounds: bool = False,
    ) -> View:
        """The buffer of an array in a layout, whose packing may round its elements to `dtype`."""
        shape = tuple(int(d) for d in data.shape)
        entry = PlanConstant(id(data), dtype, shape, layout, transposed, rounds)
        return self.region.constant(self.plan.add_constant(entry, data), dtype, shape, name)

    def scalar(self, value: Value) -> float | int | None:
        """The number that a constant of one element holds."""
        op = self.constant_op(value)
        if op is None or op.data.size != 1:
            return None
        # By our own element type: NumPy calls bf16, float8 and 4-bit types "void".
        if op.dtype.is_float:
            return float(op.data.reshape(-1)[0])
        known = op.dtype.is_int or op.dtype is DType.boolean
        return int(op.data.reshape(-1)[0]) if known else None

    # Values -----------------------------------------------------------------------------------

    def view(self, value: Value) -> View:
        """Where a value is in this region; a value of an earlier region becomes an input."""
        found = self.views.get(value)
        if found is None and value.node in self.fusion.absorbed:
            return self.view(self.skip_conversion(value))
        if found is None and (divided := self.divided.get(value)):
            copied = self.contiguous(divided.source, self.name(value.node))
            found = reshape(copied, self.shape(value))
        if found is None:
            found = self.constant(value)
        if found is None:
            self.inputs.append(self.schedule.interface.slot_of[value])
            dtype, index = self.tensor(value).dtype, len(self.inputs) - 1
            found = self.region.input(index, dtype, self.shape(value), self.name(value.node))
        self.views[value] = found
        return found

    def result(self, value: Value) -> View:
        """Memory for a value about to be computed; remembered as its view."""
        found = self.placed.get(value)
        if found is None:
            found = self.allocate(value)
        self.views[value] = found
        return found

    def allocate(self, value: Value) -> View:
        """Fresh memory for a value, in the order of axes that was chosen for it
        (compiler/lowering/schedule/tensor_layout.py)."""
        dtype, shape, name = self.tensor(value).dtype, self.shape(value), self.name(value.node)
        dtype = DType.bf16 if value in self.schedule.rounded else dtype
        turns, rank = value in self.schedule.channels_last, len(shape)
        sizes = (shape[0], *shape[2:], shape[1]) if turns else shape
        gap = LINE_BITS // dtype.bits if value in self.schedule.spaced else 0
        view = self.region.allocate(dtype, (*sizes[:-1], sizes[-1] + gap) if gap else sizes, name)
        if gap:
            view = take(view, rank - 1, 0, sizes[-1])
        return permute(view, [0, rank - 1, *range(1, rank - 1)]) if turns else view

    def contiguous(self, view: View, name: str) -> View:
        """The view, copied if its elements do not follow one another."""
        if is_contiguous(view):
            return view
        target = self.region.allocate(view.dtype, view.shape, name)
        self.copy(view, target, name, (name,))
        return target

    def copy(self, source: View, target: View, name: str, sources: Sequence[str]) -> None:
        """A step that copies one view into another of the same shape."""
        b = Builder()
        program = b.finish(b.cast_stored(b.input(0, source.dtype), target.dtype))
        self.elementwise(program, [source], [target], name, sources)

    def elementwise(
        self,
        program: Program,
        inputs: Sequence[View],
        outs: Sequence[View],
        name: str,
        sources: Sequence[str],
    ) -> None:
        """A step that applies a program to views of one shape."""
        views = [*inputs, *outs]
        order = memory_order(outs[0])
        axes, strides = coalesce(
            [outs[0].shape[i] for i in order], [[v.strides[i] for i in order] for v in views]
        )
        sizes = SizeCollector()
        operands = [sizes.operand(v, s) for v, s in zip(views, strides, strict=True)]
        spec = ElementwiseSpec(
            sizes.all(axes), tuple(operands[: len(inputs)]), tuple(operands[len(inputs) :]), program
        )
        work = self.vectors(outs[0].shape, max((v.dtype for v in views), key=lambda d: d.bits))
        cost = max(1, sum(i.op not in ("input", "const") for i in program.instrs))
        self.region.kernel(spec, sizes, views, work * cost, name, sources)

    def factor(self, value: Value) -> tuple[View, DType | None]:
        """The view of a product's operand, and the type that the product converts it to."""
        view = self.view(value)
        return view, self.cast(view, value)

    def cast(self, view: View, value: Value) -> DType | None:
        """The type that the product that reads `value` as it is in `view` converts it to."""
        dtype = self.tensor(value).dtype
        widens = view.dtype.is_float and view.dtype.bits < dtype.bits
        return None if widens or view.dtype is dtype else dtype

    def skip_conversion(self, value: Value) -> Value:
        """What a product reads in place of a conversion that it makes itself."""
        return self.graph.input(value.node, 0) if value.node in self.fusion.absorbed else value

    # Programs ---------------------------------------------------------------------------------

    def expression(self, b: Builder, value: Value, operands: Operands) -> Ref:
        """The value as part of a program: a constant, an absorbed producer's own expression, or
        an operand. Absorbed producers nest only as deep as fusion lets them."""
        if value in operands.computed:
            return operands.computed[value]
        dtype = self.tensor(value).dtype
        number = self.scalar(value)
        if number is not None:
            return b.const(number, dtype)
        if value.node in self.fusion.absorbed:
            args = [
                self.expression(b, v, operands)
                for v in self.graph.inputs(value.node)
                if v is not None
            ]
            program = node_program(self.graph, value.node)
            (ref,) = b.inline(program, *args)
            operands.nodes.append(value.node)
            return ref
        view = self.view(value)
        return b.cast(b.input(operands.add(view), view.dtype), dtype)

    def chain(self, b: Builder, node: int, ref: Ref, operands: Operands) -> tuple[Value, Ref]:
        """Apply the elementwise consumers that `node` takes into its epilogue to `ref`, the value
        of its output. Returns the value the step finally stores."""
        value = Value(node)
        operands.computed[value] = ref
        for consumer in self.fusion.epilogues.get(node, ()):
            args = [
                self.expression(b, v, operands)
                for v in self.graph.inputs(consumer)
                if v is not None
            ]
            (ref,) = b.inline(node_program(self.graph, consumer), *args)
            value = Value(consumer)
            operands.computed[value] = ref
            operands.nodes.append(consumer)
        return value, ref


@dataclass
class Operands:
    """The operands of a program being built, each once, all broadcast to `shape`."""

    shape: tuple[Dim, ...]
    base: int = 0
    views: list[View] = field(default_factory=list[View])
    computed: dict[Value, Ref] = field(default_factory=dict[Value, Ref])
    nodes: list[int] = field(default_factory=list[int])

    def add(self, view: View) -> int:
        """The operand's number in the program (the first `base` numbers mean something else)."""
        walked = broadcast_to(view, self.shape)
        if walked not in self.views:
            self.views.append(walked)
        return self.base + self.views.index(walked)


def require_match(found: T | str) -> T:
    """What a node matched. VerificationError for a reason why it has no kernel."""
    if isinstance(found, str):
        raise VerificationError("a node without a kernel is lowered", got=found)
    return found


def insert_axis(view: View, axis: int) -> View:
    """The view with an axis of size 1 put at `axis`."""
    shape, strides = list(view.shape), list(view.strides)
    shape.insert(axis, 1)
    strides.insert(axis, 0)
    return View(view.buffer, view.dtype, tuple(shape), tuple(strides), view.offset)
