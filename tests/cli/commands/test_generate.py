"""irc generate and irc chat, with a tiny model in the place of a file."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from irc_compiler.cli.main import main
from support.models.reference_generation import tiny_llm
from support.models.tiny_decoder import tiny_language_model

MODEL = "model.gguf"


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str, **options: Any) -> Any:
        assert path == MODEL
        return tiny_language_model()

    monkeypatch.setattr("irc_compiler.llm.llm.read_language_model", read)


@pytest.mark.slow
def test_a_text_is_continued(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", MODEL, "-p", "hello world", "--max-tokens", "12", "--stats"]
    assert main([*words, "--threads", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == tiny_llm().generate("hello world", max_tokens=12).text + "\n"
    assert "decode" in err and "tokens/s" in err and "MiB" in err


@pytest.mark.slow
def test_activations_are_chosen_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Without compressed weights they change no product, and the figures show f32."""
    words = ["generate", MODEL, "-p", "hello", "--max-tokens", "3", "--threads", "1"]
    assert main([*words, "--activations", "int8", "--stats"]) == 0
    out, err = capsys.readouterr()
    assert out == tiny_llm().generate("hello", max_tokens=3).text + "\n"
    assert "products f32" in err


@pytest.mark.slow
def test_a_message_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", MODEL, "-p", "hello", "--chat", "--system", "be brief"]
    assert main([*words, "--max-tokens", "9"]) == 0
    messages = [{"role": r, "content": c} for r, c in (("system", "be brief"), ("user", "hello"))]
    assert capsys.readouterr().out == tiny_llm().chat(messages, max_tokens=9).text + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--num-beams", "3"], {"num_beams": 3}),
        (["--temperature", "0.9", "--seed", "5"], {"temperature": 0.9, "seed": 5}),
        (
            "--temperature 1 --seed 5 --top-k 4 --top-p 0.9 --min-p 0.1".split(),
            {"temperature": 1.0, "seed": 5, "top_k": 4, "top_p": 0.9, "min_p": 0.1},
        ),
        (["--repetition-penalty", "1.5"], {"repetition_penalty": 1.5}),
        (["--stop", "k", "--stop", "t"], {"stop": ["k", "t"]}),
    ],
)  # fmt: skip
def test_options_are_those_of_the_api(
    words: list[str], options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", MODEL, "-p", "a b", "--max-tokens", "9", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = tiny_llm().generate("a b", max_tokens=9, **options)
    assert (found["text"], found["finish_reason"]) == (wanted.text, wanted.finish_reason)
    assert found["tokens"] == list(wanted.tokens)
    assert found["stats"]["generated_tokens"] == len(wanted.tokens)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--top-p", "7"], "top_p is out of range"),
        (["--top-k", "-1"], "top_k is out of range"),
        (["--system", "x"], "a system message is part of a conversation"),
        (["--context-length", "3"], "the prompt is longer than the model's context"),
        (["--kv-cache", "u3"], "invalid choice: 'u3'"),
        (["--max-tokens", "0"], "is not an integer from 1 up"),
    ],
)
def test_wrong_options_end_with_a_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", MODEL, "-p", "hello", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_conversation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "hello\n\nand now\n" + "a" * 300 + "\n/reset\nhello\n/exit\nnever read\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["chat", MODEL, "--max-tokens", "8", "--stats"]) == 0
    out, err = capsys.readouterr()
    session = tiny_llm().session()
    wanted = [session.send(text, max_tokens=8).text for text in ("hello", "and now")]
    assert out.splitlines() == [*wanted, wanted[0]]
    assert "longer than the model's context" in err and err.count("tokens/s") == 6


@pytest.mark.slow
def test_ctrl_c_ends_the_answer_and_not_the_conversation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    from irc_compiler.llm.decoder import TokenCache

    original, runs = TokenCache.read, [0]

    def read(*arguments: Any, **named: Any) -> Any:
        runs[0] += 1
        if runs[0] == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **named)

    monkeypatch.setattr(TokenCache, "read", read)
    monkeypatch.setattr("irc_compiler.cli.interrupts.GRACE_SECONDS", 0.2)
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\nhello\n"))
    assert main(["chat", MODEL, "--max-tokens", "8"]) == 0
    monkeypatch.undo()
    out, err = capsys.readouterr()
    whole = tiny_llm().session().send("hello", max_tokens=8).text
    first, second = out.splitlines()
    assert (first, second) == (whole[:2], whole) and "interrupted" in err
