"""Programs that make large arrays for each call of a session find their pages again, as they do
with the engine."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
# Three arrays together exceed twice the largest of them.
PROGRAM = """
import resource
import numpy as np

def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        arrays = [np.ones(1 << 20) for _ in range(3)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

count_faults()
print(count_faults())
"""
SESSIONS = {
    "onnxruntime": "from irc_compiler.compat.onnxruntime import InferenceSession as make",
    "openvino": "from irc_compiler.compat.openvino import Core; make = Core().compile_model",
}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not run: needs glibc's heap")
@pytest.mark.parametrize("engine", SESSIONS)
def test_arrays_of_a_program_keep_their_pages(engine: str) -> None:
    made = f"{SESSIONS[engine]}\nkept = make({str(DIGITS)!r})\n"
    words = [sys.executable, "-c", made + PROGRAM]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 20
