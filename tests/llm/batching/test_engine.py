"""Continuous batching returns the tokens of `llm.generate`; queues, cancellation and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from irc_compiler.ir.errors import ExecutionError, UsageError
from irc_compiler.llm.batching.engine import GenerationEngine
from irc_compiler.llm.batching.generation_task import (
    GenerationTask,
    QueueFullError,
    RequestCancelledError,
    RequestExpiredError,
)
from irc_compiler.llm.batching.row_pool import RowPool
from irc_compiler.llm.decoder import Decoder
from support.models.reference_generation import tiny_llm
from support.waiting import hold_steps, wait_until

PROMPTS = ["hello world", "a", "once upon a time there was", "zz top " * 20, "b" * 126, "c" * 300]
LLM = tiny_llm(context_length=1024)


@pytest.fixture
def engine() -> Iterator[GenerationEngine]:
    with LLM.engine(max_rows=4, prefill_chunk=64) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"temperature": 0.9, "seed": 4, "top_k": 20}])
def test_batched_texts_equal_generate(
    engine: GenerationEngine, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [
        LLM.generate(p, max_tokens=20 + n, logprobs=2, ignore_eos=n % 2 == 0, **options)
        for n, p in enumerate(PROMPTS)
    ]
    tasks: list[GenerationTask] = []
    step = RowPool.step

    def is_next_due() -> bool:
        """Whether a prompt is left and the one before it has more tokens than its position."""
        if not 0 < len(tasks) < len(PROMPTS):
            return not tasks
        return tasks[-1].is_done or len(tasks[-1].row.tokens) > len(tasks)

    def wait_and_step(self: RowPool, tokens: Any) -> Any:
        wait_until(lambda: not is_next_due())
        return step(self, tokens)

    monkeypatch.setattr(RowPool, "step", wait_and_step)
    for n, prompt in enumerate(PROMPTS):
        wait_until(is_next_due)  # each joins at another step of the one before it
        given = {"max_tokens": 20 + n, "logprobs": 2, "ignore_eos": n % 2 == 0}
        tasks.append(engine.submit(prompt, **given, **options))
    found = [task.result(60) for task in tasks]
    assert [g.tokens for g in found] == [g.tokens for g in wanted]
    assert [g.text for g in found] == [g.text for g in wanted]
    assert [g.finish_reason for g in found] == [g.finish_reason for g in wanted]
    assert [g.logprobs for g in found] == [g.logprobs for g in wanted]
    wait_until(lambda: engine.stats().running == 0)
    stats = engine.stats()
    assert stats.step_rows > stats.steps > 0 and stats.waiting == 0


def test_requests_of_many_threads(engine: GenerationEngine) -> None:
    wanted = {p: LLM.generate(p, max_tokens=12).tokens for p in PROMPTS}
    found: list[tuple[str, Any]] = []

    def ask(prompt: str) -> None:
        found.append((prompt, engine.generate(prompt, max_tokens=12).tokens))

    threads = [threading.Thread(target=ask, args=(p,)) for p in PROMPTS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 12 and all(tokens == wanted[prompt] for prompt, tokens in found)


def test_pieces_stream_in_threads_and_in_event_loops(engine: GenerationEngine) -> None:
    wanted = LLM.generate(PROMPTS[0], max_tokens=20, ignore_eos=True)
    task = engine.submit(PROMPTS[0], max_tokens=20, ignore_eos=True)
    assert "".join(map(str, task)) == wanted.text
    assert "".join(map(str, task)) == wanted.text, "a second loop sees all pieces, too"

    async def ask() -> tuple[list[str], Any]:
        task = engine.submit(PROMPTS[0], max_tokens=20, ignore_eos=True)
        other = engine.submit(PROMPTS[1], max_tokens=20, ignore_eos=True)
        return [str(piece) async for piece in task], await other

    pieces, other = asyncio.run(ask())
    assert "".join(pieces) == wanted.text and len(pieces) == 20
    assert other.tokens == LLM.generate(PROMPTS[1], max_tokens=20, ignore_eos=True).tokens
    assert other.stats.prompt_tokens == 1 and other.stats.decode_steps == 19


def test_messages_and_tokens_are_prompts(engine: GenerationEngine) -> None:
    messages = [{"role": "user", "content": "hello"}]
    assert engine.generate(messages, max_tokens=9).tokens == LLM.chat(messages, max_tokens=9).tokens
    tokens = LLM.encode("hello")
    assert (
        engine.generate(tokens, max_tokens=9).tokens == LLM.generate("hello", max_tokens=9).tokens
    )


@pytest.mark.slow
def test_the_queue_is_bounded_and_slots_become_free(monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold_steps(monkeypatch)
    with LLM.engine(max_rows=1, queue_size=2) as engine:
        first = engine.submit("a", max_tokens=500, ignore_eos=True)
        wait_until(lambda: engine.stats().running == 1)
        waiting = [engine.submit("b", max_tokens=3, ignore_eos=True) for _ in range(2)]
        with pytest.raises(QueueFullError) as error:
            engine.submit("c")
        assert error.value.got == "2 requests are waiting"
        waiting[0].cancel()
        first.cancel()
        go.set()
        for task in (first, waiting[0]):
            with pytest.raises(RequestCancelledError, match="was cancelled"):
                task.result(60)
        assert waiting[1].result(60).tokens == LLM.generate("b", max_tokens=3).tokens
        wanted = LLM.generate("a", max_tokens=500, ignore_eos=True).tokens
        begun = first.partial().tokens
        assert 0 < len(begun) < 500 and begun == wanted[: len(begun)]
        wait_until(lambda: engine.stats().running == 0)
        stats = engine.stats()
        assert (stats.finished, stats.failed, stats.waiting) == (1, 2, 0)


def test_deadlines_hold_for_running_and_for_waiting_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go = hold_steps(monkeypatch)
    with LLM.engine(max_rows=1) as engine:
        tasks = [
            engine.submit("a", max_tokens=900, timeout=0.05, ignore_eos=True) for _ in range(2)
        ]
        other = engine.submit("b", max_tokens=4)
        wait_until(lambda: engine.stats().running == 1)
        threading.Timer(0.1, go.set).start()
        for task in tasks:
            with pytest.raises(RequestExpiredError, match="deadline passed"):
                task.result(60)
        assert other.result(60).tokens == LLM.generate("b", max_tokens=4).tokens


def test_a_loop_that_is_left_frees_its_row(engine: GenerationEngine) -> None:
    for _ in engine.submit("a", max_tokens=900, ignore_eos=True):
        break
    wait_until(lambda: engine.stats().failed == 1)

    async def leave() -> None:
        task = engine.submit("a", max_tokens=900, ignore_eos=True)

        async def read() -> None:
            async for _ in task:
                pass

        reader = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    asyncio.run(leave())
    wait_until(lambda: engine.stats().failed == 2)
    assert engine.stats().running == engine.stats().waiting == 0


def test_a_failed_run_fails_its_requests_and_no_later_one(
    engine: GenerationEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, broken = Decoder.run, [True]

    def fails(self: Decoder, request: Any, ids: Any, *rest: Any, **named: Any) -> Any:
        if broken[0] and ids.shape[1] == 1:
            raise MemoryError("no room")
        return run(self, request, ids, *rest, **named)

    monkeypatch.setattr(Decoder, "run", fails)
    task = engine.submit("hello", max_tokens=9)
    with pytest.raises(ExecutionError, match="could not run"):
        task.result(60)
    broken[0] = False
    wanted = LLM.generate("hello", max_tokens=9).tokens
    assert engine.generate("hello", max_tokens=9).tokens == wanted


def test_a_logit_that_is_not_a_number_fails_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    step = GenerationTask.advance

    def advance(self: GenerationTask, logits: Any) -> bool:
        if self.prompt == [0] and len(self.row.tokens) == 3:
            raise ValueError("broken")
        return step(self, logits)

    monkeypatch.setattr(GenerationTask, "advance", advance)
    with LLM.engine() as engine:
        bad = engine.submit("a", max_tokens=20, ignore_eos=True)
        good = engine.submit("hello", max_tokens=20, ignore_eos=True)
        with pytest.raises(ExecutionError, match="could not run"):
            bad.result(60)
        wanted = LLM.generate("hello", max_tokens=20, ignore_eos=True).tokens
        assert good.result(60).tokens == wanted


def test_closing_drains_or_cancels() -> None:
    engine = LLM.engine(max_rows=2)
    tasks = [engine.submit("hello", max_tokens=30, ignore_eos=True) for _ in range(4)]
    engine.close(drain=True)
    wanted = LLM.generate("hello", max_tokens=30, ignore_eos=True).tokens
    assert [task.result(1).tokens for task in tasks] == [wanted] * 4
    with pytest.raises(RequestCancelledError, match="engine is closed"):
        engine.submit("a")
    engine = LLM.engine(max_rows=1)
    tasks = [engine.submit("hello", max_tokens=900, ignore_eos=True) for _ in range(3)]
    engine.close()
    for task in tasks:
        with pytest.raises(RequestCancelledError, match="was closed"):
            task.result(1)


def test_a_model_whose_rows_take_no_gaps_runs_them_one_by_one() -> None:
    made = GenerationEngine(
        LLM.decoder, LLM.settings, LLM.encode,
        takes_gaps=False, max_rows=4, queue_size=8, prefill_chunk=64,
    )  # fmt: skip
    with made as engine:
        tasks = [engine.submit(p, max_tokens=12) for p in PROMPTS[:3]]
        wanted = [LLM.generate(p, max_tokens=12).tokens for p in PROMPTS[:3]]
        assert [task.result(60).tokens for task in tasks] == wanted


@pytest.mark.parametrize(
    ("prompt", "options", "what"),
    [
        ("a", {"num_beams": 2}, "an engine has no beams"),
        ("a", {"timeout": 0}, "timeout is out of range"),
        ("", {}, "the prompt has no tokens"),
        ("a" * 2000, {}, "longer than the model's context"),
        ([0, 99], {}, "no such token"),
        ([0, True], {}, "no such token"),
        ("a", {"max_tokens": 0}, "max_tokens is out of range"),
    ],
)
def test_bad_requests_are_refused(
    engine: GenerationEngine, prompt: Any, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        engine.submit(prompt, **options)


@pytest.mark.parametrize("options", [{"max_rows": 0}, {"queue_size": -1}, {"prefill_chunk": 2.5}])
def test_bad_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        LLM.engine(**options)


@pytest.mark.slow
@pytest.mark.parametrize("takes_gaps", [True, False])
def test_equal_beginnings_are_read_once(takes_gaps: bool) -> None:
    made = GenerationEngine(
        LLM.decoder, LLM.settings, LLM.encode, takes_gaps=takes_gaps, max_rows=4, queue_size=8,
        prefill_chunk=64, prefix_cache_bytes=1 << 24,
    )  # fmt: skip
    system = "you are a careful assistant who answers in one short sentence, always. " * 2
    options = {"max_tokens": 70, "ignore_eos": True}
    with made as engine:
        first = engine.generate(system + "one", **options)
        assert first.stats.cached_tokens == 0
        wanted = LLM.generate(system + "two", **options)
        found = engine.generate(system + "two", **options)
        assert found.tokens == wanted.tokens
        assert found.stats.cached_tokens == len(system) // 32 * 32
        # The next turn of a conversation: prompt, text, and more.
        turn = [*LLM.encode(system + "one"), *first.tokens, 3, 4, 5]
        again = engine.submit(turn, **options)
        fresh = LLM.engine(prefix_cache_bytes=0)
        assert again.result(60).tokens == fresh.generate(turn, **options).tokens
        fresh.close()
        assert again.result().stats.cached_tokens == (len(turn) - 4) // 32 * 32
        stats = engine.stats()
        assert stats.cached_tokens == found.stats.cached_tokens + (len(turn) - 4) // 32 * 32
        assert 0 < stats.prefix_bytes <= 1 << 24


def test_bad_sizes_of_the_prefix_cache_are_refused() -> None:
    with pytest.raises(UsageError, match="prefix_cache_bytes is out of range"):
        LLM.engine(prefix_cache_bytes=-1)
