"""A model of each family, converted to IR by OpenVINO as its users do it: irc computes from the IR
what onnxruntime computes from the ONNX model, and all the converter's usual operations are met."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from lxml import etree
from support.models import quantized, small
from support.models.convnets import mobilenet, resnet
from support.models.encoders import bert, bert_inputs
from support.models.families import gpt2, recurrent, vit, yolo
from support.models.openvino_ir import write_ir
from support.models.oracles import Arrays, random_inputs, run_onnxruntime

SIZES = {"batch": 2, "N": 3, "words": 3, "before": 4, "time": 5, "sequence": 6}


def encoder() -> onnx.ModelProto:
    return bert(1, 16, 2, 24, 30, positions=32, scale=0.3)


FAMILIES: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp": small.mlp,
    "mlp_quantised_as_it_runs": lambda: quantized.dynamic(small.mlp()),
    "resnet": lambda: resnet(32, "batch", 8),
    "mobilenet": lambda: mobilenet(32, "batch"),
    "bert": encoder,
    "gpt2": gpt2,
    "vit": vit,
    "lstm": lambda: recurrent("LSTM"),
    "gru": lambda: recurrent("GRU"),
    "rnn": lambda: recurrent("RNN"),
    "quantised": lambda: quantized.static(quantized.network()),
    "yolo": yolo,
}


def fed(name: str, model: onnx.ModelProto) -> Arrays:
    return bert_inputs(2, 6, 30) if name == "bert" else random_inputs(model, **SIZES)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Path]:
    """The path of a family's IR, with OpenVINO's fusions or (raw) without them; made once."""
    folder = tmp_path_factory.mktemp("families")

    @cache
    def made(name: str, raw: bool) -> Path:
        return write_ir(FAMILIES[name](), folder, f"{name}{raw}", raw=raw)

    return made


@pytest.mark.slow
@pytest.mark.parametrize("raw", [False, True], ids=["converted", "read"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_of_the_family(name: str, raw: bool, converted: Callable[..., Path]) -> None:
    model = FAMILIES[name]()
    inputs = fed(name, model)
    found = irc.compile_model(converted(name, raw))(inputs)
    # FakeQuantize rounds to its steps in f32, QuantizeLinear divides: a tie may fall either way.
    close = 0.03 if "quantised" in name else 1e-4
    for key, wanted in run_onnxruntime(model, inputs).items():
        assert found[key].shape == wanted.shape
        np.testing.assert_allclose(found[key], wanted, rtol=close, atol=close)


# What OpenVINO's converter writes for these families, with its fusions and without.
USUAL = """
Add-1 AvgPool-1 BatchNormInference-5 Broadcast-3 Clamp-1 Concat-1 Const-1 Convert-1
Convolution-1 ConvolutionBackpropData-1 DepthToSpace-1 Divide-1 Erf-1 Exp-1 FakeQuantize-1
GRUSequence-5 Gather-8 Gelu-7 GroupConvolution-1 HSwish-4 HardSigmoid-1 Interpolate-11
LSTMSequence-5 LessEqual-1 MVN-6 MatMul-1 MaxPool-8 Maximum-1 Minimum-1 Multiply-1 PReLU-1
Pad-12 Parameter-1 Power-1 RNNSequence-5 Range-4 ReLU-1 ReduceMax-1 ReduceMean-1 ReduceMin-1
Reshape-1 Result-1 Round-5 ScaledDotProductAttention-13 Select-1 ShapeOf-3 Sigmoid-1 Slice-8
SoftMax-8 Split-1 Sqrt-1 Squeeze-1 Subtract-1 Swish-4 Tanh-1 TopK-11 Transpose-1 Unsqueeze-1
VariadicSplit-1
"""


@pytest.mark.slow
def test_the_usual_operations_are_met(converted: Callable[..., Path]) -> None:
    met: set[str] = set()
    for name in FAMILIES:
        for raw in (False, True):
            for layer in etree.parse(converted(name, raw)).iter("layer"):
                met.add(f"{layer.get('type')}-{layer.get('version').removeprefix('opset')}")
    assert set(USUAL.split()) <= met
