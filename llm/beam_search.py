"""Beam search: the likeliest of several texts that grow side by side.

The score of a text is the sum of its tokens' log-probabilities by the number of its tokens, the
end token included (Hugging Face's length_penalty of 1, early_stopping False).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.lazy_dataclass import dataclass
from .decoder import TokenCache
from .generation import Clock, TextRow, TextSettings
from .result import Generation
from .sampling import GenerationOptions, find_top, log_softmax


@dataclass(frozen=True)
class Beam:
    """Tokens generated so far and the sum of their log-probabilities."""

    tokens: tuple[int, ...] = ()
    total: float = 0.0

    @property
    def score(self) -> float:
        """The mean log-probability of a token."""
        return self.total / max(len(self.tokens), 1)


def search_beams(
    cache: TokenCache, settings: TextSettings, prompt: Sequence[int], options: GenerationOptions
) -> Generation:
    """The best of `options.num_beams` beams. Stop strings cut the text that was found.

    UsageError for a prompt that does not fit the context.
    """
    settings.require_room(prompt)
    width, clock = options.num_beams, Clock()
    limit = min(options.max_tokens, settings.context_length - len(prompt))
    clock.begin()
    logits = cache.read(np.array([prompt], np.int64))[:, -1]
    beams, done = [Beam()], list[Beam]()
    for step in range(limit):
        if step:
            clock.begin()
            logits = cache.read(np.array([[b.tokens[-1]] for b in beams], np.int64))[:, -1]
        beams, rows = _extend_beams(beams, logits, prompt, settings, options, done)
        clock.count_step(1) if step else clock.count_prefill()
        if not beams or _is_finished(beams, done, width):
            break
        cache.select(rows)
    best = max([*done, *beams], key=lambda beam: beam.score)
    row = TextRow(settings, GenerationOptions(max_tokens=limit, stop=options.stop,
                                              ignore_eos=options.ignore_eos), prompt)  # fmt: skip
    for token in best.tokens:
        if row.finish_reason is None:
            row.add(token)
    return row.finish(clock.make_stats(settings, [prompt], len(row.tokens), cache.nbytes))


def _extend_beams(
    beams: Sequence[Beam],
    logits: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    prompt: Sequence[int],
    settings: TextSettings,
    options: GenerationOptions,
    done: list[Beam],
) -> tuple[list[Beam], list[int]]:
    """The beams one token later and the row that each of them continues. Beams that end are added
    to `done`, of which the best `num_beams` stay."""
    from .sampling import Sampler

    width = options.num_beams
    scores = np.stack(
        [
            log_softmax(Sampler(options, (*prompt, *beam.tokens)).penalize(row)) + beam.total
            for beam, row in zip(beams, logits, strict=True)
        ]
    )
    vocabulary = scores.shape[1]
    grown, rows = list[Beam](), list[int]()
    for rank, at in enumerate(find_top(scores.reshape(-1), 2 * width)):
        row, token = divmod(int(at), vocabulary)
        beam = Beam((*beams[row].tokens, token), float(scores[row, token]))
        if token in settings.end_tokens and not options.ignore_eos:
            if rank < width:
                done.append(beam)
        elif len(grown) < width:
            grown.append(beam)
            rows.append(row)
    done.sort(key=lambda beam: beam.score, reverse=True)
    del done[width:]
    return grown, rows


def _is_finished(beams: Sequence[Beam], done: Sequence[Beam], width: int) -> bool:
    """Whether no beam that grows is better than the worst that has ended."""
    return len(done) >= width and beams[0].score <= done[-1].score
