"""benchmarks.llm on a tiny model: answers are checked, and rows are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.reference_generation import greedy, tiny_llm

from benchmarks import llm as benchmark


@pytest.mark.slow
def test_tokens_are_those_of_the_model() -> None:
    prompt = [1, 2, 3, 4]
    found = benchmark.measure_llm(tiny_llm(), prompt, 5)
    assert found.tokens[: len(greedy(prompt, 6))] == greedy(prompt, 6)
    assert found.prefill > 0 and found.decode > 0
    benchmark.check_llm(tiny_llm(), prompt)


@pytest.mark.slow
def test_wrong_tokens_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = benchmark.Measurement(1.0, 1.0, [0] * 9)
    monkeypatch.setattr(benchmark, "measure_llm", lambda *_: wrong)
    with pytest.raises(SystemExit, match="irc is wrong"):
        benchmark.check_llm(tiny_llm(), [1, 2, 3])


@pytest.mark.slow
def test_rows_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(*_: Any) -> benchmark.Measurement:
        return benchmark.Measurement(50.0, 10.0, [])

    monkeypatch.setattr("irc_compiler.LLM", lambda path, num_threads: tiny_llm())
    monkeypatch.setattr(benchmark, "make_llama_cpp", lambda *_: other)
    monkeypatch.setattr(benchmark, "wait_until_idle", lambda: None)
    path = tmp_path / "found.json"
    words = ["m.gguf", "--prompt", "8", "--tokens", "4", "--threads", "1", "--turns", "1"]
    assert benchmark.main([*words, "--results", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert {row["engine"] for row in rows} == {"irc", "llama.cpp"}
    assert all(row["measures"]["decode_tokens_per_second"] > 0 for row in rows)
    assert "decode/s" in capsys.readouterr().out
