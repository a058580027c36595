"""The worker of a peer: why one cannot run is its first line, whatever libraries print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.language_models import peer_worker

WORKER = Path(peer_worker.__file__)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    words = [sys.executable, str(WORKER), "llama.cpp", str(tmp_path / "none.gguf"), "1", "64"]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 1
    assert json.loads(found.stdout)["error"]  # without the package: that it is missing


def test_answers_of_a_peer(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(WORKER.parent)!r})\n"
        "import peer_worker\n"
        "def make(path, threads, context):\n"
        "    print('a library says hello')\n"
        "    rates = {'prefill': 1.0, 'decode': 2.0}\n"
        "    return lambda prompt, count: rates | {'tokens': prompt[:count]}\n"
        "peer_worker.PEERS['stand-in'] = ('numpy', make)\n"
        "sys.exit(peer_worker.main())\n"
    )
    words = [sys.executable, str(script), "stand-in", "m", "1", "64"]
    asked = json.dumps({"prompt": [3, 4, 5], "count": 2}) + "\n"
    found = subprocess.run(
        words, input=asked, capture_output=True, text=True, check=True, timeout=60
    )
    first, answer = map(json.loads, found.stdout.splitlines())
    assert set(first) == {"ready"}
    assert answer == {"prefill": 1.0, "decode": 2.0, "tokens": [3, 4]}
    assert "hello" in found.stderr
