"""Ctrl-C ends a call inside native code; calls of other threads go on, and the model is usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "models" / "interrupted_call.py"
# Seconds in which both calls have to end. Uninterrupted, each takes longer than that.
BOUND = 50


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="not run: sends SIGINT to a process")
@pytest.mark.parametrize(
    ("case", "threads", "how"),
    [
        ("matmul", 1, "call"),
        ("matmul", 2, "call"),
        ("matmul", 2, "bound"),
        ("conv", 1, "call"),
        ("conv", 2, "call"),
        ("elementwise", 2, "call"),
        ("small_steps", 1, "call"),
        ("small_steps", 1, "bound"),
        ("host_steps", 1, "call"),
        ("recurrent", 1, "call"),
        ("recurrent", 2, "call"),
    ],
)
def test_interrupt(case: str, threads: int, how: str) -> None:
    words = [sys.executable, str(PROGRAM), case, str(threads), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            for _ in range(2):
                assert run.stdout.readline() == "running\n", run.communicate()[1]
                time.sleep(0.7)
                run.send_signal(signal.SIGINT)
            out, errors = run.communicate(timeout=BOUND)
        finally:
            run.kill()
    assert (out, run.returncode) == ("done\n", 0), errors
