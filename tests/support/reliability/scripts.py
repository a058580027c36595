"""Runs a script in a fresh interpreter and reads the one JSON object that it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"

HEAD = f"""
import contextlib, json, os, pickle, random, signal, sys, time
from pathlib import Path
import numpy as np
import irc_compiler as irc
DIGITS = {str(DIGITS)!r}
X = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
"""


def run_script(code: str, folder: Path, **environment: str) -> Any:
    """The object printed last. The cache lies in the folder unless told otherwise."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        cwd=folder,
        env={**os.environ, "IRC_CACHE_DIR": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
