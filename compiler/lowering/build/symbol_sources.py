"""Where a region reads the sizes that only a call knows: axes of its inputs."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence

from ....ir.errors import VerificationError
from ....ir.types import Type
from ....plan.plan import SymbolSource
from ..schedule.symbols import symbols_defined_by, symbols_of


class SlotSymbols:
    """The slots of a growing plan by the symbols that they define. A region looks up what it needs,
    since a plan may have as many regions as slots."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        # Positions in `slots`, ascending.
        self.by_name: dict[str, list[int]] = {}
        self._seen: set[int] = set()
        self._values = 0

    def update(self, slots: Sequence[int], count: int, types: Sequence[Type]) -> None:
        """Take in the first `count` of the values' slots, as far as they are new."""
        fresh = slots[self._values : count]
        self._values = count
        for slot in fresh:
            if slot not in self._seen:
                self._seen.add(slot)
                for name in symbols_defined_by(types[slot]):
                    self.by_name.setdefault(name, []).append(len(self.slots))
                self.slots.append(slot)


def find_symbol_sources(
    names: set[str], inputs: Sequence[int], known: SlotSymbols, types: Sequence[Type]
) -> tuple[list[int], list[SymbolSource]]:
    """Slots that become further inputs of a region, and where each symbol is read.

    names: of the sizes that the region needs. inputs: the slots of its inputs so far. types: by
    slot. The region's inputs are searched first, then all slots in order; an input that is added
    brings its own sizes along, which another input may define. VerificationError for symbols that
    no slot defines.
    """
    own: dict[str, list[int]] = {}
    for position, slot in enumerate(inputs, -len(inputs)):
        for name in symbols_defined_by(types[slot]):
            own.setdefault(name, []).append(position)
    number = {slot: i for i, slot in reversed(list(enumerate(inputs)))}
    added: list[int] = []
    found: dict[str, SymbolSource] = {}
    needed = set(names)
    # The next visits of slots: (sweep over all slots, position in it, a symbol that is needed).
    visits: list[tuple[int, int, str]] = []

    def look_for(name: str, sweep: int, position: int) -> None:
        """Note the next slot behind a position that defines a symbol: of this sweep or the next."""
        for listed in (own.get(name, ()), known.by_name.get(name, ())):
            at = bisect_right(listed, position)
            if at < len(listed):
                heapq.heappush(visits, (sweep, listed[at], name))
                return
        first = own.get(name) or known.by_name.get(name)
        if first:
            heapq.heappush(visits, (sweep + 1, first[0], name))

    for name in names:
        look_for(name, 0, -len(inputs) - 1)
    while visits:
        sweep, position, name = heapq.heappop(visits)
        if name in found:
            continue
        slot = inputs[position] if position < 0 else known.slots[position]
        axes, fresh = symbols_defined_by(types[slot]), set[str]()
        if slot not in number:
            number[slot] = len(inputs) + len(added)
            added.append(slot)
            fresh = symbols_of(types[slot]) - needed
            needed |= fresh
        for each in axes.keys() & needed - found.keys():
            found[each] = SymbolSource(each, number[slot], axes[each])
        for each in fresh - found.keys():
            look_for(each, sweep, position)
    missing = sorted(needed - found.keys())
    if missing:
        raise VerificationError("no input defines these sizes", got=", ".join(missing))
    return added, [found[n] for n in sorted(found)]
