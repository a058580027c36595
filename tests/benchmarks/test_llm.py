"""benchmarks.llm on a tiny model: answers are checked, and rows are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from irc_compiler.plan.processors import processor_target
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
    class Peer:
        """Takes part as llama.cpp and as OpenVINO GenAI, whose first token is wrong."""

        def __init__(self, python: str, peer: str, path: str, threads: int, context: int) -> None:
            self.peer = peer
            if peer == "openvino-genai":
                raise benchmark.PeerError("not installed")

        def __call__(self, prompt: Any, count: int) -> benchmark.Measurement:
            if self.peer == "onnxruntime-genai":
                raise benchmark.PeerError("exit code -4")
            return benchmark.Measurement(50.0, 10.0, [-1])

        def close(self) -> None:
            pass

    monkeypatch.setattr("irc_compiler.LLM", lambda path, **_: tiny_llm())
    monkeypatch.setattr(benchmark, "PeerProcess", Peer)
    monkeypatch.setattr(benchmark, "wait_until_idle", lambda: None)
    path = tmp_path / "found.json"
    words = [
        "m.gguf",
        "--onnx",
        "folder",
        "--prompt",
        "8",
        "--tokens",
        "4",
        "--threads",
        "1",
        "--turns",
        "1",
    ]
    assert benchmark.main([*words, "--results", str(path)]) == 0
    rows = {row["engine"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows.keys() - {"irc bf16", "llama.cpp no AMX"} == {"irc", "irc int8", "llama.cpp"}
    assert all(row["measures"]["decode_tokens_per_second"] > 0 for row in rows.values())
    assert rows["irc"]["measures"]["batch_of_8_tokens_per_second"] > 0
    said = capsys.readouterr()
    assert "decode/s" in said.out
    assert "not run: openvino-genai: not installed" in said.err
    assert "not run: openvino-genai f32: its first token is not that of irc" in said.err
    assert "not run: onnxruntime-genai: exit code -4" in said.err


@pytest.mark.parametrize("processor", ["sapphirerapids", "haswell"])
def test_peers_read_what_they_can(
    processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp takes part a second time where it would use AMX."""
    monkeypatch.setattr(benchmark, "host_target", lambda: processor_target(processor))
    has_amx = processor == "sapphirerapids"
    (tmp_path / "genai_config.json").write_text("{}")
    found = benchmark.list_peers(str(tmp_path), None)
    assert found == {
        "llama.cpp": None,
        **({"llama.cpp no AMX": None} if has_amx else {}),
        "openvino-genai": None,
        "openvino-genai f32": None,
        "onnxruntime-genai": str(tmp_path),
    }
    assert benchmark.list_peers("m.gguf", "folder") == {
        "llama.cpp": "m.gguf",
        **({"llama.cpp no AMX": "m.gguf"} if has_amx else {}),
        "openvino-genai": "m.gguf",
        "openvino-genai f32": "m.gguf",
        "onnxruntime-genai": "folder",
    }
