"""Chat templates: Jinja templates of a model's file, rendered in a sandbox.

A template is an untrusted program of a file. It reaches no attribute that begins with an
underscore and changes nothing (jinja2's immutable sandbox), it calls only the filters and methods
of strings and containers that templates of models use, and it ends: what it runs is counted line
by line, and so is the text that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..ir.errors import ExecutionError, ModelFormatError

if TYPE_CHECKING:
    import jinja2

MAX_TEMPLATE_CHARACTERS = 1 << 20


class ChatTemplate:
    """tokens: texts that templates read (`bos_token`, `eos_token`). ModelFormatError for a template
    that is not Jinja: at once, or where it `was_checked` before, when it is first rendered (jinja2
    takes as long to import as the rest of a small model to load)."""

    def __init__(
        self, source: str, tokens: Mapping[str, str] | None = None, *, was_checked: bool = False
    ) -> None:
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise ModelFormatError(
                "the chat template is too long",
                got=f"{len(source)} characters",
                expected=f"at most {MAX_TEMPLATE_CHARACTERS}",
            )
        self.source, self.tokens = source, dict(tokens or {})
        if not was_checked:
            _ = self._template

    @cached_property
    def _template(self) -> jinja2.Template:
        import jinja2

        from .template_sandbox import Sandbox, TemplateLimitError

        try:
            return Sandbox().from_string(self.source)
        except (TemplateLimitError, jinja2.TemplateError, ArithmeticError, MemoryError,
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

        from .template_sandbox import TemplateLimitError, run_limited

        template = self._template

        given: dict[str, Any] = {
            "tools": None,
            **self.tokens,
            **variables,
            "messages": [dict(m) for m in messages],
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return run_limited(lambda: template.generate(**given))
        except TemplateLimitError as error:
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
