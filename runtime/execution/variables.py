"""What a request keeps between its runs: the values of a plan's variables.

A key-value cache grows where it is; another value is written from one of two pieces of memory into
the other, so that nothing is allocated as long as it fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ...ir.dims import Expr, bounds
from ...ir.errors import InputError
from ...ir.types import TensorType, native_order
from ...plan.plan import Plan, Region
from ..machine.memory_planner import address_of, aligned_bytes
from .input_check import check_tensor
from .region_instance import MAX_COPIED_BYTES

Array = npt.NDArray[Any]

# Smaller values are not worth memory of their own; those that grow are, as soon as results are not
# copied anyway.
_MIN_OWN_BYTES: Final = 1 << 16
_MIN_GROWING_BYTES: Final = MAX_COPIED_BYTES + 1


def least_value(type_: TensorType) -> Array:
    """Zeros of the least sizes that a type of known rank allows."""
    shape = [bounds(d)[0] or 0 if isinstance(d, Expr) else d for d in type_.shape or ()]
    return np.zeros(shape, type_.dtype.numpy)


def deep_copy(value: Any) -> Any:
    """A value of our own: arrays copied, also those in sequences and maps."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {k: deep_copy(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    return [deep_copy(v) for v in value] if isinstance(value, list | tuple) else value


class VariableStore:
    """The variables' values, by number, in the order of axes of the plan's slots; None for one that
    its initial value is still to come to.

    A variable that grows (plan.Variable.axes) has one piece of memory with room behind its value: a
    run appends to it. Any other one has two pieces, and a run writes into the other one.

    lasts: whether it is for more than one run, so that memory of its own is worth having.
    """

    def __init__(self, plan: Plan, *, lasts: bool = True) -> None:
        self.variables = plan.variables
        self._types = [plan.slots[v.slot] for v in plan.variables]
        self.values: list[Array | None] = [None] * len(plan.variables)
        assigned = plan.variables if lasts else ()
        self._number = {v.after: n for n, v in enumerate(assigned) if v.after != v.slot}
        nothing = aligned_bytes(0)
        self._memory = [[nothing, nothing] for _ in plan.variables]
        self._side = [0] * len(plan.variables)  # which buffer holds the value, if it is in either

    def type(self, number: int) -> TensorType:
        """What a variable may hold, in the order of axes that callers see."""
        found = self._types[number]
        assert isinstance(found, TensorType)
        axes = self.variables[number].axes
        if not axes or found.shape is None:
            return found
        return TensorType(found.dtype, tuple(found.shape[axes.index(n)] for n in range(len(axes))))

    def show(self, number: int) -> Array:
        """A copy of a variable's value, in the order of axes that callers see; zeros of the least
        sizes where it has none."""
        value, axes = self.values[number], self.variables[number].axes
        if value is None:
            return least_value(self.type(number))
        return value.transpose(np.argsort(axes)).copy() if axes else value.copy()

    def put(self, number: int, value: Any) -> None:
        """Give a variable a copy of this value. InputError where its type or rank is another, or a
        size that the model fixes."""
        name, type_ = self.variables[number].name, self.type(number)
        array = np.array(native_order(value), order="C")
        check_tensor(name, type_, array)
        _require_sizes(name, type_, array.shape)
        axes = self.variables[number].axes
        array = np.ascontiguousarray(array.transpose(axes)) if axes else array
        self.values[number] = array.astype(array.dtype.newbyteorder("="), copy=False)

    def views(self) -> list[Array]:
        """The values themselves, in the order of axes that callers see: what is written there is
        what the next run reads. InputError for a variable without a value."""
        found: list[Array] = []
        for variable, value in zip(self.variables, self.values, strict=True):
            if value is None:
                raise InputError(
                    f"variable {variable.name!r} has no value yet",
                    expected="a run, or a value, before its memory is used",
                )
            axes = variable.axes
            found.append(value.transpose(np.argsort(axes)) if axes else value)
        return found

    def renew(self, sizes: Mapping[int, int]) -> list[Array]:
        """Give every variable zeros of these sizes along axes, and of its type's sizes along
        others, in memory of its own; returns `views`. InputError where a size does not fit."""
        made: list[Array] = []
        for n, v in enumerate(self.variables):
            least = least_value(self.type(n))
            shape = tuple(sizes.get(axis, size) for axis, size in enumerate(least.shape))
            _require_sizes(v.name, self.type(n), shape)
            stored = tuple(shape[a] for a in v.axes) if v.axes else shape
            count = math.prod(stored) * least.itemsize
            # Room to grow: pages that are never touched cost nothing.
            memory = aligned_bytes(2 * count if v.axes else count)
            if v.axes:
                self._memory[n][0] = memory
            made.append(memory[:count].view(least.dtype).reshape(stored))
        self.values = list(made)
        return self.views()

    def reset(self) -> None:
        """Forget all values; memory is kept."""
        self.values = [None] * len(self.values)

    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(value.nbytes for value in self.values if value is not None)

    def trim(self, axis: int, size: int) -> None:
        """Cut every value that is longer along an axis, as callers see it, down to this size."""
        self._require_axis("trimmed", axis, size)
        for n, value in enumerate(self.values):
            if value is None:
                continue
            at = self._stored_axis(n, axis)
            if at == 0:  # a shorter beginning of the same memory
                self.values[n] = value[:size]
            elif value.shape[at] > size:
                self.values[n] = np.take(value, range(size), at)

    def drop(self, axis: int, count: int) -> None:
        """Forget the first `count` positions of every value along an axis, as callers see it. The
        others move to the begin of the same memory."""
        self._require_axis("shortened", axis, count)
        for n, value in enumerate(self.values):
            if value is None:
                continue
            at = self._stored_axis(n, axis)
            kept = np.delete(value, slice(count), at)
            if at == 0:
                self.values[n] = found = value[: len(kept)]
                found[...] = kept
            else:
                self.values[n] = kept

    def _stored_axis(self, number: int, axis: int) -> int:
        axes = self.variables[number].axes
        return axes.index(axis) if axes else axis

    def _require_axis(self, done: str, axis: int, size: int) -> None:
        """InputError where a value lacks an axis, or a size is below 0."""
        for variable, value in zip(self.variables, self.values, strict=True):
            if value is not None and not (0 <= axis < value.ndim and size >= 0):
                raise InputError(
                    f"variable {variable.name!r} cannot be {done}",
                    got=f"axis {axis}, size {size}",
                    expected=f"an axis from 0 to {value.ndim - 1}, and a size from 0 up",
                )

    def load(self, slots: list[Any]) -> None:
        """At the begin of a run: the variables' slots take their values. Inputs have theirs."""
        identities: dict[tuple[int, int], bool] = {}
        for n, (v, value) in enumerate(zip(self.variables, self.values, strict=True)):
            if value is not None and v.rows is not None:
                if not identities.get((v.rows, value.shape[v.row_axis])):
                    value = self._choose_rows(n, value, slots, identities)
            slots[v.slot] = value

    def _choose_rows(
        self, n: int, value: Array, slots: Sequence[Any], identities: dict[tuple[int, int], bool]
    ) -> Array:
        """The rows of a value that a run reads: the value itself where they are all in order."""
        v = self.variables[n]
        if v.rows is None:
            return value
        rows, count = slots[v.rows], value.shape[v.row_axis]
        key = v.rows, count
        if key not in identities:
            identities[key] = np.array_equal(rows, np.arange(count))
        if identities[key]:
            return value
        from ...ir.ops.control_flow.variables import take_rows

        taken = take_rows(value, rows, v.row_axis)
        if not v.axes or not len(self._memory[n][0]):
            return taken
        # Memory with room; the old value stays as it is, in case the run fails.
        self._memory[n][0] = memory = aligned_bytes(2 * taken.nbytes)
        moved = memory[: taken.nbytes].view(taken.dtype).reshape(taken.shape)
        moved[...] = taken
        return moved

    def initialise(self, numbers: Sequence[int], slots: list[Any], ours: set[int]) -> None:
        """Variables without a value take their initial ones, which the slots hold by now."""
        for n in numbers:
            v = self.variables[n]
            if slots[v.slot] is None:
                made = v.initial is None
                slots[v.slot] = least_value(self.type(n)) if v.initial is None else slots[v.initial]
                if v.rows is not None:
                    slots[v.slot] = self._choose_rows(n, slots[v.slot], slots, {})
                if made or v.initial in ours:
                    ours.add(v.slot)

    def has_missing(self, numbers: Sequence[int], slots: Sequence[Any]) -> bool:
        """Has one of these variables no value?"""
        return any(slots[self.variables[n].slot] is None for n in numbers)

    def find_memory(
        self,
        slots: Sequence[Any],
        region: Region,
        appended: Mapping[int, int],
        result_type: Callable[[int], tuple[Any, tuple[int, ...]]],
    ) -> list[Array | None]:
        """For each result of a region, memory for what its slot will hold; None where it is not a
        variable's next value, or a small one. It is apart from the value that is there, except for
        outputs that the region appends to an input (`appended`: by output, the input)."""
        if not self._number:
            return []
        found: list[Array | None] = []
        for n, slot in enumerate(region.outputs):
            number = self._number.get(slot)
            if number is None:
                found.append(None)
                continue
            source = appended.get(n)
            grows = source is not None and region.inputs[source] == self.variables[number].slot
            found.append(self._memory_for(number, slots, grows, *result_type(n)))
        return found

    def list_growing_memory(self, region: Region) -> dict[int, Array]:
        """For each result of a region that is the next value of a variable with room to grow, the
        memory that the value begins in."""
        numbers = ((n, self._number.get(slot)) for n, slot in enumerate(region.outputs))
        return {
            n: self._memory[v][0] for n, v in numbers if v is not None and len(self._memory[v][0])
        }

    def _memory_for(
        self,
        number: int,
        slots: Sequence[Any],
        grows: bool,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
    ) -> Array | None:
        need = math.prod(shape) * dtype.itemsize
        if need < (_MIN_GROWING_BYTES if grows else _MIN_OWN_BYTES):
            return None
        side = 0 if grows else 1 - self._side[number]
        memory = self._memory[number][side]
        value = slots[self.variables[number].slot]
        if grows and value is not None and address_of(value) != address_of(memory):
            memory = memory[:0]  # another value may be in it
        if len(memory) < need:
            # Room to grow: pages that are never touched cost nothing.
            memory = aligned_bytes(2 * need if grows else need + (need >> 1))
            self._memory[number][side] = memory
        return np.ndarray(shape, dtype, memory)

    def keep(self, slots: Sequence[Any], ours: set[int]) -> None:
        """After a run: the values that the next one starts with."""
        for n, v in enumerate(self.variables):
            value = slots[v.after]
            if value is self.values[n]:
                continue
            mine = v.after in ours
            self.values[n] = value if mine else np.array(value)
            side = 1 - self._side[n]
            if mine and len(self._memory[n][side]) and starts_in(value, self._memory[n][side]):
                self._side[n] = side


def _require_sizes(name: str, type_: TensorType, shape: Sequence[int]) -> None:
    """InputError where a variable's type allows another size only."""
    for size, wanted in zip(shape, type_.shape or shape, strict=True):
        low, high = bounds(wanted)
        if size < (low or 0) or (high is not None and size > high):
            raise InputError(
                f"the value does not fit variable {name!r}",
                got=list(shape),
                expected=str(type_),
            )


def starts_in(value: Array, memory: Array) -> bool:
    """Does an array begin in this memory?"""
    start = memory.ctypes.data
    return start <= value.ctypes.data < start + memory.nbytes
