"""Where regions read symbols: the same slots as a search of all of them finds, and few visits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.compiler.lowering.build import symbol_sources
from irc_compiler.compiler.lowering.build.symbol_sources import (
    SlotSymbols,
    find_symbol_sources,
)
from irc_compiler.compiler.lowering.schedule.symbols import symbols_defined_by, symbols_of
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.types import TensorType, Type
from irc_compiler.plan.plan import SymbolSource

NAMES = "ABCDEF"
DIMS = [*map(symbol, NAMES), *(symbol(a) * symbol(b) for a, b in ("AB", "CD", "EF")), 4]
SHAPES = st.lists(st.sampled_from(DIMS), max_size=3)


def search_all(
    names: set[str], inputs: list[int], slots: list[int], types: list[Type]
) -> tuple[list[int], list[SymbolSource]]:
    """Sweeps over all slots until nothing is new: inputs first, then the others in order."""
    names, known = set(names), list(inputs)
    found: dict[str, SymbolSource] = {}
    before = -1
    while before < len(names):
        before = len(names)
        for slot in [*inputs, *slots]:
            axes = symbols_defined_by(types[slot])
            if not (axes.keys() & names) - found.keys():
                continue
            if slot not in known:
                known.append(slot)
                names |= symbols_of(types[slot])
            for name in axes.keys() & names - found.keys():
                found[name] = SymbolSource(name, known.index(slot), axes[name])
    if names - found.keys():
        raise VerificationError("no input defines these sizes")
    return known[len(inputs) :], [found[n] for n in sorted(found)]


@pytest.mark.slow
@given(st.lists(SHAPES, min_size=1, max_size=8), st.sets(st.sampled_from(NAMES)), st.data())
@settings(max_examples=300, deadline=None)
def test_the_slots_are_those_of_a_search_of_all(
    shapes: list[list], names: set[str], data: st.DataObject
) -> None:
    types: list[Type] = [TensorType(DType.f32, tuple(s)) for s in shapes]
    inputs = data.draw(st.lists(st.integers(0, len(types) - 1), max_size=3))
    slots = data.draw(st.permutations(range(len(types))))
    known = SlotSymbols()
    for count in (len(slots) // 2, len(slots)):  # as a plan grows
        known.update(slots, count, types)
    try:
        wanted = search_all(names, inputs, slots, types)
    except VerificationError:
        with pytest.raises(VerificationError, match="no input defines these sizes"):
            find_symbol_sources(names, inputs, known, types)
        return
    assert find_symbol_sources(names, inputs, known, types) == wanted


def test_a_region_looks_at_no_slots_that_it_does_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types: list[Type] = [TensorType(DType.f32, (symbol(f"N{n}"),)) for n in range(1000)]
    known, visits = SlotSymbols(), 0
    known.update(range(1000), 1000, types)

    def count(type_: Type) -> dict[str, int]:
        nonlocal visits
        visits += 1
        return symbols_defined_by(type_)

    monkeypatch.setattr(symbol_sources, "symbols_defined_by", count)
    added, found = find_symbol_sources({"N7", "N900"}, [3], known, types)
    assert (added, [s.symbol for s in found]) == ([7, 900], ["N7", "N900"]) and visits <= 3
    known.update(range(1001), 1001, [*types, TensorType(DType.f32, (4,))])
    assert visits <= 4
