"""OpenAI's endpoints with OpenAI's client, against `irc.LLM` in this process."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from irc_compiler.llm.llm import LLM
from irc_compiler.serve.settings import Settings
from support.models.byte_decoder import save_byte_model
from support.serving import Server, affine, save_model, serving
from support.waiting import hold_steps, wait_until

openai = pytest.importorskip("openai", reason="not run: openai is not installed")
MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_byte_model(folder / "tiny" / "1")
    save_model(folder, "affine", affine())
    (folder / "narrow").mkdir()
    (folder / "narrow" / "config.json").write_text('{"batching": false, "queue_size": 1}')
    save_byte_model(folder / "narrow" / "1", context_length=100_000)
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    with serving(models, Settings(token="secret")) as running:
        yield running


@pytest.fixture(scope="module")
def llm(models: Path) -> LLM:
    return LLM(models / "tiny" / "1", num_threads=1)


@pytest.fixture
def client(server: Server) -> Any:
    return openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="secret", max_retries=0)


@pytest.mark.slow
def test_models_are_listed(client: Any) -> None:
    assert [m.id for m in client.models.list()] == ["narrow", "tiny"]
    assert client.models.retrieve("tiny").owned_by == "irc"


def test_a_chat_is_answered_as_llm_answers_it(client: Any, llm: LLM) -> None:
    wanted = llm.chat(MESSAGES, max_tokens=20, logprobs=2)
    found = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=20, temperature=0, logprobs=True, top_logprobs=2
    )
    choice = found.choices[0]
    assert (choice.message.content, choice.finish_reason) == (wanted.text, wanted.finish_reason)
    assert choice.message.role == "assistant" and found.object == "chat.completion"
    assert found.usage.prompt_tokens == len(llm.encode(MESSAGES))
    assert found.usage.completion_tokens == len(wanted.tokens) == len(choice.logprobs.content)
    for entry, given in zip(choice.logprobs.content, wanted.logprobs or (), strict=True):
        assert entry.logprob == pytest.approx(given.logprob, abs=1e-4)
        assert [t.logprob for t in entry.top_logprobs] == pytest.approx(
            [p for _, p in given.top], abs=1e-4
        )


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 5, "top_p": 0.9}])
def test_a_streamed_chat_adds_up_to_the_whole_one(client: Any, options: dict[str, Any]) -> None:
    given = {"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 20, **options}
    whole = client.chat.completions.create(**given)
    chunks = list(
        client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True})
    )
    texts = [c.choices[0].delta.content or "" for c in chunks[:-1]]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage


def test_texts_are_completed(client: Any, llm: LLM) -> None:
    prompts = ["once upon", "a"]
    wanted = [llm.generate(p, max_tokens=12, logprobs=1) for p in prompts]
    given = {"model": "tiny", "max_tokens": 12, "temperature": 0}
    found = client.completions.create(prompt=prompts, logprobs=1, **given)
    assert [c.text for c in found.choices] == [g.text for g in wanted]
    assert found.choices[0].logprobs.token_logprobs == pytest.approx(
        [e.logprob for e in wanted[0].logprobs or ()], abs=1e-4
    )
    assert found.usage.total_tokens == sum(g.stats.prompt_tokens + len(g.tokens) for g in wanted)
    tokens = client.completions.create(prompt=llm.encode("once upon"), **given)
    assert tokens.choices[0].text == wanted[0].text
    pieces: dict[int, str] = {0: "", 1: ""}
    for chunk in client.completions.create(prompt=prompts, stream=True, **given):
        for choice in chunk.choices:
            pieces[choice.index] += choice.text
    assert pieces == {n: g.text for n, g in enumerate(wanted)}
    stop = wanted[0].text[3:5]
    cut = client.completions.create(prompt=prompts[0], stop=[stop], **given)
    assert cut.choices[0].text == wanted[0].text[: wanted[0].text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_text_fulfils_a_schema(client: Any) -> None:
    pytest.importorskip("llguidance", reason="not run: llguidance is not installed")
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["cat", "dog"]}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}}
    for stream in (False, True):
        found = client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=60, response_format=form, stream=stream
        )
        text = (
            "".join(c.choices[0].delta.content or "" for c in found)
            if stream
            else found.choices[0].message.content
        )
        assert json.loads(text)["kind"] in ("cat", "dog")


def test_embeddings_are_those_of_llm(client: Any, llm: LLM) -> None:
    texts = ["a text", "another one"]
    for form in ("float", "base64"):
        found = client.embeddings.create(model="tiny", input=texts, encoding_format=form)
        for row, text in zip(found.data, texts, strict=True):
            value = row.embedding
            if isinstance(value, str):
                import base64

                value = np.frombuffer(base64.b64decode(value), "<f4")
            np.testing.assert_allclose(value, llm.embed(text), atol=1e-6)
    assert client.embeddings.create(model="tiny", input="abc").usage.prompt_tokens == 3


@pytest.mark.slow
def test_clients_of_an_event_loop_share_a_batch(server: Server, llm: LLM) -> None:
    prompts = [f"text number {n}" * (n + 1) for n in range(12)]
    wanted = [llm.generate(p, max_tokens=16).text for p in prompts]

    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"http://{server.http}/v1", api_key="secret", max_retries=0
        ) as client:
            found = await asyncio.gather(
                *(
                    client.completions.create(model="tiny", prompt=p, max_tokens=16, temperature=0)
                    for p in prompts
                )
            )
        return [f.choices[0].text for f in found]

    assert asyncio.run(ask()) == wanted


def find(server: Server, name: str) -> Any:
    return server.running.engine.registry.find(name)


@pytest.mark.slow
def test_a_client_that_goes_away_frees_its_row(
    client: Any, server: Server, monkeypatch: Any
) -> None:
    go = hold_steps(monkeypatch)
    given = {"model": "narrow", "prompt": "x", "max_tokens": 90_000, "temperature": 0}
    engine = find(server, "narrow").engine
    for stream in (True, False):
        go.clear()
        failed = engine.stats().failed
        if stream:
            with client.completions.create(**given, stream=True):
                wait_until(lambda: engine.stats().running == 1)
        else:
            with pytest.raises(openai.APITimeoutError):
                client.with_options(timeout=0.5).completions.create(**given)
        task = engine._running[0]
        wait_until(lambda: task.is_cancelled)  # noqa: B023
        go.set()
        wait_until(lambda: engine.stats().failed > failed)  # noqa: B023
        wait_until(lambda: engine.stats().running == 0)


def test_overload_is_answered_at_once(server: Server, client: Any, monkeypatch: Any) -> None:
    go = hold_steps(monkeypatch)
    engine = find(server, "narrow").engine
    given = {"model": "narrow", "max_tokens": 3, "temperature": 0}
    threads = []
    # One request runs, then one waits: the queue holds one, so both at once would be too many.
    for reached in (lambda: engine.stats().running, lambda: engine.stats().waiting):
        call = lambda: client.completions.create(prompt="x", **given)  # noqa: E731
        threads.append(threading.Thread(target=call))
        threads[-1].start()
        wait_until(reached)
    with pytest.raises(openai.RateLimitError) as error:
        client.completions.create(prompt="x", **given)
    assert error.value.type == "rate_limit_error"
    go.set()
    for thread in threads:
        thread.join(60)
    assert client.completions.create(prompt="x", **given).choices[0].text is not None


def ask(server: Server, path: str, body: bytes, token: str = "secret") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
DEEP = b"[" * 100_000


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": MESSAGES, **fields}).encode()


def text(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "prompt": "a", **fields}).encode()


HOSTILE: dict[str, tuple[str, bytes, int, str]] = {
    "empty": (CHAT, b"", 400, "not valid"),
    "not JSON": (CHAT, b"{", 400, "not valid"),
    "broken UTF-8": (CHAT, b'{"model": "\xff"}', 400, "not valid"),
    "deep": (CHAT, b'{"model": "tiny", "messages": ' + DEEP, 400, "not valid"),
    "deep unknown field": (CHAT, chat()[:-1] + b', "x": ' + DEEP, 400, "not valid"),
    "no model": (CHAT, b'{"messages": [{"role": "user"}]}', 400, "model"),
    "no messages": (CHAT, chat(messages=[]), 400, "messages"),
    "messages are a text": (CHAT, chat(messages="hi"), 400, "messages"),
    "unknown role": (CHAT, chat(messages=[{"role": "root", "content": "x"}]), 400, "role"),
    "an image": (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
        400,
        "not a text",
    ),
    "a tool's answer": (CHAT, chat(messages=[{"role": "tool", "content": "x"}]), 400, "tools"),
    "tools": (CHAT, chat(tools=[{}]), 400, "tools is not supported"),
    "two choices": (CHAT, chat(n=2), 400, "n is not supported"),
    "bias": (CHAT, chat(logit_bias={"1": 100}), 400, "logit_bias"),
    "penalty": (TEXT, text(presence_penalty=1), 400, "presence_penalty"),
    "unknown model": (CHAT, chat(model="nope"), 404, "unknown model"),
    "a path": (CHAT, chat(model="../../etc/passwd"), 404, "unknown model"),
    "no language model": (CHAT, chat(model="affine"), 400, "not a language model"),
    "no tokens": (TEXT, text(max_tokens=0), 400, "max_tokens"),
    "temperature": (TEXT, text(temperature=-1), 400, "temperature"),
    "temperature is a text": (TEXT, text(temperature="hot"), 400, "temperature"),
    "top_p": (TEXT, text(top_p=7), 400, "top_p"),
    "seed": (TEXT, text(seed=-1), 400, "seed"),
    "an empty stop": (TEXT, text(stop=[""]), 400, "stop"),
    "many stops": (TEXT, text(stop=["x"] * 17), 400, "too many stop texts"),
    "logprobs": (TEXT, text(logprobs=1000), 400, "logprobs"),
    "top_logprobs alone": (CHAT, chat(top_logprobs=3), 400, "top_logprobs without"),
    "echo": (TEXT, text(echo=True), 400, "echo"),
    "suffix": (TEXT, text(suffix="x"), 400, "suffix"),
    "no prompts": (TEXT, text(prompt=[]), 400, "number of prompts"),
    "many prompts": (TEXT, text(prompt=["a"] * 33), 400, "number of prompts"),
    "an empty prompt": (TEXT, text(prompt=""), 400, "no tokens"),
    "unknown tokens": (TEXT, text(prompt=[3, 999]), 400, "no such token"),
    "negative tokens": (TEXT, text(prompt=[-3]), 400, "no such token"),
    "mixed prompts": (TEXT, text(prompt=[3, "a"]), 400, "no such token"),
    "nested prompts": (TEXT, text(prompt=[[[1]]]), 400, "not valid"),
    "a long prompt": (TEXT, text(prompt="a" * 5000), 400, "longer than the model's context"),
    "a very long prompt": (TEXT, text(prompt="a" * 300_000), 400, "characters"),
    "a long chat": (
        CHAT,
        chat(messages=[{"role": "user", "content": "a" * 300_000}]),
        400,
        "characters",
    ),
    "no schema": (CHAT, chat(response_format={"type": "json_schema"}), 400, "schema"),
    "unknown format": (CHAT, chat(response_format={"type": "xml"}), 400, "type"),
    "a bad schema": (
        CHAT,
        chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}),
        400,
        "schema",
    ),
    "no texts": (EMBED, b'{"model": "tiny", "input": []}', 400, "number of texts"),
    "tokens to embed": (EMBED, b'{"model": "tiny", "input": [1, 2]}', 400, "not valid"),
    "an empty text": (EMBED, b'{"model": "tiny", "input": ""}', 400, "no tokens"),
    "dimensions": (EMBED, b'{"model": "tiny", "input": "a", "dimensions": 3}', 400, "dimensions"),
    "unknown path": ("/v1/images", b"{}", 404, "unknown path"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_bad_requests_get_openais_error(server: Server, case: str) -> None:
    path, body, status, message = HOSTILE[case]
    found, answer = ask(server, path, body)
    assert (found, answer.keys()) == (status, {"error"})
    assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert message in answer["error"]["message"]
    assert (
        answer["error"]["type"]
        == {
            400: "invalid_request_error",
            404: "not_found_error",
        }[status]
    )


def test_tokens_and_other_protocols_are_refused(server: Server) -> None:
    assert ask(server, CHAT, chat(), "wrong")[1]["error"]["type"] == "authentication_error"
    status, answer = ask(server, "/v2/models/tiny/infer", b'{"inputs": []}')
    assert status == 400 and "language model" in answer["error"]


def test_metrics_count_tokens(server: Server, client: Any) -> None:
    client.completions.create(model="tiny", prompt="abc", max_tokens=4, temperature=0)
    connection = http.client.HTTPConnection(server.metrics, timeout=60)
    connection.request("GET", "/metrics", headers={"authorization": "Bearer secret"})
    lines = connection.getresponse().read().decode().splitlines()
    values = {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line[0] != "#"}

    def value(name: str) -> float:
        return next(v for k, v in values.items() if k.startswith(name + "{") and '"tiny"' in k)

    assert value("irc_prompt_tokens_total") >= 3 and value("irc_generated_tokens_total") >= 1
    assert value("irc_requests_total") >= 1 and value("irc_model_memory_bytes") > 0


@pytest.mark.slow
def test_a_compiled_language_model_is_served(llm: LLM, tmp_path: Path) -> None:
    llm.export(tmp_path / "compiled.irc")
    with serving(tmp_path / "compiled.irc") as server:
        client = openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="x")
        found = client.completions.create(
            model="compiled", prompt="hello", max_tokens=5, temperature=0
        )
        assert found.choices[0].text == llm.generate("hello", max_tokens=5).text


@pytest.mark.slow
def test_a_file_of_one_model_is_served(models: Path) -> None:
    with serving(models / "tiny" / "1") as server:
        client = openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="x")
        assert [m.id for m in client.models.list()] == ["1"]
