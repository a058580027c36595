"""Plan.verify, the part about variables: each has a value before anything reads it."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ...ir.types import TensorType
from ..plan import Plan, Variable

_INDICES = frozenset({DType.i32, DType.i64})


def initialised_after(plan: Plan) -> dict[int, list[int]]:
    """By region, the numbers of the variables that have a value once it has run or was left out;
    under -1 those that need no region. VerificationError for numbers of no variable."""
    last: dict[int, int] = {}
    for number, region in enumerate(plan.regions):
        for variable in region.initialises:
            if not 0 <= variable < len(plan.variables):
                raise VerificationError(
                    "a region initialises a variable that there is not",
                    where=f"region {number}",
                    got=variable,
                    expected=f"0..{len(plan.variables)}",
                )
            last[variable] = number
    found: dict[int, list[int]] = {n: [] for n in range(-1, len(plan.regions))}
    for variable in range(len(plan.variables)):
        found[last.get(variable, -1)].append(variable)
    return found


def define_variables(
    plan: Plan, variables: Sequence[int], written: set[int], defined: set[int]
) -> None:
    """Add the slots of these variables to `defined`. `written`: slots that hold their initial
    values by now. VerificationError where they can't."""
    for number in variables:
        v = plan.variables[number]
        where = f"variable {v.name!r}"
        for slot in (v.slot, v.after, *([] if v.initial is None else [v.initial])):
            if not 0 <= slot < len(plan.slots):
                raise VerificationError(
                    "a variable has a slot that there is not", where=where, got=slot
                )
        slot_type = plan.slots[v.slot]
        if v.slot in written or v.slot in defined:
            raise VerificationError("a variable's slot is another value's", where=where, got=v.slot)
        if v.initial is not None and v.initial not in written:
            raise VerificationError("an initial value is never made", where=where, got=v.initial)
        if not isinstance(slot_type, TensorType):
            raise VerificationError("a variable is not a tensor", where=where, got=str(slot_type))
        for slot in (v.after, v.slot if v.initial is None else v.initial):
            other = plan.slots[slot]
            if not isinstance(other, TensorType) or other.dtype is not slot_type.dtype:
                raise VerificationError(
                    "a variable is given another type",
                    where=where,
                    got=str(other),
                    expected=slot_type,
                )
        if v.initial is None and (
            slot_type.shape is None or slot_type.dtype in (DType.dynamic, DType.string)
        ):
            raise VerificationError(
                "a variable of unknown rank or type has no initial value",
                where=where,
                got=slot_type,
            )
        _verify_rows(plan, v, slot_type, where)
        defined.add(v.slot)


def _verify_rows(plan: Plan, v: Variable, slot_type: TensorType, where: str) -> None:
    """The order of a variable's axes, and the input that says which of its rows a run reads."""
    if v.axes and (slot_type.rank is None or sorted(v.axes) != list(range(slot_type.rank))):
        raise VerificationError("a variable's axes are not a permutation", where=where, got=v.axes)
    if v.rows is None:
        return
    port = next((p for p in plan.inputs if p.slot == v.rows), None)
    if port is None:
        raise VerificationError("a variable's rows are not an input's", where=where, got=v.rows)
    type_ = port.type
    if not isinstance(type_, TensorType) or type_.rank != 1 or type_.dtype not in _INDICES:
        raise VerificationError("a variable's rows are not indices", where=where, got=str(type_))
    if slot_type.rank is None or not 0 <= v.row_axis < slot_type.rank:
        raise VerificationError("a variable has no such axis", where=where, got=v.row_axis)
