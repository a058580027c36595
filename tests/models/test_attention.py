"""Attention in PyTorch's exports: one kernel per layer, nothing copied before or behind it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from support.models.encoders import bert_inputs
from support.models.oracles import run_onnxruntime

FIXTURES = sorted(
    (Path(__file__).resolve().parents[2] / "tests" / "support" / "models").glob(
        "encoder_torch_*.onnx"
    )
)


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_an_export_runs_attention_as_one_kernel(path: Path) -> None:
    layers = 1 if "sdpa" in path.stem else 2
    net = irc.compile_model(path, num_threads=2)
    families = Counter(s.spec.family for s in net.plan.kernel_steps())
    assert families["attention"] == layers and families["softmax"] == 0
    assert families["gemm"] == 4 * layers + 1
    # The mask, and nothing that moves heads.
    assert families["elementwise"] == 1
    for batch, sequence in ((3, 9), (1, 40), (2, 1)):
        inputs = bert_inputs(batch, sequence, 50)
        expected = run_onnxruntime(path, inputs)
        for found, (name, value) in zip(net(inputs), expected.items(), strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=2e-5, err_msg=name)
