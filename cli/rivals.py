"""onnxruntime and OpenVINO as callables, for `bench --against` and `compare --against`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.errors import Error, ExecutionError, UsageError
from .arguments import Array
from .interrupts import keep_own_stack


@dataclass(frozen=True)
class Rival:
    """`run` does one inference with fixed inputs; `outputs` are those of the last one, in order.
    `another` makes one more such call, which may run at the same time as others."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[Any]]
    another: Callable[[], Callable[[], object]]


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed", got=str(error), fix=f"pip install {name}"
        ) from error


def onnxruntime(
    path: Path, inputs: Mapping[str, Array], threads: int, precision: str, requests: int = 1
) -> Rival:
    """The ONNX file in onnxruntime, on its CPU provider. Each request has its caller's thread."""
    if path.suffix.lower() != ".onnx":
        raise UsageError("onnxruntime reads .onnx files only", got=str(path))
    if precision != "f32":
        raise UsageError("onnxruntime has no such precision on CPUs", got=precision)
    package = _package("onnxruntime")
    options = package.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = package.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds, held = dict(inputs), list[Any]()

    def run() -> None:
        held[:] = session.run(None, feeds)

    def another() -> Callable[[], object]:
        return lambda: session.run(None, feeds)

    return Rival("onnxruntime", run, lambda: list(held), another)


def openvino(
    path: Path, inputs: Mapping[str, Array], threads: int, precision: str, requests: int = 1
) -> Rival:
    """The file in OpenVINO's CPU plugin, a stream of so many threads for each request. Without the
    hint it would compute in bf16 on machines that have matrix units for it."""
    package = _package("openvino")
    core = package.Core()
    model = core.read_model(str(path))
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads * requests,
        "NUM_STREAMS": requests,
    }
    compiled = core.compile_model(model, "CPU", settings)
    keep_own_stack()
    kept = [np.ascontiguousarray(a) for a in _in_order(model, inputs)]

    def new_request() -> Any:
        made = compiled.create_infer_request()
        for number, array in enumerate(kept):
            made.set_input_tensor(number, package.Tensor(array, shared_memory=True))
        return made

    request = new_request()

    def outputs() -> list[Array]:
        return [np.array(request.get_output_tensor(i).data) for i in range(len(compiled.outputs))]

    return Rival("openvino", request.infer, outputs, lambda: new_request().infer)


def _in_order(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs as the model orders them, by tensor name or by position."""
    found: list[Array] = []
    listed = list(inputs.values())
    for number, port in enumerate(model.inputs):
        names = {*port.names, port.node.friendly_name}
        by_name = [a for n, a in inputs.items() if n in names]
        found.append(by_name[0] if by_name else listed[number])
    return found


RIVALS: dict[str, Callable[[Path, Mapping[str, Array], int, str, int], Rival]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def rival(
    name: str,
    path: Path,
    inputs: Mapping[str, Array],
    threads: int,
    precision: str,
    requests: int = 1,
) -> Rival:
    """The rival of that name, which has run once. ExecutionError with its own words where it
    can't."""
    try:
        made = RIVALS[name](path, inputs, threads, precision, requests)
        made.run()
    except Error:
        raise
    except Exception as error:
        raise ExecutionError(
            f"{name} can't run this model", where=str(path), got=" ".join(str(error).split())[:500]
        ) from error
    return made


def parse_rivals(text: str) -> list[str]:
    """`a,b` as names of RIVALS."""
    names = [n for n in text.split(",") if n]
    for name in names:
        if name not in RIVALS:
            raise UsageError("unknown rival", got=name, expected=", ".join(RIVALS))
    return names
