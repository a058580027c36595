"""Generation as plain loops that recompute everything: what irc.LLM is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.llm import LanguageModel
from irc_compiler.llm.llm import LLM

from .tiny_decoder import EOS, decoder_model, tiny_language_model


@cache
def tiny_llm(threads: int = 1, chunk: int = 512, context_length: int = 128) -> LLM:
    """A compiled tiny model; each form is compiled once."""
    model: LanguageModel = tiny_language_model()
    return LLM(model, num_threads=threads, chunk=chunk, context_length=context_length)


@cache
def _net() -> Any:
    return irc.compile_model(decoder_model(), num_threads=1)


def all_logits(tokens: Sequence[int]) -> np.ndarray[Any, Any]:
    """f32 [tokens, V], without a cache."""
    count = len(tokens)
    return _net()(
        input_ids=np.array([tokens], np.int64),
        attention_mask=np.ones((1, count), np.int64),
        position_ids=np.arange(count)[None],
        beam_idx=np.zeros(1, np.int32),
    )["logits"][0]


def greedy(prompt: Sequence[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        token = int(all_logits(tokens)[-1].argmax())
        if token == EOS:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def log_probabilities(tokens: Sequence[int]) -> np.ndarray[Any, Any]:
    """f64 [V] behind the last token."""
    row = all_logits(tokens)[-1].astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def beam_search(prompt: Sequence[int], width: int, count: int) -> list[int]:
    """Beams as lists, every score recomputed from the whole text."""
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    done: list[tuple[float, list[int]]] = []
    for _ in range(count):
        candidates = []
        for tokens, total in beams:
            row = log_probabilities([*prompt, *tokens])
            candidates += [(total + row[t], [*tokens, t]) for t in range(len(row))]
        candidates.sort(key=lambda c: -c[0])
        beams = []
        for rank, (total, tokens) in enumerate(candidates[: 2 * width]):
            if tokens[-1] == EOS:
                if rank < width:
                    done.append((total / len(tokens), tokens[:-1]))
            elif len(beams) < width:
                beams.append((tokens, total))
        done = sorted(done, key=lambda d: -d[0])[:width]
        if len(done) == width and beams[0][1] / len(beams[0][0]) <= done[-1][0]:
            break
    done += [(total / len(tokens), tokens) for tokens, total in beams]
    return max(done, key=lambda d: d[0])[1]
