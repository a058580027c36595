"""The values inside a graph's text: attributes, constants' data, scalar programs, tensor names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..dims import Expr, parse
from ..dtype import DType
from ..errors import ModelFormatError
from ..graph import Graph
from ..op import Array, Op
from ..ops import Constant
from ..scalar.program import SCALAR_OPS, Instr, Program
from ..serialization.dataclass_json import decode, encode

INLINE_LIMIT = 16
_PLAIN_NAME = re.compile(r"[^\s,|\"]+\Z")
_NAME = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[^\s,|\"]+|[,|]")
_ATTRIBUTE = re.compile(r"(\w+)=")
_BARE = re.compile(r"[A-Za-z_~#][\w.]*")
_WORDS = {"true": True, "false": False, "null": None, "NaN": float("nan"), "Infinity": float("inf")}


# Tensor names -----------------------------------------------------------------------------------


def show_names(names: Sequence[frozenset[str]]) -> str:
    """`a,b||c`: names of each output, sorted; quoted where they hold one of the separators."""
    listed = "|".join(",".join(_show_name(n) for n in sorted(given)) for given in names)
    return listed if listed.strip("|") else ""


def _show_name(name: str) -> str:
    if _PLAIN_NAME.match(name):
        return name
    # It may not contain a blank: the text's fields are separated by blanks.
    return json.dumps(name).replace(" ", "\\u0020")


def read_names(text: str, count: int) -> list[frozenset[str]]:
    """What `show_names` wrote, for `count` outputs."""
    outputs: list[set[str]] = [set()]
    at = 0
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise ModelFormatError("these are not names", got=text[:80])
        token, at = match[0], match.end()
        if token == "|":
            outputs.append(set())
        elif token != ",":
            outputs[-1].add(json.loads(token) if token.startswith('"') else token)
    if len(outputs) > count:
        raise ModelFormatError("more outputs are named than there are", got=text[:80])
    return [frozenset(o) for o in outputs]


# Attributes -------------------------------------------------------------------------------------


def show_attributes(op: Op) -> str:
    """`name=value, ...` for all attributes but bodies."""
    parts: list[str] = []
    for attribute in op.attributes():
        value: Any = getattr(op, attribute.name)
        if isinstance(value, Graph) or (isinstance(value, tuple) and _holds_graphs(value)):
            continue
        if isinstance(value, np.ndarray):
            parts.append(f"{attribute.name}={_show_data(cast(Array, value))}")
        elif isinstance(value, Program):
            parts.append(f"{attribute.name}={json.dumps(show_program(value))}")
        else:
            parts.append(f"{attribute.name}={_format_json(value)}")
    return ", ".join(parts)


def _holds_graphs(values: Any) -> bool:
    return bool(values) and all(isinstance(v, Graph) for v in values)


def _show_data(data: Array) -> str:
    if data.size > INLINE_LIMIT:
        return "#" + hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()[:12]
    flat = data.reshape(-1)
    if flat.dtype.kind == "f" and flat.dtype.itemsize <= 4:
        # The shortest decimals that give the same number back.
        return json.dumps([float(str(v)) for v in flat])
    if flat.dtype.kind in "biuf":
        return json.dumps(flat.tolist())
    if flat.dtype.kind in "OUST":
        return json.dumps([str(v) for v in flat])
    if flat.dtype.kind == "c":
        return json.dumps([[v.real, v.imag] for v in flat.tolist()])
    return json.dumps(flat.astype(np.float32).tolist())


def _format_json(value: Any) -> str:
    if isinstance(value, DType):
        return value.value
    if isinstance(value, Expr) and all(s.lo == 0 and s.hi is None for s in value.symbols()):
        return json.dumps(str(value))
    if isinstance(value, tuple) and any(
        isinstance(v, Expr) for v in cast("tuple[Any, ...]", value)
    ):
        return "[" + ", ".join(_format_json(v) for v in cast("tuple[Any, ...]", value)) + "]"
    return json.dumps(encode(value))


def read_op(cls: type[Op], fields: dict[str, Any], bodies: Sequence[Graph]) -> Op:
    """The operation with attributes as `read_attributes` found them, and these bodies."""
    if issubclass(cls, Constant):
        return _read_constant(fields)
    known = {a.name: a for a in cls.attributes()}
    unknown = [n for n in fields if n not in known]
    if unknown:
        raise ModelFormatError(f"{cls.kind} has no such attribute", got=", ".join(unknown))
    values: dict[str, Any] = {
        n: _decode_attribute(known[n].annotation, v) for n, v in fields.items()
    }
    left = list(bodies)
    for attribute in cls.attributes():
        # Bodies in the order of their attributes; a list of bodies takes the rest.
        if attribute.annotation is Graph and left:
            values[attribute.name] = left.pop(0)
        elif "Graph" in str(attribute.annotation) and left:
            values[attribute.name], left = tuple(left), []
    if left:
        raise ModelFormatError(f"{cls.kind} has no body", got=f"{len(left)} bodies")
    missing = [a.name for a in cls.attributes() if a.required and a.name not in values]
    if missing:
        raise ModelFormatError(f"{cls.kind} lacks attributes", got=", ".join(missing))
    return cls(**values)


def read_attributes(line: str, at: int) -> tuple[dict[str, Any], int]:
    """Names with JSON values from ` {name=value, ...}` at an offset of a line (or nothing), and
    where they end. A bare word (an element type, a digest) denotes itself."""
    fields: dict[str, Any] = {}
    if not line.startswith(" {", at):
        return fields, at
    decoder = json.JSONDecoder()
    at += 2
    while not line.startswith("}", at):
        match = _ATTRIBUTE.match(line, at)
        if match is None:
            raise ModelFormatError("these are not attributes", got=line[at : at + 80])
        word = _BARE.match(line, match.end())
        if word is not None:
            value, at = _WORDS.get(word[0], word[0]), word.end()
        else:
            try:
                value, at = decoder.raw_decode(line, match.end())
            except (json.JSONDecodeError, RecursionError) as error:
                raise ModelFormatError(
                    "an attribute's value is not JSON", got=line[match.start() :][:80]
                ) from error
        fields[match[1]] = value
        if line.startswith(", ", at):
            at += 2
        elif not line.startswith("}", at):
            raise ModelFormatError("these are not attributes", got=line[at : at + 80])
    return fields, at + 1


def _read_constant(fields: dict[str, Any]) -> Constant:
    missing = {"data", "dtype", "shape"} - set(fields)
    if missing:
        raise ModelFormatError("Constant lacks attributes", got=", ".join(sorted(missing)))
    dtype: DType = decode(DType, fields["dtype"])
    shape: tuple[int, ...] = decode(tuple[int, ...], fields["shape"])
    raw = fields["data"]
    if isinstance(raw, str) and raw.startswith("~") and raw[1:].isdecimal():
        drawn: Array = np.random.default_rng(int(raw[1:])).integers(-4, 5, shape)
        return Constant(drawn.astype(dtype.numpy), dtype, shape)
    if not isinstance(raw, list):
        raise ModelFormatError(
            "a constant's data is not in the text", got=str(raw)[:80], expected="a list or ~seed"
        )
    try:
        data = _array(cast("list[Any]", raw), dtype).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelFormatError("a constant's data is broken", got=str(error)[:200]) from error
    return Constant(data, dtype, shape)


def _array(items: list[Any], dtype: DType) -> Array:
    if dtype.is_complex:
        return np.array([complex(*v) for v in items], dtype.numpy)
    if dtype.is_int or dtype is DType.boolean:
        return np.array(items, dtype.numpy)
    if dtype is DType.string:
        out = np.empty(len(items), dtype=object)
        out[:] = items
        return out
    return np.array(items, np.float64).astype(dtype.numpy)


def _decode_attribute(annotation: Any, raw: Any) -> Any:
    if annotation is Program:
        return read_program(raw)
    return decode(annotation, _dims(raw) if "Expr" in str(annotation) else raw)


def _dims(data: Any) -> Any:
    """Sizes written as text, such as "N + 1", in the form that `decode` reads."""
    if isinstance(data, list):
        return [_dims(v) for v in cast("list[Any]", data)]
    return encode(parse(data)) if isinstance(data, str) else data


# Scalar programs --------------------------------------------------------------------------------


def show_program(program: Program) -> str:
    """One instruction after the other: `f32 input 0; f32 const 0.5; f32 mul 0 1; -> 2`.

    Arguments are numbers of instructions, an input's is the number of its operand.
    """
    parts = [
        f"{i.dtype} {i.op} "
        + (json.dumps(i.value) if i.op == "const" else " ".join(map(str, i.args)))
        for i in program.instrs
    ]
    return "; ".join([*parts, "-> " + " ".join(map(str, program.results))])


def read_program(text: Any) -> Program:
    """What `show_program` wrote. ModelFormatError for anything else."""
    *lines, last = str(text).split("; ")
    if not last.startswith("-> "):
        raise ModelFormatError("a scalar program ends with its results", got=last[:80])
    try:
        instrs = tuple(_read_instr(line.split(" "), i) for i, line in enumerate(lines))
        found = tuple(_index(r, len(instrs)) for r in last.split(" ")[1:])
    except (ValueError, KeyError) as error:
        raise ModelFormatError("this is not a scalar program", got=str(text)[:120]) from error
    return Program(instrs, found)


def _read_instr(words: list[str], position: int) -> Instr:
    dtype, op, *rest = words
    if op == "const":
        (value,) = rest
        return Instr(op, (), DType(dtype), json.loads(value))
    count = 1 if op == "input" else SCALAR_OPS[op]
    if len(rest) != count:
        raise ValueError(op)
    limit = 1 << 16 if op == "input" else position
    return Instr(op, tuple(_index(r, limit) for r in rest), DType(dtype))


def _index(text: str, limit: int) -> int:
    if not text.isdecimal() or len(text) > 6 or int(text) >= limit:
        raise ValueError(text)
    return int(text)
