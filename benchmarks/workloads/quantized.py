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
# How onnxruntime's static quantisation writes a model: its form, the type of activations, and
# whether weights (i8) have a scale per channel.
FORMS = {
    "u8": ("QDQ", "QUInt8", True),
    "s8": ("QDQ", "QInt8", False),
    "operators": ("QOperator", "QUInt8", True),
}


def quantize(source: Path, target: Path, calibration: list[Inputs], how: str) -> None:
    """Write the model as onnxruntime's static quantisation does, batch normalisation folded, ranges
    from `calibration`: with QuantizeLinear and DequantizeLinear around its operations (QDQ), or
    with quantised operations. `how`: a key of FORMS."""
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
            form, kind, channels = FORMS[how]
            kinds = {"activation_type": QuantType[kind], "weight_type": QuantType.QInt8}
            written = {"quant_format": QuantFormat[form], "per_channel": channels}
            static(plain, str(target), Reader(), **written, **kinds)
    finally:
        logging.disable(logging.NOTSET)


def byte_error(path: str, inputs: Inputs, threads: int) -> tuple[float, int]:
    """(share of elements of all quantised tensors that differ from `evaluate`, largest difference
    in steps). Each tensor is evaluated from what irc gave for the ones before it: a step at a tie
    in one layer would move every layer behind it, in any two runtimes."""
    import irc_compiler as irc
    import onnx
    from irc_compiler.compiler.frontends.onnx.reader import read_onnx
    from irc_compiler.ir.interpret import interpret

    model = onnx.load(path)
    first, ends = len(model.graph.output), {v.name for v in model.graph.output}
    nodes = [n for n in model.graph.node if n.op_type.startswith(("QuantizeLinear", "QLinear"))]
    watched = [n.output[0] for n in nodes if n.output[0] not in ends]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in watched)
    found = irc.compile_model(model, num_threads=threads)(inputs)[first:]
    given = dict(inputs)
    for name, array in zip(watched, found, strict=True):
        given[f"{name}/given"] = np.array(array)
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        made = onnx.helper.make_tensor_value_info(f"{name}/given", kind, array.shape)
        model.graph.input.append(made)
    known = set(watched)
    for node in model.graph.node:
        node.input[:] = [f"{n}/given" if n in known else n for n in node.input]
    wanted = interpret(read_onnx(model), given)[first:]
    steps = [np.abs(a.astype(int) - b.astype(int)) for a, b in zip(found, wanted, strict=True)]
    unequal, count = sum(int((s > 0).sum()) for s in steps), sum(s.size for s in steps)
    return unequal / max(1, count), max((int(s.max()) for s in steps if s.size), default=0)
