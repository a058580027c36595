"""What OpenVINO GenAI's pipelines return: texts, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...llm.result import Generation
from ..nearest import NamesNearest


@dataclass(frozen=True)
class MeanStdPair:
    """A mean, and a standard deviation where it is known."""

    mean: float
    std: float = 0.0


class PerfMetrics(NamesNearest):
    """Times in milliseconds of one call of `generate`."""

    def __init__(self, texts: Sequence[Generation], load_seconds: float) -> None:
        self._stats, self._load_seconds = [g.stats for g in texts], load_seconds

    def get_load_time(self) -> float:
        """Milliseconds that reading and compiling the model took."""
        return self._load_seconds * 1e3

    def get_num_input_tokens(self) -> int:
        """Tokens of the prompts."""
        return sum(s.prompt_tokens for s in self._stats)

    def get_num_generated_tokens(self) -> int:
        """Tokens of the texts."""
        return sum(s.generated_tokens for s in self._stats)

    def get_ttft(self) -> MeanStdPair:
        """Milliseconds to the first token."""
        return MeanStdPair(sum(s.prefill_seconds for s in self._stats) * 1e3 / len(self._stats))

    def get_tpot(self) -> MeanStdPair:
        """Milliseconds for each token behind the first."""
        steps = sum(s.decode_steps for s in self._stats)
        seconds = sum(s.decode_seconds for s in self._stats)
        return MeanStdPair(seconds * 1e3 / steps if steps else 0.0)

    def get_throughput(self) -> MeanStdPair:
        """Tokens per second behind the first."""
        each = self.get_tpot().mean
        return MeanStdPair(1e3 / each if each else 0.0)

    def get_generate_duration(self) -> MeanStdPair:
        """Milliseconds of the whole call."""
        return MeanStdPair(sum(s.prefill_seconds + s.decode_seconds for s in self._stats) * 1e3)


@dataclass(frozen=True)
class DecodedResults:
    """Texts in the order of the prompts."""

    texts: list[str]
    perf_metrics: PerfMetrics
    scores: list[float] = field(default_factory=list[float])

    def __str__(self) -> str:
        return "\n".join(self.texts)
