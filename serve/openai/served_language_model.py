"""A language model version: an engine with continuous batching answers OpenAI's requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...llm.batching.engine import GenerationEngine
from ...llm.batching.generation_task import GenerationTask
from ...llm.llm import LLM
from ...llm.sampling import GenerationOptions
from ...runtime.machine.cpus import usable_cores
from ..errors import ModelLoadError, RequestError, UnsupportedError
from ..model_config import ModelConfig
from ..repository import VersionFiles
from ..served_model import LoadedModel, ServedModel
from ..settings import Settings
from .errors import translate

DEFAULT_ROWS = 8
# More characters than this a token of the context are not even tokenized.
MAX_TOKEN_CHARACTERS = 256


@dataclass(frozen=True)
class LoadedLanguageModel(LoadedModel):
    """The result of loading, which any thread may do."""

    llm: LLM


def load_language_model(
    files: VersionFiles, config: ModelConfig, settings: Settings
) -> LoadedLanguageModel:
    """Read and compile one version. irc.Error or ModelLoadError with the reason."""
    start = time.perf_counter()
    for name in ("shapes", "precision", "instances"):
        if getattr(config, name):
            what = f"{name} does not apply to a language model"
            raise ModelLoadError(what, fix=f"remove {name} from config.json")
    workers = settings.group.count if settings.group else 1
    threads = config.threads or settings.threads or max(1, usable_cores() // workers)
    llm = LLM(files.path, num_threads=threads, max_memory=settings.max_memory)
    reason = "a language model batches its requests token by token"
    seconds = time.perf_counter() - start
    return LoadedLanguageModel(llm.decoder.net, {}, {}, None, reason, seconds, llm)


class EngineQueue:
    """What metrics and the status page read of a queue."""

    equality = None

    def __init__(self, engine: GenerationEngine) -> None:
        self._engine = engine

    @property
    def depth(self) -> int:
        """Requests that wait."""
        return self._engine.stats().waiting

    @property
    def running(self) -> int:
        """Requests that run."""
        return self._engine.stats().running


class ServedLanguageModel(ServedModel):
    """A loaded language model. Made on the event loop."""

    loaded: LoadedLanguageModel

    def _open(self, config: ModelConfig, settings: Settings) -> None:
        """An engine in place of a queue of tensors and of sequences."""
        self.llm, self.created = self.loaded.llm, int(time.time())
        self.instances, self.sequences = 1, None
        batching = config.batching_or(settings)
        rows = 1 if config.batching is False else DEFAULT_ROWS
        self.engine = self.llm.engine(
            max_rows=rows if batching is None else batching.max_size,
            queue_size=config.queue_size or settings.queue_size,
            on_step=self.statistics.record_execution,
        )
        self.queue: Any = EngineQueue(self.engine)
        self.embedding_lock = asyncio.Lock()  # one request for embeddings runs at a time

    @property
    def memory_bytes(self) -> int:
        """Weights, idle arenas, and keys and values."""
        return super().memory_bytes + self.engine.stats().cache_bytes

    def order_inputs(self, given: dict[str, Any]) -> list[Any]:
        """UnsupportedError: a language model takes no tensors."""
        raise UnsupportedError(
            f"model {self.name!r} is a language model", fix="use /v1/chat/completions"
        )

    def warm_up(self) -> None:
        """Generate two tokens, so that no client waits for what the first ones take."""
        tokens = [0]
        self.engine.submit(tokens, max_tokens=2, ignore_eos=True).result()

    async def submit(
        self, prompts: Sequence[Any], options: GenerationOptions
    ) -> list[GenerationTask]:
        """A task per prompt. OverloadError, or RequestError with what is wrong."""
        for prompt in prompts:
            self.require_short(prompt)

        def submit_all() -> list[GenerationTask]:
            tasks: list[GenerationTask] = []
            try:
                for prompt in prompts:
                    tasks.append(self.engine.submit(prompt, options))
            except BaseException:
                for task in tasks:
                    task.cancel()
                raise
            return tasks

        # Templates and tokenizers take their time on a long text.
        work = asyncio.ensure_future(asyncio.to_thread(submit_all))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_cancel_tasks)
            raise
        except Exception as error:
            raise translate(error, submitted=False) from error

    def require_short(self, prompt: Any) -> None:
        """RequestError for a text with more characters than any text that fits the context."""
        limit = self.llm.settings.context_length * MAX_TOKEN_CHARACTERS
        texts = [prompt] if isinstance(prompt, str) else prompt
        count = sum(len(t if isinstance(t, str) else t["content"]) for t in texts
                    if isinstance(t, str | dict))  # fmt: skip
        if count > limit:
            raise RequestError(
                "the prompt is longer than the model's context",
                got=f"{count} characters",
                expected=f"at most {self.llm.settings.context_length - 1} tokens",
            )

    async def retire(self) -> None:
        """Let the texts in progress end, then give the memory back."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            self.engine.close(drain=True)
            with suppress(RuntimeError):  # the loop was closed without waiting for us
                loop.call_soon_threadsafe(ended.set)

        # Not by asyncio's executor: the event loop's end would wait for it, past any limit.
        threading.Thread(target=close, name=f"serve-close-{self.name}", daemon=True).start()
        await ended.wait()
        self.net.close()


def _cancel_tasks(work: asyncio.Future[list[GenerationTask]]) -> None:
    if not work.cancelled() and work.exception() is None:
        for task in work.result():
            task.cancel()
