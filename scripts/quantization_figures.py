"""Compare irc's quantization with that of other tools on a residual network for digits.

    python scripts/quantization_figures.py [--peers PYTHON]

Trains the network in NumPy on scikit-learn's digits, quantizes it with irc and, in the environment
of PYTHON, with onnxruntime.quantization and NNCF, and prints each model's accuracy and time. Needs
scikit-learn in PYTHON's environment, which also makes the data.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
EPOCHS, BATCH, RATE = 12, 64, 2e-3
# Name, input, output and stride of each convolution; "-" in front: behind it the input of the one
# before is added.
CONVS = (
    ("stem", 1, 16, 1, ""),
    ("a1", 16, 16, 1, ""),
    ("a2", 16, 16, 1, "stem"),
    ("down", 16, 32, 2, ""),
    ("b1", 32, 32, 1, ""),
    ("b2", 32, 32, 1, "down"),
)
DATA = """
import sys, numpy as np
from sklearn.datasets import load_digits
d = load_digits()
order = np.random.default_rng(0).permutation(len(d.images))
x = (d.images[order] / 16).astype(np.float32)[:, None]
np.savez(sys.argv[1], x=x, y=d.target[order].astype(np.int64))
"""
PEERS = """
import sys, time, numpy as np, onnx
tool, source, data, target = sys.argv[1:5]
x = np.load(data)["x"]
batches = [{"x": x[i:i + 32]} for i in range(0, len(x), 32)]
start = time.perf_counter()
if tool.startswith("onnxruntime"):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat
    from onnxruntime.quantization import QuantType, quantize_static
    class Reader(CalibrationDataReader):
        def __init__(self): self.left = list(batches)
        def get_next(self): return self.left.pop(0) if self.left else None
    method = CalibrationMethod.Entropy if "entropy" in tool else CalibrationMethod.MinMax
    quantize_static(source, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                    calibrate_method=method)
else:
    import nncf
    made = nncf.quantize(onnx.load(source), nncf.Dataset(batches), subset_size=len(batches))
    onnx.save(made, target)
print(time.perf_counter() - start)
"""


def im2col(x: Array, stride: int) -> Array:
    """[N, H, W, C] -> [N, H', W', 9 * C] of 3x3 windows, padded by 1."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    size = x.shape[1]
    parts = [padded[:, i : i + size : stride, j : j + size : stride] for i in range(3)
             for j in range(3)]  # fmt: skip
    return np.concatenate(parts, axis=-1)


def col2im(grad: Array, shape: tuple[int, ...], stride: int) -> Array:
    """The transpose of im2col."""
    count, size, _, channels = shape
    out = np.zeros((count, size + 2, size + 2, channels), np.float32)
    for n in range(9):
        i, j = divmod(n, 3)
        part = grad[..., n * channels : (n + 1) * channels]
        out[:, i : i + size : stride, j : j + size : stride] += part
    return out[:, 1:-1, 1:-1]


def forward(params: dict[str, Array], x: Array) -> tuple[Array, dict[str, Any]]:
    """Logits and what the backward pass needs. x: [N, 8, 8, 1]."""
    kept: dict[str, Any] = {}
    made: dict[str, Array] = {}
    for name, _, _, stride, shortcut in CONVS:
        columns = im2col(x, stride)
        y = columns @ params[name] + params[f"{name}_bias"]
        y = y + made[shortcut] if shortcut else y
        kept[name] = (columns, x.shape, y > 0)
        made[name] = x = np.maximum(y, 0)
    kept["pooled"] = x.mean(axis=(1, 2))
    return kept["pooled"] @ params["fc"] + params["fc_bias"], kept


def backward(params: dict[str, Array], kept: dict[str, Any], grad: Array) -> dict[str, Array]:
    """Gradients of the parameters."""
    found = {"fc": kept["pooled"].T @ grad, "fc_bias": grad.sum(axis=0)}
    shape = kept["b2"][2].shape
    flow = np.broadcast_to((grad @ params["fc"].T)[:, None, None] / (shape[1] * shape[2]), shape)
    pending: dict[str, Array] = {}
    for name, _, _, stride, shortcut in reversed(CONVS):
        columns, shape, positive = kept[name]
        flow = (flow + pending.pop(name, 0)) * positive
        if shortcut:
            pending[shortcut] = flow
        rows = flow.reshape(-1, flow.shape[-1])
        found[name] = columns.reshape(len(rows), -1).T @ rows
        found[f"{name}_bias"] = rows.sum(axis=0)
        flow = col2im(flow @ params[name].T, shape, stride)
    return found


def train(x: Array, y: Array) -> dict[str, Array]:
    """Parameters after Adam's steps. x: [N, 1, 8, 8], y: labels."""
    rng = np.random.default_rng(0)
    params: dict[str, Array] = {}
    for name, inputs, outputs, _, _ in CONVS:
        scale = np.sqrt(2 / (9 * inputs))
        params[name] = (rng.standard_normal((9 * inputs, outputs)) * scale).astype(np.float32)
        params[f"{name}_bias"] = np.zeros(outputs, np.float32)
    params["fc"] = (rng.standard_normal((32, 10)) * 0.1).astype(np.float32)
    params["fc_bias"] = np.zeros(10, np.float32)
    first = {name: np.zeros_like(p) for name, p in params.items()}
    second = {name: np.zeros_like(p) for name, p in params.items()}
    images, step = x.transpose(0, 2, 3, 1), 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            logits, kept = forward(params, images[chosen])
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            grad = odds / odds.sum(axis=1, keepdims=True)
            grad[np.arange(len(chosen)), y[chosen]] -= 1
            step += 1
            for name, g in backward(params, kept, grad / len(chosen)).items():
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g * g
                move = first[name] / (1 - 0.9**step)
                move = move / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                params[name] = (params[name] - RATE * move).astype(np.float32)
    return params


def to_onnx(params: dict[str, Array]) -> onnx.ModelProto:
    """x [N, 1, 8, 8] to logits [N, 10]."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(name: str, array: Array) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    x = "x"
    for name, inputs, outputs, stride, shortcut in CONVS:
        kernel = params[name].reshape(3, 3, inputs, outputs).transpose(3, 2, 0, 1)
        given = [x, weight(f"{name}_weight", kernel), weight(f"{name}_b", params[f"{name}_bias"])]
        attributes = {"pads": [1] * 4, "strides": [stride] * 2, "kernel_shape": [3, 3]}
        nodes.append(helper.make_node("Conv", given, [f"{name}_conv"], name=name, **attributes))
        before = f"{name}_conv"
        if shortcut:
            nodes.append(helper.make_node("Add", [before, shortcut], [f"{name}_sum"]))
            before = f"{name}_sum"
        nodes.append(helper.make_node("Relu", [before], [name]))
        x = name
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    given = ["flat", weight("fc_weight", params["fc"]), weight("fc_b", params["fc_bias"])]
    nodes.append(helper.make_node("Gemm", given, ["logits"], name="fc"))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 8, 8])]
    results = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])]
    graph = helper.make_graph(nodes, "digits_resnet", ports, results, weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def microseconds(net: Any, x: Array, runs: int = 30) -> float:
    """Median time of a call."""
    taken: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        net(x)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e6


def main() -> None:
    """Print a row for each quantized model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default=sys.executable, help="Python of the other tools")
    peers = parser.parse_args().peers
    with tempfile.TemporaryDirectory() as folder:
        data, source = Path(folder) / "data.npz", Path(folder) / "float.onnx"
        subprocess.run([peers, "-c", DATA, str(data)], check=True)
        loaded = np.load(data)
        x, y = loaded["x"], loaded["y"]
        onnx.save(to_onnx(train(x[:1200], y[:1200])), source)
        samples = Path(folder) / "samples.npz"
        np.savez(samples, x=x[:256])
        held, labels = x[1200:], y[1200:]

        def row(name: str, model: Any, seconds: float) -> None:
            net = irc.compile_model(model, num_threads=1)
            found = net(held)[0]
            right = float((found.argmax(axis=1) == labels).mean())
            noise = float(((found - wanted) ** 2).sum())
            ratio = 10 * np.log10(float((wanted**2).sum()) / noise) if noise else np.inf
            spent = microseconds(net, held[:32])
            print(f"{name:24} {right:8.4f} {ratio:9.1f} {spent:10.0f} {seconds:9.1f}", flush=True)

        wanted = irc.compile_model(source, num_threads=1)(held)[0]
        print(f"{'model':24} {'accuracy':>8} {'SQNR dB':>9} {'us of 32':>10} {'seconds':>9}")
        row("float", source, 0.0)
        for method in ("minmax", "percentile", "mse", "entropy"):
            start = time.perf_counter()
            made = irc.quantize(source, samples, calibrate=method)
            row(f"irc {method}", made.to_onnx(), time.perf_counter() - start)
        for tool in ("onnxruntime minmax", "onnxruntime entropy", "nncf"):
            target = str(Path(folder) / "peer.onnx")
            command = [peers, "-c", PEERS, tool, str(source), str(samples), target]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{tool:24} not run: {done.stderr.strip().splitlines()[-1][:120]}")
            else:
                row(tool, target, float(done.stdout.split()[-1]))


if __name__ == "__main__":
    main()
