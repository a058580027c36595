"""Trains the digits classifier and writes samples/digits/digits.onnx and held_out.npz.

    pip install scikit-learn onnx
    python samples/train_digits.py

Both files are committed: this script is only for reading and for making them again. The data are
the 1797 images of scikit-learn's `load_digits`: the test half of "Optical Recognition of
Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI, 1998, CC BY 4.0), 8x8 pixels of 0..16.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

FOLDER = Path(__file__).parent / "digits"
HELD_OUT = 360
HIDDEN = (64, 64, 32)
WHITE = 16.0  # the brightest value a pixel takes
Layers = list[tuple[NDArray[np.float32], NDArray[np.float32]]]


def shifted(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The images and their copies moved by one pixel each way: five times as many."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    corners = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    return np.concatenate([padded[:, y : y + 8, x : x + 8] for y, x in corners])


def train(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Layers:
    """Weights [in, out] and bias [out] of each layer, in float32."""
    network = MLPClassifier(
        HIDDEN, alpha=1e-3, batch_size=64, learning_rate_init=2e-3, max_iter=40, random_state=0
    )
    pixels = shifted(images).reshape(-1, 64) / WHITE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 40 epochs are the stopping rule
        network.fit(pixels, np.tile(labels, len(pixels) // len(labels)))
    return [
        (weight.astype(np.float32), bias.astype(np.float32))
        for weight, bias in zip(network.coefs_, network.intercepts_, strict=True)
    ]


def to_onnx(layers: Layers) -> onnx.ModelProto:
    """Float32 image [N, 64] of 0..1 to probabilities [N, 10].

    The layers are written in the ways exporters write them, so that one small model shows each of
    them fused: MatMul and Add, Gemm as it is, Gemm with a transposed weight.
    """
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def node(op: str, inputs: list[str], output: str, **attributes: int) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes))
        return output

    x = "image"
    for number, (weight, bias) in enumerate(layers, 1):
        transposed = number % 3 == 0
        stored = np.ascontiguousarray(weight.T) if transposed else weight
        weights.append(numpy_helper.from_array(stored, f"weight{number}"))
        weights.append(numpy_helper.from_array(bias, f"bias{number}"))
        if number % 3 == 1:
            x = node("MatMul", [x, f"weight{number}"], f"product{number}")
            x = node("Add", [x, f"bias{number}"], f"sum{number}")
        else:
            inputs = [x, f"weight{number}", f"bias{number}"]
            x = node("Gemm", inputs, f"sum{number}", **({"transB": 1} if transposed else {}))
        if number < len(layers):
            x = node("Relu", [x], f"hidden{number}")
    node("Softmax", [x], "probabilities", axis=1)

    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        weights,
        doc_string="Handwritten digits: pixels / 16 in, probabilities of 0..9 out.",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="samples/train_digits.py",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def accuracy(layers: Layers, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> float:
    x = (images.reshape(-1, 64) / WHITE).astype(np.float32)
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    weight, bias = layers[-1]
    return float(np.mean(np.argmax(x @ weight + bias, axis=1) == labels))


def main() -> None:
    pixels, targets = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 8, 8).astype(np.uint8)
    labels = targets.astype(np.uint8)
    images, held_images, labels, held_labels = train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=0
    )
    layers = train(images, labels)
    FOLDER.mkdir(exist_ok=True)
    onnx.save(to_onnx(layers), FOLDER / "digits.onnx")
    np.savez_compressed(FOLDER / "held_out.npz", images=held_images, labels=held_labels)
    print(
        f"accuracy on {HELD_OUT} held-out images: {accuracy(layers, held_images, held_labels):.4f}"
    )


if __name__ == "__main__":
    main()
