"""The tokenizer of OpenVINO GenAI's pipelines, on irc's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.errors import UsageError
from ...llm.chat_session import check_messages
from ...llm.llm import LLM
from ..nearest import NamesNearest
from ..openvino.tensors import Tensor


@dataclass(frozen=True)
class TokenizedInputs:
    """Tokens i64 [rows, columns], padded on the left, and 1 where there is a token."""

    input_ids: Tensor
    attention_mask: Tensor

    def row(self) -> list[int]:
        """The tokens of the only row."""
        ids, mask = self.input_ids.data, self.attention_mask.data
        if ids.ndim != 2 or len(ids) != 1:
            raise UsageError(
                "tokens of several rows", got=list(ids.shape), expected="one row: [1, columns]"
            )
        return [int(token) for token in ids[0][mask[0] != 0]]


class Tokenizer(NamesNearest):
    """Text to tokens and back; `llm` is the irc.LLM whose tokenizer it is."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def encode(
        self, prompt: str | Sequence[str], add_special_tokens: bool = True
    ) -> TokenizedInputs:
        """Tokens of a text, or of several."""
        texts = [prompt] if isinstance(prompt, str) else list(prompt)
        rows = [self.llm.tokenizer.encode(text, add_special_tokens) for text in texts]
        ids = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
        mask = np.zeros_like(ids)
        for n, row in enumerate(rows):
            ids[n, ids.shape[1] - len(row) :] = row
            mask[n, ids.shape[1] - len(row) :] = 1
        return TokenizedInputs(Tensor(ids), Tensor(mask))

    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> Any:
        """The text of tokens; a list of texts for several rows."""
        values = tokens.data if isinstance(tokens, Tensor) else tokens
        decode = self.llm.tokenizer.decode
        if len(values) and not np.isscalar(values[0]):
            return [decode([int(t) for t in row], skip_special_tokens) for row in values]
        return decode([int(t) for t in values], skip_special_tokens)

    def apply_chat_template(
        self, history: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """A conversation as the model's template writes it."""
        check_messages(history)
        template = self.llm.chat_template
        if template is None:
            raise UsageError(
                "the model has no chat template",
                where=self.llm.config.name,
                expected="a model that is trained for conversations",
            )
        return template.render(history, add_generation_prompt)

    def get_eos_token_id(self) -> int:
        """The first of the tokens that end a text; -1 for none."""
        return next(iter(self.llm.config.eos_token_ids), -1)

    def get_bos_token_id(self) -> int:
        """The token that begins a text; -1 for none."""
        found = self.llm.config.bos_token_id
        return -1 if found is None else found
