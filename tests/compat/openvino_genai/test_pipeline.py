"""LLMPipeline under the names of OpenVINO GenAI, with a tiny model in the place of a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import irc_compiler.compat.openvino_genai as ov_genai
import numpy as np
import pytest
from irc_compiler.compat.openvino_genai.settings import make_settings
from irc_compiler.compat.warn import forget_warnings
from irc_compiler.ir.errors import UsageError
from support.models.reference_generation import tiny_llm
from support.models.tiny_decoder import tiny_language_model

LONG = {"max_new_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def shared_pipe() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "irc_compiler.llm.llm.read_language_model",
            lambda path, **options: tiny_language_model(),
        )
        return ov_genai.LLMPipeline("model", "CPU", INFERENCE_NUM_THREADS=1)


@pytest.fixture
def pipe(shared_pipe: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The pipeline, where other models are read as the tiny one, too."""
    monkeypatch.setattr(
        "irc_compiler.llm.llm.read_language_model", lambda path, **options: tiny_language_model()
    )
    default = shared_pipe.get_generation_config()
    yield shared_pipe
    shared_pipe.set_generation_config(default)


def ask(text: str, **options: Any) -> Any:
    return tiny_llm().chat([{"role": "user", "content": text}], ignore_eos=True, **options)


def test_a_text_is_a_message_and_gives_a_text(pipe: Any) -> None:
    assert pipe.generate("hello", **LONG) == ask("hello", max_tokens=12).text
    assert pipe("hello", **LONG) == pipe.generate("hello", ov_genai.GenerationConfig(**LONG))
    plain = tiny_llm().generate("hello", max_tokens=12, ignore_eos=True).text
    assert pipe.generate("hello", apply_chat_template=False, **LONG) == plain
    found = pipe.generate("a", max_new_tokens=9, ignore_eos=True, num_beams=3)
    assert found == ask("a", max_tokens=9, num_beams=3).text
    drawn = pipe.generate("a", do_sample=True, temperature=0.8, top_k=5, rng_seed=3, **LONG)
    assert drawn == ask("a", max_tokens=12, temperature=0.8, top_k=5, seed=3).text


def test_lists_give_results_with_times(pipe: Any) -> None:
    found = pipe.generate(["hello", "a"], **LONG)
    assert found.texts == [ask(t, max_tokens=12).text for t in ("hello", "a")]
    metrics = found.perf_metrics
    assert str(found) == "\n".join(found.texts) and metrics.get_num_generated_tokens() == 24
    assert metrics.get_num_input_tokens() == sum(
        len(tiny_llm().encode([{"role": "user", "content": t}])) for t in ("hello", "a")
    )
    assert metrics.get_ttft().mean > 0 and metrics.get_throughput().mean > 0
    assert metrics.get_generate_duration().mean >= metrics.get_ttft().mean
    messages = [{"role": "user", "content": "hello"}]
    assert pipe.generate(messages, **LONG).texts == found.texts[:1]


def test_tokens_go_in_and_out(pipe: Any) -> None:
    tokenizer = pipe.get_tokenizer()
    inputs = tokenizer.encode("hello")
    assert inputs.input_ids.data.shape == (1, 5) and inputs.attention_mask.data.min() == 1
    plain = tiny_llm().generate("hello", max_tokens=12, ignore_eos=True).text
    assert pipe.generate(inputs, **LONG).texts == [plain]
    both = tokenizer.encode(["hello", "a"])
    np.testing.assert_array_equal(both.attention_mask.data, [[1] * 5, [0, 0, 0, 0, 1]])
    assert tokenizer.decode(both.input_ids.data[0]) == "hello"
    assert tokenizer.decode([[7], [0, 1]]) == ["h", "ab"]
    text = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], True)
    assert text == "user a.assistant " and tokenizer.get_eos_token_id() == 31
    with pytest.raises(UsageError, match="several rows"):
        pipe.generate(both, **LONG)


def test_streamers_get_texts_and_may_stop(pipe: Any) -> None:
    whole = pipe.generate("hello", **LONG)
    texts: list[str] = []
    assert pipe.generate("hello", streamer=texts.append, **LONG) == whole == "".join(texts)
    texts.clear()

    def stop(text: str) -> ov_genai.StreamingStatus:
        texts.append(text)
        return ov_genai.StreamingStatus[("RUNNING", "STOP")[len(texts) == 3]]

    assert pipe.generate("hello", streamer=stop, **LONG) == whole[:3] == "".join(texts)
    assert pipe.generate("hello", streamer=lambda text: True, **LONG) == whole[:1]
    texts.clear()
    decoded = ov_genai.TextStreamer(pipe.get_tokenizer(), lambda text: texts.append(text))
    assert pipe.generate("hello", streamer=decoded, **LONG) == whole == "".join(texts)

    class Tokens(ov_genai.StreamerBase):
        found: tuple[int, ...] = ()
        ended = 0

        def write(self, token: Any) -> Any:
            self.found = (*self.found, token)
            return ov_genai.StreamingStatus.RUNNING

        def end(self) -> None:
            self.ended += 1

    tokens = Tokens()
    pipe.generate("hello", ov_genai.GenerationConfig(**LONG), tokens)
    assert tokens.found == ask("hello", max_tokens=12).tokens and tokens.ended == 1


def test_a_chat_keeps_its_turns(pipe: Any) -> None:
    short = {"max_new_tokens": 4, "ignore_eos": True}
    session = tiny_llm().session("be brief")
    pipe.start_chat("be brief")
    for text in ("hello", "now"):
        wanted = session.send(text, max_tokens=4, ignore_eos=True)
        assert pipe.generate(text, **short) == wanted.text
    status = ov_genai.StreamingStatus
    first = pipe.generate("b", streamer=lambda text: status.CANCEL, **short)
    wanted = session.send("b", max_tokens=4, ignore_eos=True)
    assert first == wanted.text[:1]
    assert pipe.generate("b", **short) == wanted.text, "a cancelled turn is forgotten"
    stopped = pipe.generate("c", streamer=lambda text: status.STOP, **short)
    session.messages += [{"role": "user", "content": "c"}]
    session.messages += [{"role": "assistant", "content": stopped}]
    wanted = session.send("d", max_tokens=4, ignore_eos=True)
    assert len(stopped) == 1 and pipe.generate("d", **short) == wanted.text
    pipe.finish_chat()
    assert pipe.generate("hello", **short) == ask("hello", max_tokens=4).text


@pytest.mark.slow
def test_tokens_are_guessed(pipe: Any) -> None:
    draft = ov_genai.draft_model("model", "CPU", INFERENCE_NUM_THREADS=1)
    drafted = ov_genai.LLMPipeline("model", "CPU", draft_model=draft)
    looking = ov_genai.LLMPipeline("model", "CPU", {"prompt_lookup": True})
    wanted = pipe.generate("hello", **LONG)
    for each in (drafted, looking):
        assert each.generate("hello", num_assistant_tokens=3, **LONG) == wanted
        assert each.generate("hello", **LONG) == wanted
    assert pipe.generate("hello", num_assistant_tokens=3, **LONG) == wanted


@pytest.mark.slow
def test_properties_are_followed_or_warned_about(pipe: Any) -> None:
    found = ov_genai.LLMPipeline("model", "CPU", {"KV_CACHE_PRECISION": "f16"}, NUM_STREAMS=1)
    assert found.llm.settings.kv_cache == "f16"
    hints = {"INFERENCE_PRECISION_HINT": "bf16", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32"}
    settings = make_settings("CPU", hints)
    assert settings.llm == {"precision": "bf16", "activations": "int8"}
    tokenizer = pipe.get_tokenizer()
    assert ov_genai.LLMPipeline("model", tokenizer, "CPU").llm.settings.kv_cache == "f32"
    forget_warnings()
    with pytest.warns(UserWarning, match="KV_CACHE_PRECISION=u3 has no effect"):
        ov_genai.LLMPipeline("model", "CPU", KV_CACHE_PRECISION="u3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ov_genai.LLMPipeline("model", "AUTO:CPU", PERFORMANCE_HINT="LATENCY", LOG_LEVEL="NO")
    with pytest.raises(UsageError, match="irc compiles for the CPU"):
        ov_genai.LLMPipeline("model", "GPU")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"num_return_sequences": 2}, "irc does not have this option"),
        ({"presence_penalty": 0.5}, "irc does not have this option"),
        ({"echo": True}, "irc does not have this option"),
        ({"stop_token_ids": {3}}, "irc ends texts at the model's own end tokens"),
        ({"no_repeat_ngram_size": 2}, "irc has no such option"),
        ({"max_new_tokens": 0}, "max_tokens is out of range"),
        ({"num_beams": 2, "streamer": print}, "a beam search cannot be streamed"),
    ],
)
def test_what_irc_lacks_is_refused(pipe: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        pipe.generate("a", **options)


def test_a_config_is_the_default_of_a_pipeline(pipe: Any) -> None:
    config = pipe.get_generation_config()
    config.max_length = 30
    config.update_generation_config(ignore_eos=True)
    pipe.set_generation_config(config)
    prompt = tiny_llm().encode([{"role": "user", "content": "hello"}])
    assert len(pipe.generate("hello")) == 30 - len(prompt)
    assert config.is_greedy_decoding() and not config.is_beam_search()
    with pytest.raises(UsageError, match="one prompt"):
        pipe.generate(["a", "b"], streamer=print)


def test_the_nearest_name_is_in_the_message() -> None:
    with pytest.raises(AttributeError, match="LLMPipeline"):
        _ = ov_genai.LLMPipelin
