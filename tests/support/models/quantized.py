"""Quantised models as onnxruntime's tools make them from the small float ones."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import onnx

from support.models.convnets import ConvNet
from support.models.oracles import Arrays, random_inputs


def network(size: int = 20) -> onnx.ModelProto:
    """Residual blocks with and without a convolution at their side, and a depthwise one."""
    g = ConvNet()
    y = g.conv(g.input("x", (2, 3, size, size)), 3, 8, 5, 2)
    y = g.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    z = g.conv(g.conv(y, 8, 8), 8, 8, act=None)
    y = g.op("Relu", g.op("Add", z, y))
    z = g.conv(g.conv(y, 8, 16, 3, 2), 16, 16, 1, act=None)
    y = g.op("Add", z, g.conv(y, 8, 16, 1, 2, act=None))
    y = g.conv(y, 16, 16, groups=16, act="HardSwish")
    return g.classify(g.conv(y, 16, 20, 1, act="Relu6"), 20, 10)


def _prepared(model: onnx.ModelProto, folder: str) -> str:
    """The model as a file, batch normalisation folded into convolutions."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = str(Path(folder) / "float.onnx")
    onnx.save(model, path)
    quant_pre_process(path, path, skip_symbolic_shape=True)
    return path


def static(
    model: onnx.ModelProto,
    *,
    signed: bool = False,
    per_channel: bool = True,
    inputs: Arrays | None = None,
    **dims: int,
) -> onnx.ModelProto:
    """QuantizeLinear and DequantizeLinear around everything, ranges from `inputs` or random
    ones."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [inputs or random_inputs(model, **dims)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = _prepared(model, folder), str(Path(folder) / "int8.onnx")
            quantize_static(
                source,
                target,
                Reader(),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=per_channel,
            )
            return onnx.load(target)
    finally:
        logging.disable(logging.NOTSET)


def dynamic(model: onnx.ModelProto, *, signed: bool = True) -> onnx.ModelProto:
    """DynamicQuantizeLinear and MatMulInteger in place of products with constants."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = str(Path(folder) / "float.onnx"), str(Path(folder) / "int8.onnx")
            onnx.save(model, source)
            kind = QuantType.QInt8 if signed else QuantType.QUInt8
            quantize_dynamic(source, target, weight_type=kind)
            return onnx.load(target)
    finally:
        logging.disable(logging.NOTSET)


def with_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every quantised tensor as an output besides its own."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    names = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {v.name: v for v in inferred.graph.value_info}
    made.graph.output.extend(known[n] for n in names if n in known)
    return made
