"""Convolutional networks with random weights: residual, inverted residual, branched."""

from __future__ import annotations

import math

import numpy as np
import onnx

from support.models.onnx_graph import OnnxGraph


class ConvNet(OnnxGraph):
    """Convolution, batch normalisation and activation as one word."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(17)
        self.rng = np.random.default_rng(seed)

    def conv(
        self,
        x: str,
        channels: int,
        outputs: int,
        size: int = 3,
        stride: int = 1,
        groups: int = 1,
        act: str | None = "Relu",
        norm: bool = True,
    ) -> str:
        """A square window with paddings that keep the size (at stride 1)."""
        name = f"c{len(self.initializers)}"
        depth = channels // groups * size * size
        shape = (outputs, channels // groups, size, size)
        filters = self.rng.standard_normal(shape) * math.sqrt(2 / depth)
        inputs = [self.weight(f"{name}.w", filters.astype(np.float32))]
        if not norm:
            bias = self.rng.standard_normal(outputs).astype(np.float32)
            inputs.append(self.weight(f"{name}.b", bias))
        pads = [size // 2] * 4
        y = self.op("Conv", x, *inputs, strides=[stride] * 2, pads=pads, group=groups)
        if norm:
            low, high = (0.5, -0.5, -0.5, 0.5), (1.5, 0.5, 0.5, 1.5)
            values = [
                self.weight(f"{name}.n{i}", self.rng.uniform(a, b, outputs).astype(np.float32))
                for i, (a, b) in enumerate(zip(low, high, strict=True))
            ]
            y = self.op("BatchNormalization", y, *values)
        return self.activate(y, act)

    def activate(self, y: str, act: str | None) -> str:
        if act == "Relu6":
            return self.op("Clip", y, self.constant(0, np.float32), self.constant(6, np.float32))
        return self.op(act, y) if act else y

    def matrix(self, rows: int, columns: int) -> str:
        """A random weight."""
        values = self.rng.standard_normal((rows, columns)) / math.sqrt(rows)
        return self.weight(f"m{len(self.initializers)}", values.astype(np.float32))

    def classify(self, x: str, channels: int, classes: int) -> onnx.ModelProto:
        """Mean over the image and a linear layer."""
        y = self.op("Flatten", self.op("GlobalAveragePool", x))
        weight = self.rng.standard_normal((channels, classes)) / math.sqrt(channels)
        self.output(self.op("Gemm", y, self.weight("fc", weight.astype(np.float32)), result="y"))
        return self.model()


def resnet(size: int = 64, batch: int | str = 1, width: int = 16) -> onnx.ModelProto:
    """ResNet-18's structure."""
    g = ConvNet()
    y = g.conv(g.input("x", (batch, 3, size, size)), 3, width, 7, 2)
    y = g.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = width
    for stage in range(4):
        outputs = width << stage
        for block in range(2):
            stride = 2 if stage and not block else 1
            z = g.conv(y, channels, outputs, 3, stride)
            z = g.conv(z, outputs, outputs, act=None)
            same = stride == 1 and channels == outputs
            side = y if same else g.conv(y, channels, outputs, 1, stride, act=None)
            y, channels = g.op("Relu", g.op("Add", z, side)), outputs
    return g.classify(y, channels, 10)


def mobilenet(size: int = 64, batch: int | str = 1) -> onnx.ModelProto:
    """MobileNetV2's structure, with squeeze-and-excite and hard swish in one block."""
    g = ConvNet(1)
    y, channels = g.conv(g.input("x", (batch, 3, size, size)), 3, 16, 3, 2, act="Relu6"), 16
    for expand, outputs, stride in ((1, 8, 1), (6, 12, 2), (6, 12, 1), (4, 20, 2), (4, 20, 1)):
        hidden = channels * expand
        z = y if expand == 1 else g.conv(y, channels, hidden, 1, act="Relu6")
        z = g.conv(
            z, hidden, hidden, 3, stride, hidden, act="HardSwish" if expand == 4 else "Relu6"
        )
        if expand == 4:
            s = g.op("ReduceMean", z, axes=[2, 3])
            s = g.conv(s, hidden, 8, 1, norm=False)
            z = g.op("Mul", z, g.conv(s, 8, hidden, 1, act="HardSigmoid", norm=False))
        z = g.conv(z, hidden, outputs, 1, act=None)
        y = g.op("Add", z, y) if stride == 1 and channels == outputs else z
        channels = outputs
    return g.classify(g.conv(y, channels, 64, 1, act="Relu6"), 64, 10)


def excited(size: int = 40, batch: int | str = 1) -> onnx.ModelProto:
    """Residual blocks whose channels are scaled: by linear layers behind a view as rows, as
    SENet has them, and by points with their biases, followed by a projection, as RegNet has."""
    g = ConvNet(3)
    y = g.conv(g.input("x", (batch, 3, size, size)), 3, 40, 3, 2)
    for linear in (True, False):
        z = g.conv(y, 40, 40, act=None)
        s = g.op("GlobalAveragePool", z)
        if linear:
            rows = g.op("Flatten", s)
            s = g.op("Relu", g.op("MatMul", rows, g.matrix(40, 10)))
            s = g.op("Sigmoid", g.op("MatMul", s, g.matrix(10, 40)))
            s = g.op("Reshape", s, g.constant([0, 40, 1, 1], np.int64))
            y = g.op("Relu", g.op("Add", g.op("Mul", z, s), y))
        else:
            s = g.conv(s, 40, 18, 1, norm=False)
            z = g.op("Mul", z, g.conv(s, 18, 40, 1, act="Sigmoid", norm=False))
            y = g.op("Add", g.conv(z, 40, 40, 1, act=None), y)
    return g.classify(y, 40, 10)


def inception(size: int = 35, batch: int | str = 1) -> onnx.ModelProto:
    """Branches joined along channels, means and maxima of windows, groups."""
    g = ConvNet(2)
    y = g.conv(g.input("x", (batch, 3, size, size)), 3, 24, 5, 2, norm=False)
    for channels in (24, 40):
        mean = g.op("AveragePool", y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
        parts = [
            g.conv(y, channels, 8, 1),
            g.conv(g.conv(y, channels, 6, 1), 6, 12),
            g.conv(y, channels, 16, groups=4 if channels % 16 else 8),
            g.conv(mean, channels, 4, 1, act="Sigmoid"),
        ]
        y = g.op("Concat", *parts, axis=1)
        y = g.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    return g.classify(y, 40, 7)
