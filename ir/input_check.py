"""Checks the inputs of an operation by its inference: facts at compile time, arrays at run time.

Sizes and ranks that compile time did not know may not fit one another. Evaluation alone would
accept some of that, where NumPy broadcasts or takes the first element of many: inference at run
time refuses what it refuses when the same sizes are known. Errors of evaluation come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .dtype import DType
from .errors import Error, ShapeError
from .limits.interruptible import call_interruptibly
from .limits.memory_budget import active_budget, value_bytes
from .limits.string_moves import MIN_STRINGS, STRING_MOVES, is_string, move_strings, stand_ins
from .op import Fact, Op
from .ops.control_flow.optionals import OptionalGetElement
from .ops.math.elementwise import INTEGERS
from .ops.shape_inference import naming, require_dtype
from .types import MAX_RANK, MAX_SIZE, TensorType, Type

# Inputs of these names are indices, counts or sizes, whichever operation reads them.
_INTEGER_INPUTS = frozenset(
    "axes axes_mapping axis batch_indices batch_shape begin block_shape crops_begin crops_end "
    "depth diagonal_index end indices k kernel_size lengths max_output_boxes_per_class num_columns "
    "num_rows order output_shape output_size pads_begin pads_end position repeats seq_lengths "
    "sequence_lengths shape signal_size split_lengths strides target_shape trip_count".split()
)
# Inputs whose values decide how large outputs are, and how many elements of them are looked at.
_SIZING_INPUTS = _INTEGER_INPUTS | frozenset(
    "frame_size frame_step num_samples num_segments scales scales_or_sizes sizes start stop "
    "step".split()
)
_SIZING_ELEMENTS = 4096
UNFORESEEN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError)
# An array of strings holds a reference to each.
_REFERENCE_BYTES = 8
# Operations with the types and shapes that were checked at run time.
_MAX_CACHED_CHECKS = 4096


def infer_checked(op: Op, facts: Sequence[Fact | None], scope: str) -> list[Type]:
    """The types of an operation's outputs; `scope` names symbols for sizes that data decides.

    Error without an origin where the operation refuses its inputs.
    """
    try:
        slots = op.slots(list(facts))
        for port, slot in zip(op.inputs, slots, strict=True):
            if port.name in _INTEGER_INPUTS and isinstance(slot, Fact):
                require_dtype(slot, port.name, INTEGERS, "an integer type")
        with naming(scope):
            types = list(op.infer(*slots))
        for type_ in types:
            _refuse_huge(type_)
        return types
    except Error:
        raise
    except UNFORESEEN as error:
        # A model file may hold any attributes and shapes: what no rule foresaw is its error too.
        given = ", ".join("nothing" if f is None else str(f.type) for f in facts)
        raise ShapeError(
            f"{op.kind} cannot work with these inputs and attributes",
            got=f"inputs {given or 'none'} ({type(error).__name__}: {str(error)[:200]})",
        ) from error


def _refuse_huge(type_: Type) -> None:
    """ShapeError for more axes than an array has, and for a known size beyond 64 bits. (What sizes
    make when multiplied is bounded where memory is allocated.)"""
    while not isinstance(type_, TensorType):
        type_ = type_.element
    shape = type_.shape or ()
    if len(shape) > MAX_RANK:
        raise ShapeError(
            "a tensor has too many axes", got=len(shape), expected=f"at most {MAX_RANK}"
        )
    for size in shape:
        if type(size) is int and size > MAX_SIZE:
            raise ShapeError("a size is beyond 64 bits", got=type_, expected=f"at most {MAX_SIZE}")


def evaluate_bounded(op: Op, arrays: list[Any], where: str) -> tuple[Any, ...]:
    """`evaluate` within this thread's memory budget, in the main thread interruptible (control flow
    is: its bodies evaluate operations)."""
    if op.kind in STRING_MOVES and any(map(is_string, arrays)):
        return _evaluate_moves(op, arrays, where)
    size = charge_memory(op, arrays, where) + value_bytes(arrays)
    slots = op.slots(arrays, running=True)
    if op.bodies():
        return op.evaluate(*slots)
    return call_interruptibly(lambda: op.evaluate(*slots), size)


def _evaluate_moves(op: Op, arrays: list[Any], where: str) -> tuple[Any, ...]:
    """`evaluate_bounded` of an operation that moves strings."""
    counted = stand_ins(arrays)
    size = charge_memory(op, counted, where) + value_bytes(counted)

    def evaluate(values: list[Any]) -> tuple[Any, ...]:
        return op.evaluate(*op.slots(values, running=True))

    if size < MIN_STRINGS * _REFERENCE_BYTES:
        return evaluate(arrays)
    return call_interruptibly(lambda: move_strings(evaluate, arrays), size)


def charge_memory(op: Op, arrays: Sequence[Any], where: str) -> int:
    """Charge this thread's budget with outputs and temporaries, as far as types and values of the
    inputs say how large they are; their bytes together. (Evaluators charge what only they know.)

    MemoryLimitError where they exceed the budget.
    """
    if op.bodies() or not _are_tensors(arrays):
        return 0
    names = _port_names(type(op))
    last = len(names) - 1
    kinds = [
        None if a is None else (a.dtype, a.shape, _sizing_value(a, names[min(n, last)]))
        for n, a in enumerate(arrays)
    ]
    size, budget = 0, active_budget()
    for size, text in _output_bytes(op, tuple(kinds)):
        budget.require(size, text, where)
    budget.used += size
    return size


def _are_tensors(arrays: Sequence[Any]) -> bool:
    """Whether all are arrays, or None."""
    # A generator takes three times as long here.
    return False not in [a is None or isinstance(a, np.ndarray) for a in arrays]


@lru_cache(None)
def _port_names(op: type[Op]) -> tuple[str, ...]:
    return tuple(port.name for port in op.inputs)


def _sizing_value(array: Any, port: str) -> bytes | None:
    if port not in _SIZING_INPUTS or array.size > _SIZING_ELEMENTS:
        return None
    return array.tobytes() if array.dtype.kind in "iufb" else None


@lru_cache(_MAX_CACHED_CHECKS)
def _output_bytes(op: Op, kinds: tuple[Any, ...]) -> tuple[tuple[int, str], ...]:
    """Bytes and description of each output, where inference finds the sizes, of all together, and
    of all with the temporaries."""
    facts = [k and _fact_of(*k) for k in kinds]
    try:
        types = infer_checked(op, facts, "run")
    except Error:  # evaluation says what is wrong, in its own words
        return ()
    found = [(type_bytes(t), str(t)) for t in types]
    known = [(size, text) for size, text in found if size is not None]
    total = sum(size for size, _ in known)
    if len(known) > 1:
        known.append((total, f"{len(known)} outputs"))
    inputs = [f and f.tensor for f in facts]
    scratch = op.scratch_bytes(inputs, [t for t in types if isinstance(t, TensorType)])
    if scratch:
        known.append((total + scratch, f"outputs and temporaries of {op.kind}"))
    return tuple(known)


def _fact_of(dtype: Any, shape: tuple[int, ...], value: bytes | None) -> Fact:
    array = None if value is None else np.frombuffer(value, dtype).reshape(shape)
    return Fact(TensorType(DType.from_numpy(dtype), shape), array)


def type_bytes(type_: Type) -> int | None:
    """Bytes of a tensor of this type; None where a size is not a number."""
    if not isinstance(type_, TensorType) or not type_.is_static or type_.dtype is DType.string:
        return None
    return prod(d for d in type_.shape or () if isinstance(d, int)) * type_.dtype.numpy.itemsize


def refuse_unfit(op: Op, arrays: Sequence[Any]) -> None:
    """ShapeError without an origin where arrays of these types and shapes do not fit the operation.

    Not checked: what bodies need, sequences and optionals.
    """
    if not arrays or op.bodies() or isinstance(op, OptionalGetElement):
        return
    if _are_tensors(arrays):
        kinds = [None if a is None else (a.dtype, a.shape) for a in arrays]
        _infer_from_kinds(op, tuple(kinds))


@lru_cache(_MAX_CACHED_CHECKS)
def _infer_from_kinds(op: Op, kinds: tuple[tuple[Any, tuple[int, ...]] | None, ...]) -> None:
    facts = [k and Fact(TensorType(DType.from_numpy(k[0]), k[1])) for k in kinds]
    absent = [op.inputs[min(i, len(op.inputs) - 1)] for i, k in enumerate(kinds) if k is None]
    if all(port.optional for port in absent):
        infer_checked(op, facts, "run")
