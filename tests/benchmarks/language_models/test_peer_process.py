"""Peers in processes of their own: answers, and why one does not take part."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.language_models import peer_process
from benchmarks.language_models.peer_process import Measurement, PeerError, PeerProcess

STAND_IN = """
import json, sys
if sys.argv[2] == "missing":
    print(json.dumps({"error": "no such model"}), flush=True)
    sys.exit(1)
print(json.dumps({"ready": "1.2"}), flush=True)
for line in sys.stdin:
    wanted = json.loads(line)
    if wanted["count"] == 99:
        sys.exit(7)
    answer = {"prefill": 2.0, "decode": 1.0, "tokens": wanted["prompt"] * wanted["count"]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(STAND_IN)
    monkeypatch.setattr(peer_process, "_WORKER", worker)


def test_a_peer_answers_and_ends() -> None:
    peer = PeerProcess(sys.executable, "llama.cpp", "m.gguf", 1, 64)
    assert peer.version == "1.2"
    assert peer([5], 3) == Measurement(2.0, 1.0, [5, 5, 5])
    peer.close()
    assert peer._process.returncode == 0


def test_a_peer_says_why_it_does_not_take_part() -> None:
    with pytest.raises(PeerError, match="no such model"):
        PeerProcess(sys.executable, "llama.cpp", "missing", 1, 64)


def test_a_process_that_ends_is_an_error() -> None:
    peer = PeerProcess(sys.executable, "llama.cpp", "m.gguf", 1, 64)
    with pytest.raises(PeerError, match="exit code 7"):
        peer([5], 99)
    peer.close()
