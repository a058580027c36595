"""Chat templates: Jinja templates of a model's file, rendered in a sandbox.

A template is a program of a file that nobody checked. It reaches no attribute that begins with an
underscore and changes nothing (jinja2's immutable sandbox), it calls only the filters and methods
of strings and containers that templates of models use, and it ends: what it runs is counted line
by line, and so is the text that it makes.
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
from typing import TYPE_CHECKING, Any

from ..ir.errors import ExecutionError, ModelFormatError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEMPLATE_CHARACTERS = 1 << 20
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


class ChatTemplate:
    """tokens: texts that templates read (`bos_token`, `eos_token`). ModelFormatError for a template
    that is not Jinja."""

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None) -> None:
        import jinja2

        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise ModelFormatError(
                "the chat template is too long",
                got=f"{len(source)} characters",
                expected=f"at most {MAX_TEMPLATE_CHARACTERS}",
            )
        self.source, self._tokens = source, dict(tokens or {})
        try:
            self._template = _environment().from_string(source)
        except (_TemplateLimitError, jinja2.TemplateError, ArithmeticError, MemoryError,
                RecursionError, SyntaxError, TypeError, ValueError) as error:  # fmt: skip
            raise ModelFormatError(
                "the chat template is broken", got=str(error)[:200], expected="a Jinja template"
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt of a conversation: messages have a `role` and a `content`.

        variables: others that the template reads (`tools`, `enable_thinking`). ExecutionError where
        the template fails, refuses the messages, or does not end.
        """
        import jinja2

        given: dict[str, Any] = {
            "tools": None,
            **self._tokens,
            **variables,
            "messages": [dict(m) for m in messages],
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return _run_limited(lambda: self._template.generate(**given))
        except _TemplateLimitError as error:
            raise ExecutionError(
                "the chat template does not end", got=str(error), fix="use another template"
            ) from error
        except (jinja2.TemplateError, ArithmeticError, LookupError, MemoryError, RecursionError,
                TypeError, ValueError, AttributeError) as error:  # fmt: skip
            raise ExecutionError(
                "the chat template refuses these messages",
                got=str(error)[:400],
                expected="messages with the roles and keys that the template takes",
            ) from error


class _TemplateLimitError(Exception):
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
            raise _TemplateLimitError(f"more than {MAX_LINES} lines run")
        return self.charge_line


_budget: ContextVar[_Budget] = ContextVar("what a template has used")


def _run_limited(generate: Callable[[], Iterable[str]]) -> str:
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
        raise _TemplateLimitError(f"more than {MAX_CHARACTERS} characters made")


def _size(value: Any) -> int:
    """How many characters, items or bits a value has."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _charged(value: Any) -> Any:
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
    import jinja2

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
        return _charged(function(*args, **named))

    return call


def _environment() -> ImmutableSandboxedEnvironment:
    """The sandbox with the names that transformers gives templates."""
    from jinja2 import nodes
    from jinja2.compiler import CodeGenerator
    from jinja2.exceptions import SecurityError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generator(CodeGenerator):
        def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:  # noqa: N802
            """`a ~ b`, bounded as every other value."""
            self.write("environment.join_values((")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write("))")

    class Environment(ImmutableSandboxedEnvironment):
        code_generator_class = Generator
        intercepted_binops = frozenset({"+", "*", "**", "%"})

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

        def call(__self, context: Any, __object: Any, *args: Any, **named: Any) -> Any:  # noqa: N805
            owner, name = getattr(__object, "__self__", None), getattr(__object, "__name__", "")
            if not isinstance(owner, str | bytes | dict | list | tuple):
                return _charged(super().call(context, __object, *args, **named))
            if name not in _METHODS:
                raise SecurityError(f"method {name!r} is not allowed in chat templates")
            if name == "replace":
                return _replace(owner, *args, **named)
            if name == "join":
                return _join(args[0], owner)
            return _charged(super().call(context, __object, *args, **named))

    environment = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[loopcontrols],
        autoescape=False,
        finalize=lambda value: value if isinstance(value, str) else _to_text(value),
    )
    own = {"tojson": _to_json, "replace": _replace, "join": _join, "indent": _indent}
    known = {**environment.filters, **own, "string": _to_text}
    environment.filters = {k: _count_results(v) for k, v in known.items() if k in _FILTERS}
    environment.globals |= {"raise_exception": _raise_exception, "strftime_now": _format_time}
    for name in ("lipsum", "cycler", "joiner"):
        environment.globals.pop(name, None)
    return environment
