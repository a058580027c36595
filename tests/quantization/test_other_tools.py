"""Models that NNCF quantized, as ONNX and as IR: irc against the runtime that each is made for.

onnxruntime's static and dynamic quantization: tests/models/test_quantized.py. Weights in blocks, as
Olive, AutoGPTQ and AutoAWQ export them: tests/compiler/frontends/onnx/ops/com_microsoft/
test_matmul_nbits.py. NNCF is in none of irc's extras: IRC_NNCF_PYTHON names an interpreter that has
it, with onnx, onnxruntime and openvino.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from support.models import quantized
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino

PYTHON = os.environ.get("IRC_NNCF_PYTHON") or (
    sys.executable if importlib.util.find_spec("nncf") else ""
)

QUANTIZE = """
import sys
import nncf, numpy as np, onnx, openvino as ov

source, samples, onnx_target, xml_target = sys.argv[1:]
loaded = dict(np.load(samples))
batches = nncf.Dataset([loaded])
onnx.save(nncf.quantize(onnx.load(source), batches, subset_size=1), onnx_target)
model = ov.convert_model(source)
ov.save_model(nncf.quantize(model, batches, subset_size=1), xml_target)
"""


@pytest.mark.slow
def test_nncf(tmp_path: Path) -> None:
    if not PYTHON:
        pytest.skip("not run: nncf is not installed (IRC_NNCF_PYTHON names an interpreter)")
    model = quantized.network()
    inputs = random_inputs(model, N=4)
    source, samples = tmp_path / "float.onnx", tmp_path / "samples.npz"
    onnx.save(model, source)
    np.savez(samples, **inputs)
    made = [tmp_path / "nncf.onnx", tmp_path / "nncf.xml"]
    words = [PYTHON, "-c", QUANTIZE, *map(str, [source, samples, *made])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    peers = (run_onnxruntime(onnx.load(made[0]), inputs), run_openvino(made[1], inputs))
    # A step at a tie moves what follows by steps of its own; OpenVINO rounds its scales too.
    for path, peer, limit in zip(made, peers, (0.03, 0.1), strict=True):
        net = irc.compile_model(path, num_threads=1)
        assert not net.plan.host_steps()
        assert "convolutions multiply bytes" in net.report(), net.report()
        for a, b in zip(net(inputs), peer.values(), strict=True):
            assert np.abs(a - b).max() <= limit * np.abs(b).max()
