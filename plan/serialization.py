"""A Plan as JSON and back: what an artefact stores, what `Plan` comparisons and goldens print.

Specs and size expressions are in tables of their own, each once, because equal layers repeat
them; a step is a short list. Reading trusts nothing: VerificationError for whatever is not the
text of a plan. A plan that was read has well-formed parts, no more: `verify_specs` and
`verify_plan` say whether it may run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ..ir.dims import Dim, Expr, from_json, to_json
from ..ir.dtype import DType
from ..ir.errors import VerificationError
from ..ir.op import Array, Op
from ..ir.serialization.dataclass_json import decode, decoder, encode, invalid_data_error
from ..ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from .plan import (
    MAX_DEPTH,
    Buffer,
    ControlStep,
    Denormals,
    HostStep,
    KernelStep,
    Plan,
    PlanConstant,
    PlanPort,
    Region,
    SizeCheck,
    Step,
    SymbolSource,
    Terminal,
    Variable,
)
from .specs import find_specs
from .specs.base import Spec
from .target import Target

Json = Any
# As in ir/serialization/graph_json.py, which only plans with operations in Python need: loading it
# and all operations takes longer than reading most plans.
Keep: TypeAlias = Callable[[Array, DType], int]
Arrays: TypeAlias = Callable[[int, DType, tuple[int, ...]], Array]

# Fields of a plan that the generic codec reads; regions are written here.
_PLAN: Mapping[str, Any] = {
    "name": str,
    "target_key": str,
    "precision": str,
    "inputs": tuple[PlanPort, ...],
    "outputs": tuple[PlanPort, ...],
    "slots": tuple[Type, ...],
    "constants": tuple[PlanConstant, ...],
    "constant_slots": tuple[tuple[int, int], ...],
    "variables": tuple[Variable, ...],
    "denormals": Denormals,
}
# What a body says itself; the rest is that of the plan around it.
_BODY: Mapping[str, Any] = {
    name: _PLAN[name] for name in ("name", "inputs", "outputs", "slots", "constant_slots")
}
_REGION: Mapping[str, Any] = {
    "inputs": tuple[int, ...],
    "outputs": tuple[int, ...],
    "symbols": tuple[SymbolSource, ...],
    "initialises": tuple[int, ...],
    "checks": tuple[SizeCheck, ...],
}
_ints: Callable[[Any], tuple[int, ...]] = decoder(tuple[int, ...])
_words: Callable[[Any], tuple[str, ...]] = decoder(tuple[str, ...])
_str: Callable[[Any], str] = decoder(str)
_int: Callable[[Any], int] = decoder(int)
_dtype: Callable[[Any], DType] = decoder(DType)
_maybe_int: Callable[[Any], int | None] = decoder(int | None)
_slots: Callable[[Any], tuple[int | None, ...]] = decoder(tuple[int | None, ...])


def vocabulary() -> str:
    """16 hex digits that change with any field of anything a plan consists of: a plan that another
    vocabulary wrote is not read but made again."""
    lines: list[str] = []
    pending: list[Any] = [Plan, Target, *find_specs()]
    # Sizes and types have texts of their own; operations and specs are listed.
    seen: set[Any] = {Expr, TensorType, SequenceType, OptionalType, MapType, Op, Spec}
    while pending:
        found = pending.pop()
        pending += typing.get_args(found)
        if not isinstance(found, type) or not dataclasses.is_dataclass(found) or found in seen:
            continue
        seen.add(found)
        hints = typing.get_type_hints(found, localns={"Expr": Expr})
        fields = [f.name for f in dataclasses.fields(found)]
        lines.append(f"{found.__name__}({', '.join(f'{n}: {hints[n]}' for n in fields)})")
        pending += [hints[n] for n in fields]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


# Writing ----------------------------------------------------------------------------------------


class _Tables:
    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.specs: dict[Spec, int] = {}
        self.dims: dict[Expr, int] = {}

    def dim(self, d: Dim) -> Json:
        """An int as it is, an expression as [its number]."""
        return [self.dims.setdefault(d, len(self.dims))] if isinstance(d, Expr) else d

    def spec(self, spec: Spec) -> int:
        return self.specs.setdefault(spec, len(self.specs))


def _keep_nothing(array: Array, dtype: DType) -> int:
    raise VerificationError("a plan's operation holds an array and nothing keeps it", got=dtype)


def encode_plan(plan: Plan, keep: Keep = _keep_nothing) -> Json:
    """JSON that decode_plan reads. `keep` takes the arrays of constants inside control flow."""
    tables = _Tables(keep)
    regions = [_encode_region(r, tables) for r in plan.regions]
    return {
        **{name: encode(getattr(plan, name)) for name in _PLAN},
        "regions": regions,
        "specs": [encode(s) for s in tables.specs],
        "dims": [to_json(d) for d in tables.dims],
    }


def _encode_region(region: Region, tables: _Tables) -> Json:
    end = region.terminal
    terminal = end and [
        _encode_op(end.op, tables.keep),
        list(end.inputs),
        list(end.outputs),
        end.name,
        end.reason,
        [_encode_body(b, tables) for b in end.bodies],
    ]
    return {
        **{name: encode(getattr(region, name)) for name in _REGION},
        "terminal": terminal,
        "dims": [tables.dim(d) for d in region.dims],
        "buffers": [_encode_buffer(b, tables) for b in region.buffers],
        "steps": [_encode_step(s, tables) for s in region.steps],
    }


def _encode_body(body: Plan, tables: _Tables) -> Json:
    regions = [_encode_region(r, tables) for r in body.regions]
    return {**{name: encode(getattr(body, name)) for name in _BODY}, "regions": regions}


def _encode_op(op: Op, keep: Keep) -> Json:
    from ..ir.serialization.graph_json import encode_op

    return encode_op(op, keep)


def _encode_buffer(b: Buffer, tables: _Tables) -> Json:
    shape = [tables.dim(d) for d in b.shape]
    alias = [b.alias_of, tables.dim(b.alias_offset)]
    moves = [] if b.loop is None else [b.loop, tables.dim(b.stride)]
    return [b.kind, b.dtype.value, shape, b.index, b.first, b.last, *alias, b.name, *moves]


def _encode_step(step: Step, tables: _Tables) -> Json:
    if isinstance(step, HostStep):
        parts = [_encode_op(step.op, tables.keep), list(step.inputs), list(step.outputs)]
        return ["host", *parts, step.name, step.reason, list(step.sources)]
    if isinstance(step, ControlStep):
        buffers = [step.count, step.condition, step.index]
        return ["control", step.kind, step.target, step.trips, buffers, step.name, [*step.sources]]
    parts = [tables.spec(step.spec), list(step.buffers), list(step.dims), tables.dim(step.work)]
    return ["kernel", *parts, step.name, list(step.sources)]


# Reading ----------------------------------------------------------------------------------------


def _no_arrays(source: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    raise VerificationError("a stored plan's operation wants an array", got=source)


def decode_plan(data: Json, array: Arrays = _no_arrays) -> Plan:
    """The plan that encode_plan wrote, `array` giving what `keep` took. VerificationError for
    anything else."""
    fields = _fields(data, {*_PLAN, "regions", "specs", "dims"}, "a plan")
    find_specs()  # a spec may be of any family
    specs: tuple[Spec, ...] = decode(tuple[Spec, ...], fields["specs"])
    plain = {name: decode(kind, fields[name]) for name, kind in _PLAN.items()}
    compiled_for = plain["target_key"], plain["precision"]
    reader = _PlanDecoder(
        specs, [_read_dim(d) for d in _expect_list(fields["dims"])], array, compiled_for
    )
    return Plan(**plain, regions=tuple([reader.region(r) for r in _expect_list(fields["regions"])]))


def _fields(data: Json, names: set[str], what: str) -> dict[str, Any]:
    if type(data) is not dict or set(cast("dict[str, Any]", data)) != names:
        raise invalid_data_error(data, f"{what}: {', '.join(sorted(names))}")
    return cast("dict[str, Any]", data)


def _expect_list(data: Json) -> list[Any]:
    if type(data) is not list:
        raise invalid_data_error(data, "a list")
    return cast("list[Any]", data)


def _read_dim(data: Json) -> Expr:
    found = from_json(data)
    if not isinstance(found, Expr):
        raise invalid_data_error(data, "a size with symbols")
    return found


class _PlanDecoder:
    """Reads regions, whose steps and sizes name entries of the tables."""

    def __init__(
        self,
        specs: Sequence[Spec],
        dims: Sequence[Expr],
        array: Arrays,
        compiled_for: tuple[str, str],
    ) -> None:
        self.specs, self.exprs, self.array = specs, dims, array
        self._target_key, self._precision = compiled_for
        self._depth = 0

    def body(self, data: Json) -> Plan:
        if self._depth == MAX_DEPTH:
            raise VerificationError("a plan's bodies lie too deep", expected=MAX_DEPTH)
        self._depth += 1
        fields = _fields(data, {*_BODY, "regions"}, "a body")
        plain: dict[str, Any] = {n: decode(kind, fields[n]) for n, kind in _BODY.items()}
        regions = tuple([self.region(r) for r in _expect_list(fields["regions"])])
        self._depth -= 1
        return Plan(
            **plain,
            target_key=self._target_key,
            precision=self._precision,
            constants=(),
            regions=regions,
        )

    def region(self, data: Json) -> Region:
        fields = _fields(data, {*_REGION, "dims", "buffers", "steps", "terminal"}, "a region")
        plain = {name: decode(kind, fields[name]) for name, kind in _REGION.items()}
        return Region(
            **plain,
            dims=self.dims(fields["dims"]),
            buffers=tuple([self.buffer(b) for b in _expect_list(fields["buffers"])]),
            steps=tuple([self.step(s) for s in _expect_list(fields["steps"])]),
            terminal=None if fields["terminal"] is None else self.terminal(fields["terminal"]),
        )

    def terminal(self, data: Json) -> Terminal:
        if len(_expect_list(data)) != 6:
            raise invalid_data_error(data, "a terminal's 6 parts")
        op, inputs, outputs, name, reason, inside = _expect_list(data)
        ends = _slots(inputs), _ints(outputs)
        bodies = tuple([self.body(b) for b in _expect_list(inside)])
        return Terminal(_decode_op(op, self.array), *ends, _str(name), _str(reason), bodies)

    def dims(self, data: Json) -> tuple[Dim, ...]:
        return tuple([self.dim(d) for d in _expect_list(data)])

    def dim(self, data: Json) -> Dim:
        if type(data) is not list:
            return _int(data)
        listed = cast("list[Any]", data)
        return _look_up(self.exprs, listed[0] if len(listed) == 1 else None, "a size's number")

    def buffer(self, data: Json) -> Buffer:
        if len(_expect_list(data)) not in (9, 11):
            raise invalid_data_error(data, "a buffer's 9 parts, or 11 of one that moves")
        kind, dtype, shape, index, first, last, inside, offset, name, *moves = _expect_list(data)
        return Buffer(
            _str(kind),
            _dtype(dtype),
            self.dims(shape),
            _int(index),
            _int(first),
            _int(last),
            _maybe_int(inside),
            self.dim(offset),
            _str(name),
            _int(moves[0]) if moves else None,
            self.dim(moves[1]) if moves else 0,
        )

    def step(self, data: Json) -> Step:
        if len(_expect_list(data)) != 7 or _expect_list(data)[0] not in (
            "host",
            "kernel",
            "control",
        ):
            raise invalid_data_error(data, "a step's 7 parts")
        mark, first, second, third, fourth, fifth, sources = _expect_list(data)
        if mark == "host":
            op = _decode_op(first, self.array)
            ends = _slots(second), _ints(third)
            return HostStep(op, *ends, _str(fourth), _str(fifth), _words(sources))
        if mark == "control":
            if len(buffers := _slots(fourth)) != 3:
                raise invalid_data_error(fourth, "a control step's 3 buffers")
            head = _str(first), _int(second), _maybe_int(third)
            return ControlStep(*head, *buffers, _str(fifth), _words(sources))
        spec = _look_up(self.specs, first, "a spec's number")
        tables = _ints(second), _ints(third)
        return KernelStep(spec, *tables, self.dim(fourth), _str(fifth), _words(sources))


def _decode_op(data: Json, array: Arrays) -> Op:
    from ..ir.serialization.graph_json import decode_op

    return decode_op(data, array)


def _look_up(table: Sequence[Any], number: Any, expected: str) -> Any:
    if type(number) is not int or not 0 <= number < len(table):
        raise invalid_data_error(number, expected)
    return table[number]
