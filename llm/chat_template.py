"""Chat templates: Jinja templates of a model's file, rendered in a sandbox.

A template is a program of a file that nobody checked. It reaches no attribute that begins with an
underscore and changes nothing (jinja2's immutable sandbox), it calls only the filters and methods
of strings and containers that templates of models use, and it ends: what it runs is counted line
by line, and so is the text that it makes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..ir.errors import ExecutionError, ModelFormatError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEMPLATE_CHARACTERS = 1 << 20
# What one rendering may run and make.
MAX_LINES = 2_000_000
MAX_CHARACTERS = 32 << 20

_FILTERS = frozenset(
    "abs capitalize count d default dictsort e escape first float groupby indent int items join"
    " last length list lower map max min reject rejectattr replace reverse round safe select"
    " selectattr slice sort string sum title tojson trim unique upper".split()
)
_METHODS = frozenset(
    "capitalize count endswith find format get index isalpha isdigit items join keys lower lstrip"
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
        except (jinja2.TemplateError, RecursionError, SyntaxError, ValueError) as error:
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


def _run_limited(generate: Callable[[], Iterable[str]]) -> str:
    """The text of a template, whose lines are counted by a trace function of this thread."""
    lines = 0

    def count_line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += 1
        if lines > MAX_LINES:
            raise _TemplateLimitError(f"more than {MAX_LINES} lines run")
        return count_line

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return count_line(frame, event, argument)

    before = sys.gettrace()
    parts: list[str] = []
    size = 0
    sys.settrace(enter)
    try:
        for part in generate():
            size += len(part)
            if size > MAX_CHARACTERS:
                raise _TemplateLimitError(f"more than {MAX_CHARACTERS} characters made")
            parts.append(part)
    finally:
        sys.settrace(before)
    return "".join(parts)


def _limit(value: Any) -> Any:
    """A value that a template made, unless it is too large."""
    size = len(value) if isinstance(value, str | bytes | list | tuple) else 0
    if isinstance(value, int):
        size = value.bit_length()
    if size > MAX_CHARACTERS:
        raise _TemplateLimitError(f"a value of {size} characters")
    return value


def _size(value: Any) -> int:
    """How many characters, items or bits a value has."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, str | bytes | list | tuple) else 1


def _check_product(a: int, b: int) -> None:
    if a * b > MAX_CHARACTERS:
        raise _TemplateLimitError(f"a value of {a * b} characters")


def _raise_exception(message: Any) -> None:
    import jinja2

    raise jinja2.TemplateError(str(message)[:400])


def _format_time(pattern: Any) -> str:
    import datetime

    return datetime.datetime.now().strftime(str(pattern)[:100])


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """As transformers renders it: without escapes for HTML."""
    depth = None if indent is None else min(int(indent), 16)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=depth)


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    """str.replace, whose result is bounded before it is made."""
    text, old, new = str(text), str(old), str(new)
    found = text.count(old)
    _check_product(found if count is None else min(found, max(int(count), 0)), len(new))
    return text.replace(old, new, -1 if count is None else int(count))


def _join(parts: Iterable[Any], between: Any = "", attribute: str | None = None) -> str:
    """The texts of the parts, with a text between them."""
    texts: list[str] = []
    size = 0
    for part in parts:
        if attribute is not None:
            part = part[attribute] if isinstance(part, Mapping) else ""
        text = str(part)
        size += len(text) + len(str(between))
        if size > MAX_CHARACTERS:
            raise _TemplateLimitError(f"a value of more than {MAX_CHARACTERS} characters")
        texts.append(text)
    return str(between).join(texts)


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Lines behind as many spaces, or behind a text."""
    lead = width if isinstance(width, str) else " " * min(max(int(width), 0), 1000)
    lines = str(text).splitlines() or [""]
    _check_product(len(lines), len(lead) + 1)
    rest = [line if not line and not blank else lead + line for line in lines[1:]]
    return "\n".join([lead + lines[0] if first else lines[0], *rest])


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

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "*" and not (isinstance(left, float) or isinstance(right, float)):
                both = isinstance(left, int) and isinstance(right, int)
                sizes = (_size(left), _size(right)) if both else (
                    left if isinstance(left, int) else _size(left),
                    right if isinstance(right, int) else _size(right),
                )  # fmt: skip
                _check_product(*sizes)
            if operator == "**":
                _check_product(_size(left), abs(right) if isinstance(right, int) else 1)
            if operator == "%" and isinstance(left, str):
                raise SecurityError("% on a text is not allowed in chat templates")
            return _limit(super().call_binop(context, operator, left, right))

        def call(__self, context: Any, __object: Any, *args: Any, **named: Any) -> Any:  # noqa: N805
            owner = getattr(__object, "__self__", None)
            if isinstance(owner, str | bytes | dict | list | tuple):
                name = __object.__name__
                if name not in _METHODS:
                    raise SecurityError(f"method {name!r} is not allowed in chat templates")
                if name == "format":
                    raise SecurityError("format is not allowed in chat templates")
                if name == "replace":
                    return _replace(owner, *args, **named)
                if name == "join":
                    return _join(args[0], owner)
            return _limit(super().call(context, __object, *args, **named))

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
    )
    allowed = {k: v for k, v in environment.filters.items() if k in _FILTERS}
    allowed |= {"tojson": _to_json, "replace": _replace, "join": _join, "indent": _indent}
    environment.filters = allowed
    environment.globals |= {"raise_exception": _raise_exception, "strftime_now": _format_time}
    for name in ("lipsum", "cycler", "joiner"):
        environment.globals.pop(name, None)
    return environment
