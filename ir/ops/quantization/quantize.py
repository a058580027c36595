"""FakeQuantize: values limited and rounded to a number of levels."""

from __future__ import annotations

from typing import ClassVar

from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Fact, Port
from ...scalar.builder import Builder, Ref
from ...types import Type
from ..math.elementwise import FLOATS, Elementwise


@dataclass(frozen=True)
class FakeQuantize(Elementwise):
    """x limited to [input_low, input_high], rounded to one of `levels` even steps (nearest even),
    and mapped to [output_low, output_high]."""

    kind: ClassVar[str] = "FakeQuantize"
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("data", "input_low", "input_high", "output_low", "output_high"))
    )
    allowed = FLOATS
    rule = "a float type"
    levels: int
    auto_broadcast: str = "numpy"

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        if self.levels < 2:
            raise ShapeError("FakeQuantize needs levels", got=self.levels, expected="2 or more")
        return super().infer(*facts)

    def program(self, b: Builder, *x: Ref) -> Ref:
        data, low, high, out_low, out_high = x
        steps = b.const(self.levels - 1, data.dtype)
        position = b.op("div", b.op("sub", data, low), b.op("sub", high, low))
        step = b.op("round_even", b.op("mul", position, steps))
        span = b.op("sub", out_high, out_low)
        inside = b.op("add", b.op("mul", b.op("div", step, steps), span), out_low)
        below = b.op("le", data, b.op("min", low, high))
        above = b.op("gt", data, b.op("max", low, high))
        return b.op("select", below, out_low, b.op("select", above, out_high, inside))
