"""What the regions of a plan share as they are built: constants, their arrays, and slots."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....ir.deferred_array import StoredArray
from ....ir.dtype import DType
from ....ir.errors import VerificationError
from ....ir.graph import Graph, Value
from ....ir.ops import Constant
from ....ir.scalar.builder import cast_array
from ....plan.plan import PlanConstant
from ..schedule.schedule import Schedule
from .symbol_sources import SlotSymbols


@dataclass
class PlanBuilder:
    """weights: arrays by their id. constants: numbers of the plan's constants, whose source is the
    id. Both are those of the plans of bodies, too. constant_slots: (slot, constant). converted:
    constants that their readers convert, by the source's id and the wanted type. slot_symbols: the
    slots of the regions so far, by the symbols that they define."""

    weights: dict[int, StoredArray] = field(default_factory=dict[int, StoredArray])
    constants: dict[PlanConstant, int] = field(default_factory=dict[PlanConstant, int])
    constant_slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    converted: dict[tuple[int, DType], Constant] = field(
        default_factory=dict[tuple[int, DType], Constant]
    )
    slot_symbols: SlotSymbols = field(default_factory=SlotSymbols)

    def for_body(self) -> PlanBuilder:
        """The builder of the plan of a body."""
        return PlanBuilder(self.weights, self.constants)

    def constant_op(self, graph: Graph, value: Value) -> Constant | None:
        """The constant that a value is, also through a conversion that nothing folded."""
        op = graph.op(value.node)
        if op.kind != "Convert":
            return op if isinstance(op, Constant) else None
        source = self.constant_op(graph, graph.input(value.node, 0))
        dtype = graph.tensor(value).dtype
        if source is None:
            return None
        key = id(source.content), dtype
        if key not in self.converted:
            self.converted[key] = Constant.of(cast_array(source.data, dtype), dtype)
        return self.converted[key]

    def add_constant(self, entry: PlanConstant, data: StoredArray) -> int:
        """The number of a constant that is made of an array."""
        self.weights[id(data)] = data
        return self.constants.setdefault(entry, len(self.constants))

    def fill_slot(self, schedule: Schedule, value: Value) -> None:
        """Let the slot of a value hold the constant that it is."""
        op = self.constant_op(schedule.graph, value)
        if op is None:
            name = schedule.graph.node(value.node).name
            raise VerificationError("a value has no slot", got=name)
        shape = tuple(d for d in op.shape if isinstance(d, int))
        entry = PlanConstant(id(op.content), schedule.graph.tensor(value).dtype, shape)
        index = self.add_constant(entry, op.content)
        self.constant_slots.append((schedule.interface.slot_of[value], index))
