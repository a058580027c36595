"""Perplexity of SmolLM2-135M with weights of 4 bits against f32.

    python scripts/quantization_smollm2.py FILE.gguf [ALGORITHM:GROUP ...]

The reference is the file's weights in f32. Calibration reads some 24 rows of 256 tokens of pages of
the documentation; the perplexity is that of the first 1024 tokens of two other pages, run by irc.
The seconds are those of quantization. ALGORITHM is one of irc's, or of another tool, for which
IRC_NNCF_PYTHON names an interpreter with nncf and openvino (nncf_sym, nncf_asym, nncf_sym_awq,
nncf_asym_awq) and IRC_ORT_PYTHON one with onnx, onnxruntime and onnx-ir (ort_sym, ort_asym).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.llm import read_language_model

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEST = ("dev/architecture.md", "security.md")
CALIBRATION = (
    "quickstart.md", "python-api.md", "llms.md", "serving.md", "migrating.md",
    "troubleshooting.md", "numerics.md",
)  # fmt: skip
LENGTH, COLUMNS = 1024, 256
# Compresses IR's weights to int4; prints the seconds.
NNCF = """
import sys, time
import nncf, numpy as np, openvino as ov

source, rows, kind, group, target = sys.argv[1:]
rows = np.load(rows)
places = np.arange(rows.shape[1])[None]
batches = [
    {
        "input_ids": row[None], "attention_mask": np.ones_like(row)[None],
        "position_ids": places, "beam_idx": np.zeros(1, np.int32),
    }
    for row in rows
]
options = {"mode": nncf.CompressWeightsMode("int4_" + kind.split("_")[1]), "ratio": 1.0}
if kind.endswith("awq"):
    options |= {"awq": True, "dataset": nncf.Dataset(batches), "subset_size": len(rows)}
model = ov.Core().read_model(source)
start = time.perf_counter()
made = nncf.compress_weights(model, group_size=int(group), **options)
print(time.perf_counter() - start)
ov.save_model(made, target, compress_to_fp16=False)
"""
# Makes MatMulNBits of ONNX's products; prints the seconds. Its weights may not be behind Transpose.
ONNXRUNTIME = """
import sys, time
import numpy as np, onnx
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

source, _, kind, group, target = sys.argv[1:]
model = onnx.load(source)
tensors = {tensor.name: tensor for tensor in model.graph.initializer}
for node in list(model.graph.node):
    if node.op_type == "Transpose" and node.input[0] in tensors:
        array = numpy_helper.to_array(tensors[node.input[0]]).transpose(node.attribute[0].ints)
        made = numpy_helper.from_array(np.ascontiguousarray(array), node.output[0])
        model.graph.initializer.append(made)
        model.graph.node.remove(node)
start = time.perf_counter()
quantizer = MatMulNBitsQuantizer(model, block_size=int(group), is_symmetric=kind == "ort_sym")
quantizer.process()
print(time.perf_counter() - start)
onnx.save(quantizer.model.model, target)
"""
VARIANTS = ("rtn:32", "awq:32", "gptq:32", "awq-gptq:32", "awq-gptq:64", "awq-gptq:128")


def feed(rows: Any, past: int = 0) -> dict[str, Any]:
    """Inputs of one run over tokens [rows, columns]."""
    count, columns = rows.shape
    positions = np.arange(past, past + columns, dtype=np.int64)
    return {
        "input_ids": rows.astype(np.int64),
        "attention_mask": np.ones((count, past + columns), np.int64),
        "position_ids": np.tile(positions, (count, 1)),
        "beam_idx": np.arange(count, dtype=np.int32),
    }


def mean_loss(net: irc.CompiledModel, ids: list[int]) -> float:
    """The mean negative log-likelihood of all tokens but the first. The caches of an ONNX model are
    inputs and outputs, in the same order."""
    request, total = net.create_infer_request(), 0.0
    caches = [port for port in net.inputs if port.name.startswith("past")]
    made = [port.name for port in net.outputs if port.name.startswith("present")]
    sizes = [[d if isinstance(d, int) else int(n == 0) for n, d in enumerate(port.shape or ())]
             for port in caches]  # fmt: skip
    states = {p.name: np.zeros(s, np.float32) for p, s in zip(caches, sizes, strict=True)}
    for at in range(0, len(ids), 256):
        part = np.array([ids[at : at + 256]])
        found = request({**feed(part, at), **states})
        states = {p.name: found[name] for p, name in zip(caches, made, strict=True)}
        scores = found["logits"][0].astype(np.float64)
        scores -= scores.max(-1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        wanted = ids[at + 1 : at + 257]
        total -= float(logs[np.arange(len(wanted)), wanted].sum())
    return total / (len(ids) - 1)


def quantize_elsewhere(model: irc.Model, rows: Any, kind: str, group: str) -> tuple[Any, float]:
    """The model that another tool makes in its own environment, and its seconds."""
    is_nncf = kind.startswith("nncf")
    python = os.environ.get("IRC_NNCF_PYTHON" if is_nncf else "IRC_ORT_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        ending = ".xml" if is_nncf else ".onnx"
        source, made = Path(folder) / f"source{ending}", Path(folder) / f"made{ending}"
        irc.save_model(model, source, progress=False)
        np.save(Path(folder) / "rows.npy", rows)
        program = NNCF if is_nncf else ONNXRUNTIME
        words = [str(source), str(Path(folder) / "rows.npy"), kind, group, str(made)]
        done = subprocess.run([python, "-c", program, *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        read = irc.read_model(made, progress=False)
    return read, float(done.stdout.split()[-1])


def main(path: str, variants: list[str]) -> None:
    language = read_language_model(path, weights="f32")

    def read_tokens(names: tuple[str, ...]) -> list[list[int]]:
        texts = [(DOCS / name).read_text("utf-8") for name in names]
        encode = language.tokenizer.encode
        return [encode(text, add_special=False)[:LENGTH] for text in texts]

    test = read_tokens(TEST)
    tokens = [token for page in read_tokens(CALIBRATION) for token in page]
    rows = np.array(tokens[: len(tokens) // COLUMNS * COLUMNS]).reshape(-1, COLUMNS)
    batches = [feed(rows[at : at + 4]) for at in range(0, len(rows), 4)]

    def perplexity(model: irc.Model) -> float:
        with irc.compile_model(model) as net:
            return float(np.exp(np.mean([mean_loss(net, ids) for ids in test])))

    wanted = perplexity(language.model)
    print(f"{'f32':16} {wanted:8.3f}", flush=True)
    for variant in variants:
        algorithm, group = variant.split(":")
        if "_" in algorithm:
            made, seconds = quantize_elsewhere(language.model, rows, algorithm, group)
        else:
            start = time.perf_counter()
            made = irc.quantize(
                language.model, batches, weights="int4", group=int(group), algorithm=algorithm
            ).model
            seconds = time.perf_counter() - start
        found = perplexity(made)
        print(f"{variant:16} {found:8.3f} {found / wanted - 1:+8.2%} {seconds:7.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(VARIANTS))
