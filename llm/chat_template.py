"""Chat templates: Jinja templates of a model's file, rendered in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ChatTemplate:
    """tokens: texts that templates read (`bos_token`, `eos_token`)."""

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None) -> None:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self.source, self._tokens = source, dict(tokens or {})
        self._template = environment.from_string(source)

    def render(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """The prompt of a conversation: messages have a `role` and a `content`."""
        return self._template.render(
            messages=list(messages), add_generation_prompt=add_generation_prompt, **self._tokens
        )
