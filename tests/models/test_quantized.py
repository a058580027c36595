"""Quantised models: every quantised tensor against evaluate, outputs against both peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.interpret import interpret
from irc_compiler.plan.specs.attention import can_multiply_bytes
from irc_compiler.runtime.jit.host_features import available_isas
from irc_compiler.runtime.machine.detect import host_target
from support.models import quantized, small
from support.models.encoders import bert, bert_inputs
from support.models.oracles import Arrays, random_inputs, run_onnxruntime, run_openvino

TINY = {"layers": 1, "hidden": 32, "heads": 2, "intermediate": 48, "vocab": 40}


def _encoder() -> onnx.ModelProto:
    return bert(**TINY)  # type: ignore[arg-type]


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "network": lambda: quantized.static(quantized.network()),
    "network_signed": lambda: quantized.static(quantized.network(), signed=True, per_channel=False),
    "mlp": lambda: quantized.static(small.mlp(), N=4),
    "mlp_dynamic": lambda: quantized.dynamic(small.mlp()),
    "mlp_dynamic_u8": lambda: quantized.dynamic(small.mlp(), signed=False),
    "encoder": lambda: quantized.static(_encoder(), inputs=bert_inputs(2, 5, 40)),
    "encoder_dynamic": lambda: quantized.dynamic(_encoder()),
}


@cache
def built(name: str) -> tuple[onnx.ModelProto, Arrays]:
    model = MODELS[name]()
    if name.startswith("encoder"):
        return model, bert_inputs(2, 5, 40)
    return model, random_inputs(model, N=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_quantised_tensors_equal_evaluate(name: str) -> None:
    """At least 99.9 % of the elements, and none is off by more than a step."""
    model, inputs = built(name)
    watched = quantized.with_bytes(model)
    found = irc.compile_model(watched, num_threads=1)(inputs)
    expected = interpret(read_onnx(watched), list(inputs.values()))
    same = count = 0
    for a, b in zip(found, expected, strict=True):
        if b.dtype.kind not in "iu":
            continue
        assert np.abs(a.astype(int) - b.astype(int)).max() <= 1
        same, count = same + int((a == b).sum()), count + b.size
    assert same >= 0.999 * count


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_outputs_against_both_peers(name: str) -> None:
    model, inputs = built(name)
    nets = [irc.compile_model(model, num_threads=n) for n in (1, 2)]
    assert not nets[0].plan.host_steps()
    assert "multiply bytes" in nets[0].report()
    found = [np.array(a) for a in nets[0](inputs)]
    assert [a.tobytes() for a in nets[1](inputs)] == [a.tobytes() for a in found]
    # A step at a tie moves what follows by steps of its own; OpenVINO rounds its scales too.
    for peer, limit in ((run_onnxruntime, 0.03), (run_openvino, 0.1)):
        for a, b in zip(found, peer(model, inputs).values(), strict=True):
            assert np.abs(a - b).max() <= limit * np.abs(b).max()


@pytest.mark.slow
def test_fake_quantize_against_openvino(tmp_path: Path) -> None:
    """OpenVINO's own form of the network: FakeQuantize, and i8 weights with scales."""
    import openvino as ov

    model, inputs = built("network")
    source, path = tmp_path / "network.onnx", tmp_path / "network.xml"
    onnx.save(model, source)
    ov.save_model(ov.convert_model(source), path)
    assert "FakeQuantize" in path.read_text()
    net = irc.compile_model(path, num_threads=1)
    assert not net.plan.host_steps()
    assert "8 of 8 convolutions, 1 of 1 matrix products multiply bytes" in net.report()
    (found,) = net(inputs)
    (expected,) = interpret(net.model.graph, inputs)
    (peer,) = run_openvino(path, inputs).values()
    assert np.abs(found - expected).max() <= 0.03 * np.abs(expected).max()
    assert np.abs(found - peer).max() <= 0.1 * np.abs(peer).max()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["", "avx2"])
def test_scores_of_fake_quantised_queries_and_keys(
    tmp_path: Path, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention as NNCF quantises it, keys scaled behind their steps: against OpenVINO, where
    bytes are multiplied and where they are not."""
    import openvino as ov
    from openvino import opset13 as o

    if isa and isa in available_isas():
        monkeypatch.setenv("IRC_ISA", isa)
    given = [o.parameter([1, 3, n, 32], ov.Type.f32) for n in (50, 70, 70)]
    limits = [np.float32(n) for n in (-1.28, 1.27)] * 2
    query, key = (o.fake_quantize(x, *limits, 256) for x in given[:2])
    key = o.multiply(o.transpose(key, [0, 1, 3, 2]), np.float32(0.2))
    scores = o.add(o.matmul(query, key, False, False), np.zeros((1, 1, 50, 70), np.float32))
    made = o.matmul(o.softmax(scores, -1), given[2], False, False)
    path = tmp_path / "attention.xml"
    ov.save_model(ov.Model([made], given, "attention"), path, compress_to_fp16=False)
    net = irc.compile_model(path, num_threads=1)
    assert not net.plan.host_steps()
    multiplied = can_multiply_bytes(host_target())
    assert ("scores of 1 of 1 attentions multiply bytes" in net.report()) == multiplied
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal([int(d) for d in p.shape]).astype(np.float32) for p in net.inputs]
    (found,) = net(inputs)
    (expected,) = interpret(net.model.graph, inputs)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    (peer,) = run_openvino(
        path, dict(zip([p.name for p in net.inputs], inputs, strict=True))
    ).values()
    np.testing.assert_allclose(found, peer, rtol=0, atol=2e-3)
