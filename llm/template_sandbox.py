"""The sandbox of chat templates: what they may call, and limits on what they run and make.

Lines are counted by a trace function of the thread that renders. Characters of texts and items of
containers are counted before an operation makes them, or right after where its result is small.
"""

from __future__ import annotations

import datetime
import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What one rendering may run and make.
MAX_LINES = 2_000_000
MAX_CHARACTERS = 16 << 20

_FILTERS = frozenset(
    "abs capitalize count d default dictsort e escape first float groupby indent int items join"
    " last length list lower map max min reject rejectattr replace reverse round safe select"
    " selectattr slice sort string sum title tojson trim unique upper".split()
)
_METHODS = frozenset(
    "capitalize count endswith find get index isalpha isdigit items join keys lower lstrip"
    " removeprefix removesuffix replace rfind rsplit rstrip split splitlines startswith strip"
    " title upper values".split()
)


class TemplateLimitError(Exception):
    """A template runs or makes more than it may."""


@dataclass
class _Budget:
    """What one rendering has run and made."""

    lines: int = 0
    characters: int = 0

    def charge_line(self, frame: FrameType, event: str, argument: object) -> Any:
        """A trace function."""
        self.lines += 1
        if self.lines > MAX_LINES:
            raise TemplateLimitError(f"more than {MAX_LINES} lines run")
        return self.charge_line


_budget: ContextVar[_Budget] = ContextVar("what a template has used")


def run_limited(generate: Callable[[], Iterable[str]]) -> str:
    """The text of a template, whose lines are counted by a trace function of this thread."""
    budget = _Budget()
    token, before = _budget.set(budget), sys.gettrace()
    parts: list[str] = []
    sys.settrace(budget.charge_line)
    try:
        for part in generate():
            _charge(len(part))
            parts.append(part)
    finally:
        sys.settrace(before)
        _budget.reset(token)
    return "".join(parts)


def _charge(size: int) -> None:
    """Count characters, items or bits of a value that is about to be made, or was."""
    budget = _budget.get(None)
    if budget is None:  # jinja2 computes constant expressions as it compiles
        budget = _Budget()
    budget.characters += size
    if budget.characters > MAX_CHARACTERS:
        raise TemplateLimitError(f"more than {MAX_CHARACTERS} characters made")


def _size(value: Any) -> int:
    """How many characters, items or bits a value has."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _charge_value(value: Any) -> Any:
    """A value that a template made."""
    _charge(_size(value))
    return value


def _to_text(value: Any) -> str:
    """str(value). What containers hold is counted first: a list may hold one list many times."""
    pending = [value]
    while pending:
        part = pending.pop()
        _charge(_size(part) + 1)
        if isinstance(part, Mapping):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            pending += part
    return str(value)


def _raise_exception(message: Any) -> None:
    raise jinja2.TemplateError(_to_text(message)[:400])


def _format_time(pattern: Any) -> str:
    return datetime.datetime.now().strftime(_to_text(pattern)[:100])


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """As transformers renders it: without escapes for HTML."""
    _to_text(value)
    depth = None if indent is None else min(max(int(indent), 0), 16)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=depth)


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """str.replace, whose result is counted before it is made."""
    text, old, new = _to_text(text), _to_text(old), _to_text(new)
    most = text.count(old) if count is None else min(text.count(old), max(int(count), 0))
    _charge(len(text) + most * len(new))
    return text.replace(old, new, most)


def _join(parts: Iterable[Any], between: Any = "", attribute: str | None = None) -> str:
    """The texts of the parts, with a text between them."""
    texts: list[str] = []
    between = _to_text(between)
    for part in parts:
        if attribute is not None:
            part = part[attribute] if isinstance(part, Mapping) else ""
        texts.append(_to_text(part))
        _charge(len(between))
    return between.join(texts)


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Lines behind as many spaces, or behind a text."""
    lead = width if isinstance(width, str) else " " * min(max(int(width), 0), 1000)
    lines = _to_text(text).splitlines() or [""]
    _charge(len(lines) * (len(lead) + 1))
    rest = [line if not line and not blank else lead + line for line in lines[1:]]
    return "\n".join([lead + lines[0] if first else lines[0], *rest])


def _count_results(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose results are counted. jinja2 reads what a filter is given from attributes."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return _charge_value(function(*args, **named))

    return call


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:
        """`a ~ b`, bounded as every other value."""
        self.write("environment.join_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment with the names that transformers gives templates."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols],
            autoescape=False,
            finalize=lambda value: value if isinstance(value, str) else _to_text(value),
        )
        own = {"tojson": _to_json, "replace": _replace, "join": _join, "indent": _indent}
        known = {**self.filters, **own, "string": _to_text}
        self.filters = {k: _count_results(v) for k, v in known.items() if k in _FILTERS}
        self.globals |= {"raise_exception": _raise_exception, "strftime_now": _format_time}
        for name in ("lipsum", "cycler", "joiner"):
            self.globals.pop(name, None)

    def join_values(self, parts: Sequence[Any]) -> str:
        return _join(parts)

    def wrap_str_format(self, value: Any) -> Any:
        if super().wrap_str_format(value) is not None:
            raise SecurityError("format is not allowed in chat templates")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise SecurityError("% on a text is not allowed in chat templates")
        if operator == "**":
            _charge(_size(left) * (abs(right) if isinstance(right, int) else 1))
        if operator == "*":
            counts = [x if isinstance(x, int) else _size(x) for x in (left, right)]
            both = isinstance(left, int) and isinstance(right, int)
            _charge(sum(map(_size, (left, right))) if both else counts[0] * counts[1])
        if operator == "+":
            _charge(_size(left) + _size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __object: Any, *args: Any, **named: Any) -> Any:
        owner, name = getattr(__object, "__self__", None), getattr(__object, "__name__", "")
        if not isinstance(owner, str | bytes | dict | list | tuple):
            return _charge_value(super().call(__context, __object, *args, **named))
        if name not in _METHODS:
            raise SecurityError(f"method {name!r} is not allowed in chat templates")
        if name == "replace":
            return _replace(owner, *args, **named)
        if name == "join":
            return _join(args[0], owner)
        return _charge_value(super().call(__context, __object, *args, **named))
