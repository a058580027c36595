"""Models that other tools quantized: irc against the runtime that each is made for.

NNCF, as ONNX and as IR; Olive's passes; GPTQ as ONNX; checkpoints of AutoGPTQ and AutoAWQ, which
onnxruntime-genai's builder exports. onnxruntime's static and dynamic
quantization: tests/models/test_quantized.py; every form of MatMulNBits: tests/compiler/frontends/
onnx/ops/com_microsoft/test_matmul_nbits.py. These tools are in none of irc's extras:
IRC_NNCF_PYTHON names an interpreter that has nncf, onnx, onnxruntime and openvino;
IRC_OLIVE_PYTHON one that has olive-ai, requests, torch, onnx, onnxruntime and onnxruntime-genai;
IRC_AUTOGPTQ_PYTHON one that has auto-gptq, autoawq, and the transformers that both can import.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from support.models import quantized
from support.models.exact_int8 import create_session
from support.models.onnx_graph import OnnxGraph
from support.models.oracles import random_inputs, run_onnxruntime, run_openvino


def find_python(variable: str, module: str) -> str:
    """The interpreter that has the tool; "" where there is none."""
    return os.environ.get(variable) or (sys.executable if importlib.util.find_spec(module) else "")


PYTHON = find_python("IRC_NNCF_PYTHON", "nncf")
OLIVE_PYTHON = find_python("IRC_OLIVE_PYTHON", "olive")
AUTOGPTQ_PYTHON = find_python("IRC_AUTOGPTQ_PYTHON", "auto_gptq")

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
        report = net.report()
        assert re.search(r"[78] of 8 convolutions.* multiply bytes", report), report
        for a, b in zip(net(inputs), peer.values(), strict=True):
            assert np.abs(a - b).max() <= limit * np.abs(b).max()


# One pass of Olive, or GPTQ of onnxruntime.quantization (written by Intel Neural Compressor).
OLIVE = """
import os, sys
import numpy as np, onnx, torch

name, source, samples, target = sys.argv[1:]
arrays = dict(np.load(samples))


def run_gptq():
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    class Reader(CalibrationDataReader):
        left = [arrays] * 3

        def get_next(self):
            return self.left.pop(0) if self.left else None

    config = nbits.GPTQWeightOnlyQuantConfig(calibration_data_reader=Reader(), block_size=32)
    quantizer = nbits.MatMulNBitsQuantizer(onnx.load(source), block_size=32, algo_config=config)
    quantizer.process()
    return quantizer.model.model


def run_olive():
    from olive.data.config import DataConfig
    from olive.data.registry import Registry
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict
    from olive.passes.onnx import hqq_quantization, kquant_quantization, quantization
    from olive.passes.onnx import rtn_quantization

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, number):
            return {key: array[number] for key, array in arrays.items()}, 0

    @Registry.register_dataset()
    def sample_rows(data_dir=None, **options):
        return Rows()

    data = DataConfig(name="samples", load_dataset_config={"type": "sample_rows"})
    static = quantization.OnnxStaticQuantization
    passes = {
        "static QDQ": (static, {"data_config": data, "quant_format": "QDQ"}),
        "static QOperator": (static, {"data_config": data, "quant_format": "QOperator"}),
        "dynamic": (quantization.OnnxDynamicQuantization, {}),
        "RTN": (rtn_quantization.OnnxBlockWiseRtnQuantization, {"block_size": 32}),
        "k-quant": (kquant_quantization.OnnxKQuantQuantization, {"block_size": 32}),
        "HQQ": (hqq_quantization.OnnxHqqQuantization, {"block_size": 32}),
    }
    kind, config = passes[name]
    made = create_pass_from_dict(kind, config, disable_search=True)
    return onnx.load(made.run(ONNXModelHandler(source), target + ".folder").model_path)


onnx.save(run_gptq() if name == "GPTQ" else run_olive(), target)
"""


def small_transformer_mlp() -> onnx.ModelProto:
    """Two products with a Gelu-like gate: sizes that blocks of 32 divide."""
    rng = np.random.default_rng(3)
    g = OnnxGraph(21, constants="initializers")
    x = g.input("x", ["N", 64])
    weights = {
        name: g.weight(name, (rng.standard_normal(shape) / 8).astype(np.float32))
        for name, shape in {"up": (64, 128), "gate": (64, 128), "down": (128, 64)}.items()
    }
    gate = g.op("Sigmoid", g.op("MatMul", x, weights["gate"]))
    y = g.op("Mul", g.op("MatMul", x, weights["up"]), gate)
    g.output(g.op("MatMul", y, weights["down"], result="y"))
    return g.model()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "operator", "report", "limit"),
    [
        ("static QDQ", "QuantizeLinear", "3 of 3 matrix products multiply bytes", 0.03),
        ("static QOperator", "QLinearMatMul", "matrix products multiply bytes", 0.03),
        ("dynamic", "MatMulInteger", "3 of 3 matrix products multiply bytes", 1e-4),
        ("RTN", "MatMulNBits", "", 1e-4),
        ("k-quant", "MatMulNBits", "", 1e-4),
        ("HQQ", "MatMulNBits", "", 1e-4),
        ("GPTQ", "MatMulNBits", "", 1e-4),
    ],
)
def test_olive_and_gptq(
    name: str, operator: str, report: str, limit: float, tmp_path: Path
) -> None:
    if not OLIVE_PYTHON:
        pytest.skip("not run: olive is not installed (IRC_OLIVE_PYTHON names an interpreter)")
    inputs = {"x": np.random.default_rng(4).standard_normal((8, 64)).astype(np.float32)}
    source, samples, target = (tmp_path / n for n in ("float.onnx", "samples.npz", "made.onnx"))
    onnx.save(small_transformer_mlp(), source)
    np.savez(samples, **inputs)
    words = [OLIVE_PYTHON, "-c", OLIVE, name, *map(str, [source, samples, target])]
    environment = {**os.environ, "OLIVE_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    kinds = [node.op_type for node in onnx.load(target).graph.node]
    assert operator in kinds, kinds
    net = irc.compile_model(target, num_threads=1)
    assert not net.plan.host_steps()
    assert report in net.report(), net.report()
    (found,) = net(inputs)
    (peer,) = create_session(str(target)).run(None, inputs)
    assert np.abs(found - peer).max() <= limit * np.abs(peer).max()


# A decoder of one layer, quantized on the CPU. AutoGPTQ moves its blocks to the device of a
# constant and synchronizes CUDA, whether there is a GPU or not.
CHECKPOINT = """
import sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

tool, source, target = sys.argv[1:]
torch.manual_seed(0)
words = {f"w{number}": number for number in range(126)} | {"<s>": 126, "</s>": 127}
encoder = Tokenizer(models.WordLevel(words, unk_token="w0"))
encoder.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=encoder, bos_token="<s>", eos_token="</s>", pad_token="</s>", unk_token="w0"
)
config = LlamaConfig(
    vocab_size=128, hidden_size=128, intermediate_size=128, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
    bos_token_id=126, eos_token_id=127, architectures=["LlamaForCausalLM"],
)
model = LlamaForCausalLM(config).eval()
rows = [torch.randint(0, 126, (1, 64)) for _ in range(4)]
if tool == "AutoAWQ":
    from awq import AutoAWQForCausalLM

    model.save_pretrained(source)
    tokenizer.save_pretrained(source)
    texts = [" ".join(f"w{token}" for token in row[0].tolist()) for row in rows]
    made = AutoAWQForCausalLM.from_pretrained(source, device_map=None, torch_dtype=torch.float32)
    options = {"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"}
    made.quantize(
        tokenizer, options, calib_data=texts, max_calib_samples=4, max_calib_seq_len=64
    )
    made.save_quantized(target)
else:
    from auto_gptq import BaseQuantizeConfig
    from auto_gptq.modeling import LlamaGPTQForCausalLM, _base

    torch.cuda.synchronize = lambda *device: None
    _base.CUDA_0 = torch.device("cpu")
    options = BaseQuantizeConfig(
        bits=4, group_size=32, desc_act="desc_act" in tool, sym="asymmetric" not in tool
    )
    made = LlamaGPTQForCausalLM(model, False, options)
    examples = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in rows]
    made.quantize(examples, cache_examples_on_gpu=False)
    made.save_quantized(target, use_safetensors=True)
tokenizer.save_pretrained(target)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool", ["AutoGPTQ", "AutoGPTQ asymmetric", "AutoGPTQ desc_act", "AutoAWQ"]
)
def test_checkpoints_as_onnx(tool: str, tmp_path: Path) -> None:
    if not AUTOGPTQ_PYTHON or not OLIVE_PYTHON:
        pytest.skip("not run: IRC_AUTOGPTQ_PYTHON and IRC_OLIVE_PYTHON name no interpreters")
    checkpoint, target = tmp_path / "checkpoint", tmp_path / "onnx"
    make = [AUTOGPTQ_PYTHON, "-c", CHECKPOINT, tool, str(tmp_path / "float"), str(checkpoint)]
    export = [OLIVE_PYTHON, "-m", "onnxruntime_genai.models.builder", "-i", str(checkpoint)]
    export += ["-o", str(target), "-p", "int4", "-e", "cpu", "-c", str(tmp_path / "cache")]
    for program, *words in (make, export):
        # The builder imports modules of names that this folder has, too.
        done = subprocess.run(
            [Path(program).absolute(), *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    model = onnx.load(target / "model.onnx")
    products = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    assert len(products) >= 6
    assert any(len(node.input) > 4 and node.input[4] for node in products) == ("desc" in tool)
    # Its products round activations to 8 bits otherwise, which irc does on request only.
    for node in products:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    onnx.save(model, target / "exact.onnx")
    tokens = np.random.default_rng(5).integers(0, 126, (2, 9))
    inputs: dict[str, np.ndarray] = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "past_key_values.0.key": np.zeros((2, 2, 0, 32), np.float32),
        "past_key_values.0.value": np.zeros((2, 2, 0, 32), np.float32),
    }
    net = irc.compile_model(target / "exact.onnx", num_threads=1)
    assert not net.plan.host_steps()
    peers = create_session(str(target / "exact.onnx")).run(None, inputs)
    for found, peer in zip(net(inputs), peers, strict=True):
        assert np.abs(found - peer).max() <= 1e-4 * np.abs(peer).max()
