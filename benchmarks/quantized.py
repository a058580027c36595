"""Quantised models for the benchmarks, and whether what irc makes of one is right."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .zoo import Inputs

# The least share of equal elements among quantised tensors.
SHARE = 0.999


def quantize(source: Path, target: Path, calibration: list[Inputs]) -> None:
    """Write the model with QuantizeLinear and DequantizeLinear around its operations, as
    onnxruntime's static quantisation does: u8 activations, i8 weights per channel, batch
    normalisation folded, ranges from `calibration`."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static as static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = list(calibration)

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            plain = str(Path(folder) / "plain.onnx")
            quant_pre_process(str(source), plain, skip_symbolic_shape=True)
            kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
            form = QuantFormat.QDQ
            static(plain, str(target), Reader(), quant_format=form, per_channel=True, **kinds)
    finally:
        logging.disable(logging.NOTSET)


def byte_error(path: str, inputs: Inputs, threads: int) -> tuple[float, int]:
    """(share of elements of all quantised tensors that differ from `evaluate`, largest difference
    in steps). Each tensor is evaluated from what irc gave for the ones before it: a step at a tie
    in one layer would move every layer behind it, in any two runtimes."""
    import irc
    import onnx
    from irc.compiler.frontends.onnx.reader import read_onnx
    from irc.ir.interpret import interpret

    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    made = {n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    watched = [v for v in model.graph.value_info if v.name in made]
    first = len(model.graph.output)
    model.graph.output.extend(watched)
    found = irc.compile_model(model, num_threads=threads)(inputs)[first:]
    given = dict(inputs)
    for value, array in zip(watched, found, strict=True):
        name = f"{value.name}/given"
        given[name] = np.array(array)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        kind = value.type.tensor_type.elem_type
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    known = {v.name for v in watched}
    for node in model.graph.node:
        node.input[:] = [f"{n}/given" if n in known else n for n in node.input]
    wanted = interpret(read_onnx(model), given)[first:]
    steps = [np.abs(a.astype(int) - b.astype(int)) for a, b in zip(found, wanted, strict=True)]
    unequal, count = sum(int((s > 0).sum()) for s in steps), sum(s.size for s in steps)
    return unequal / max(1, count), max((int(s.max()) for s in steps if s.size), default=0)
