"""openvino.properties.streams: how many requests run at the same time."""

from __future__ import annotations

from .property_names import Property


class Num(int):
    """A number of streams."""

    AUTO: Num
    NUMA: Num

    def to_integer(self) -> int:
        """The number; -1 for AUTO, -2 for NUMA."""
        return int(self)


Num.AUTO, Num.NUMA = Num(-1), Num(-2)
num = Property("NUM_STREAMS")
