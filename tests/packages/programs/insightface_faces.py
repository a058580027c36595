"""Faces by insightface with its session subclass, pickled once, on the photograph that it ships.

The detector and the other models have random weights, and the inputs and outputs of buffalo_l.
"""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import onnx
from insightface.app import FaceAnalysis
from insightface.data import get_image
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)


class Network:
    """Nodes and initializers of a graph in the making, of convolutions."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def add(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape, scale=1.0):
        return self.constant((RNG.standard_normal(shape) * scale).astype(np.float32))

    def convolve(self, x, inputs, outputs, kernel, stride=1, scale=1.0):
        weight = self.random(outputs, inputs, kernel, kernel, scale=scale / kernel / inputs**0.5)
        edge = kernel // 2
        bias = self.constant(np.zeros(outputs, np.float32))
        return self.add(
            "Conv",
            x,
            weight,
            bias,
            strides=[stride] * 2,
            pads=[edge] * 4,
            kernel_shape=[kernel] * 2,
        )

    def add_block(self, x, inputs, outputs):
        x = self.convolve(x, inputs, outputs, 3, 2, 1.4)
        slope = self.constant(np.full((outputs, 1, 1), 0.25, np.float32))
        x = self.add("PRelu", x, slope)
        inner = self.add("Relu", self.convolve(x, outputs, outputs, 3))
        return self.add("Add", x, self.convolve(inner, outputs, outputs, 3))

    def save(self, path, size, outputs):
        sizes = [1, 3, *size]
        given = helper.make_tensor_value_info("input.1", TensorProto.FLOAT, sizes)
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs]
        graph = helper.make_graph(self.nodes, path.stem, [given], made, self.initializers)
        opsets = [helper.make_opsetid("", 12)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=7), path)


def write_detector(path):
    """Three levels with two anchors a cell: scores, boxes and landmarks."""
    net, outputs = Network(), {}
    x, channels = net.add_block("input.1", 3, 16), 16
    for stride in (4, 8, 16, 32):
        x, channels = net.add_block(x, channels, channels * 2), channels * 2
        if stride == 4:
            continue
        for kind, (width, scale) in enumerate(((1, 0.6), (4, 0.7), (10, 0.7))):
            y = net.convolve(x, channels, 2 * width, 3, scale=scale)
            if kind == 0:
                y = net.add("Sub", y, net.constant(np.float32(1.5)))
            elif kind == 1:
                y = net.add("Add", y, net.constant(np.float32(2)))
            y = net.add("Transpose", y, perm=[2, 3, 0, 1])
            y = net.add("Reshape", y, net.constant(np.array([-1, width], np.int64)))
            outputs[kind, stride] = net.add("Sigmoid", y) if kind == 0 else y, width
    made = [
        (name, [f"n{at}", w]) for at, (name, w) in enumerate(outputs[k] for k in sorted(outputs))
    ]
    net.save(path, ["?", "?"], made)


def write_network(path, size, width, blocks, scale):
    """Convolutions, a mean and a product."""
    net, channels = Network(), 16
    x = net.add_block("input.1", 3, channels)
    for _ in range(blocks - 1):
        x, channels = net.add_block(x, channels, channels * 2), channels * 2
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    weight = net.random(width, channels, scale=scale)
    x = net.add("Gemm", x, weight, net.random(width, scale=scale), transB=1)
    net.save(path, [size, size], [(x, [1, width])])


root = Path(tempfile.mkdtemp())
folder = root / "models" / "small"
folder.mkdir(parents=True)
write_detector(folder / "det_10g.onnx")
write_network(folder / "2d106det.onnx", 192, 212, 5, 0.1)
write_network(folder / "genderage.onnx", 96, 3, 4, 0.05)
write_network(folder / "w600k_r50.onnx", 112, 512, 4, 0.2)
faces = FaceAnalysis("small", root=str(root), providers=["CPUExecutionProvider"])
faces.prepare(ctx_id=-1, det_size=(640, 640), det_thresh=0.6)
for model in faces.models.values():
    model.session = pickle.loads(pickle.dumps(model.session))
picture = get_image("t1")


def answer():
    found = faces.get(picture, max_num=12)
    return [
        [
            (face.bbox / 1000).astype(float).tolist(),
            float(face.det_score),
            int(face.gender),
            int(face.age),
            (face.landmark_2d_106[::9] / 1000).astype(float).tolist(),
            face.normed_embedding.astype(float).tolist(),
        ]
        for face in found
    ]
