"""The fuzzers' share of CI: what was found once, and a minute's worth of new examples.

`python -m fuzz graphs onnx bytes --minutes 60` goes on (docs/dev/testing.md).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fuzz.batches import BATCHES, SEEDS, check_file, run_batch

# Seconds each on one core.
COUNTS = {"graphs": 40, "onnx": 6, "bytes": 20}
MORE = 40 if os.environ.get("IRC_LONG") == "1" else 1
FOUND = sorted(p for p in SEEDS.glob("*") if p.suffix in (".xml", ".onnx", ".npy", ".irc"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.name)
def test_what_was_found_once(path: Path) -> None:
    assert check_file(path).startswith(("refused", "accepted", "agrees, ran"))


@pytest.mark.slow
@pytest.mark.parametrize("what", BATCHES)
def test_a_batch_without_a_finding(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    counts = run_batch(what, 1, COUNTS[what] * MORE, tmp_path)
    said = "\n".join(p.read_text()[:2000] for p in tmp_path.glob("*.txt"))
    assert not counts.get("findings"), f"{json.dumps(counts)}\n{said}"
    if what == "bytes":
        kinds = ("xml", "onnx", "npy", "artefact")
        assert all(counts[f"{kind} refused"] for kind in kinds), counts
    else:
        assert counts["ran"] > counts["tried"] / 3, counts
        assert counts["native"] == counts["dialect"] == counts["ran"], counts
