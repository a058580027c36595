"""Every integer of every family of kernels is bounded on both sides."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import StridedSlice
from irc_compiler.plan.specs import find_specs
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.iota import IotaSpec
from irc_compiler.plan.verify.spec_ranges import check_ranges, ranges_in
from support.tiny_plans import i64


def parts_of(hint: Any) -> set[Any]:
    """The classes that a field's type is made of."""
    inner = typing.get_args(hint)
    return set().union(*map(parts_of, inner)) if inner else {hint}


def reachable() -> dict[type, dict[str, set[Any]]]:
    found: dict[type, dict[str, set[Any]]] = {}
    waiting: list[type] = list(find_specs())
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        hints = typing.get_type_hints(kind)
        found[kind] = {f.name: parts_of(hints[f.name]) for f in dataclasses.fields(kind)}
        parts = {p for ps in found[kind].values() for p in ps}
        waiting += [p for p in parts if isinstance(p, type) and dataclasses.is_dataclass(p)]
    return found


def test_spec_ranges_cover_every_integer_field() -> None:
    fields = reachable()
    wanted = {k: {n for n, parts in f.items() if int in parts} for k, f in fields.items()}
    assert {k: set(ranges_in(k)) for k in fields} == wanted


def test_spec_ranges_are_bounded_on_both_sides() -> None:
    for kind in reachable():
        for name, (low, high) in ranges_in(kind).items():
            assert -(1 << 63) <= low <= high < 1 << 64, (kind, name)


@pytest.mark.parametrize(
    "count", [-1, (1 << 48) + 1, (1 << 63) - 1, RuntimeDim(-1), RuntimeDim(1 << 62)]
)
def test_check_ranges_rejects_a_number_out_of_range(count: Any) -> None:
    spec = IotaSpec(count, 0, 1, Operand(i64, (1,)))
    with pytest.raises(VerificationError, match="IotaSpec.count"):
        check_ranges(spec, "step 0")


@pytest.mark.parametrize("step", [1 << 31, 1 << 50, 1 << 60])
def test_check_ranges_accepts_any_stride_of_an_axis_of_one_element(step: int) -> None:
    """As a slice of an honest model has, whose step is longer than any axis."""
    x = ops.parameter("x", ("N",))
    y = ops.apply(
        StridedSlice((0,), (0,)), x, *(ops.constant(np.array([v])) for v in (1, 1 << 62, step))
    )
    (found,) = irc.compile_model(ops.model({"y": y}))([np.arange(4, dtype=np.float32)])
    np.testing.assert_array_equal(found, [1])
