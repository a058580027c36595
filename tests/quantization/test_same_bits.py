"""Stored quantized models have stored output bits: each machine checks its own instruction sets.

The digests are the same with AVX2, VNNI, AMX and NEON. A processor that this machine cannot run as
is printed as not run. `scripts/aarch64.sh test tests/quantization/test_same_bits.py` checks NEON.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.plan.processors import maskable_processors
from irc_compiler.runtime.jit.host_features import detected_features

DATA = Path(__file__).resolve().parent.parent / "data" / "quantization"
# Of the outputs' bytes. The models are those of tests/support/quantization/nets.py, quantized by
# irc; their files are stored, for calibration in float depends on the instruction set.
DIGESTS = {
    "convnet": "5bfdafaddcb7838525331c7486bdfa277eb40a68f299c5f58b749adeec31eb77",
    "mlp": "cc05905c8061a2240817d106fd6ce91d160dcbfd0597441dbb85593a0b107886",
}
# From no vector extension to AVX2, AVX-VNNI, VNNI, and AMX.
PROCESSORS = (
    "x86-64-v2", "haswell", "alderlake", "skylake-avx512", "cascadelake", "sapphirerapids",
    "znver5",
)  # fmt: skip
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from test_same_bits import digest_outputs
print(digest_outputs(sys.argv[2]))
"""


def digest_outputs(name: str) -> str:
    """Of the stored model's outputs for inputs that every NumPy makes alike."""
    path = DATA / f"{name}.onnx"
    shape = [d.dim_value or 33 for d in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
    integers = (np.arange(np.prod(shape)) * 2654435761 % 4093).astype(np.float32)
    net = irc.compile_model(path)
    assert "multiply bytes" in net.report() and not net.plan.host_steps()
    (found,) = net([(integers.reshape(shape) / 1024 - 2)])
    return hashlib.sha256(found.astype("<f4").tobytes()).hexdigest()


@pytest.mark.aarch64
@pytest.mark.parametrize("name", DIGESTS)
def test_this_machine(name: str) -> None:
    assert digest_outputs(name) == DIGESTS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGESTS)
def test_every_processor_that_this_machine_can_be(name: str) -> None:
    maskable = maskable_processors(detected_features())
    checked = 0
    for cpu in PROCESSORS:
        if cpu not in maskable:
            print(f"not run: this machine lacks features of {cpu}")
            continue
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), name],
            env={**os.environ, "IRC_CPU": cpu},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == DIGESTS[name], cpu
        checked += 1
    if not checked:
        pytest.skip("not run: this machine is none of the x86-64 processors")
