"""What a request keeps between its runs: the values of a plan's variables.

A value that grows by a little per run (a key-value cache) is written from one of two pieces of
memory into the other, so that nothing is allocated as long as it fits.
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
from ...plan.plan import Plan
from ..machine.memory_planner import aligned_bytes
from .input_check import check_tensor

Array = npt.NDArray[Any]

# Smaller values are not worth memory of their own.
_MIN_OWN_BYTES: Final = 1 << 16


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
    """The variables' values, by number; None for one that its initial value is still to come to.

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
        self._side = [0] * len(plan.variables)  # where the value lies, if it is in either

    def type(self, number: int) -> TensorType:
        """What a variable may hold."""
        found = self._types[number]
        assert isinstance(found, TensorType)
        return found

    def put(self, number: int, value: Any) -> None:
        """Give a variable a copy of this value. InputError where its type or rank is another, or a
        size that the model fixes."""
        name, type_ = self.variables[number].name, self.type(number)
        array = np.array(native_order(value), order="C")
        check_tensor(name, type_, array)
        for size, wanted in zip(array.shape, type_.shape or array.shape, strict=True):
            low, high = bounds(wanted)
            if size < (low or 0) or (high is not None and size > high):
                raise InputError(
                    f"the value does not fit variable {name!r}",
                    got=list(array.shape),
                    expected=str(type_),
                )
        self.values[number] = array.astype(array.dtype.newbyteorder("="), copy=False)

    def reset(self) -> None:
        """Forget all values; memory is kept."""
        self.values = [None] * len(self.values)

    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(value.nbytes for value in self.values if value is not None)

    def trim(self, axis: int, size: int) -> None:
        """Cut every value that is longer along an axis down to this size."""
        for variable, value in zip(self.variables, self.values, strict=True):
            if value is not None and not (0 <= axis < value.ndim and size >= 0):
                raise InputError(
                    f"variable {variable.name!r} cannot be trimmed",
                    got=f"axis {axis}, size {size}",
                    expected=f"an axis from 0 to {value.ndim - 1}, and a size from 0 up",
                )
        for n, value in enumerate(self.values):
            if value is not None and value.shape[axis] > size:
                self.values[n] = np.take(value, range(size), axis)

    def initialise(self, numbers: Sequence[int], slots: list[Any], ours: set[int]) -> None:
        """Variables without a value take their initial ones, which the slots hold by now."""
        for n in numbers:
            v = self.variables[n]
            if slots[v.slot] is None:
                made = v.initial is None
                slots[v.slot] = least_value(self.type(n)) if v.initial is None else slots[v.initial]
                if made or v.initial in ours:
                    ours.add(v.slot)

    def has_missing(self, numbers: Sequence[int], slots: Sequence[Any]) -> bool:
        """Has one of these variables no value?"""
        return any(slots[self.variables[n].slot] is None for n in numbers)

    def rooms(
        self, slots: Sequence[int], result_type: Callable[[int], tuple[Any, tuple[int, ...]]]
    ) -> list[Array | None]:
        """For each result of a region, memory for what its slot will hold, apart from the value
        that is there; None where it is not a variable's next value, or a small one."""
        if not self._number:
            return []
        return [
            None if s not in self._number else self._room(self._number[s], *result_type(n))
            for n, s in enumerate(slots)
        ]

    def _room(self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array | None:
        need = math.prod(shape) * dtype.itemsize
        if need < _MIN_OWN_BYTES:
            return None
        side = 1 - self._side[number]
        if len(self._memory[number][side]) < need:
            # Room to grow: pages that are never touched cost nothing.
            self._memory[number][side] = aligned_bytes(need + (need >> 1))
        return self._memory[number][side][:need].view(dtype).reshape(shape)

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


def starts_in(value: Array, memory: Array) -> bool:
    """Does an array begin in this memory?"""
    start = memory.ctypes.data
    return start <= value.ctypes.data < start + memory.nbytes
