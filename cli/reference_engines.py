"""onnxruntime and OpenVINO as callables, for `bench --against` and `compare --against`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler.frontends.onnx.expose_tensors import deliver_inner
from ..ir.errors import Error, ExecutionError, UsageError
from .arguments import Array
from .interrupts import keep_own_stack


@dataclass(frozen=True)
class Task:
    """What a reference engine runs: a file with fixed inputs by name, so many requests at a time,
    each with so many threads. `inner`: names of tensors inside the model to deliver as well, if it
    has them. `throughput`: the engine's own best settings for many requests a second."""

    path: Path
    inputs: Mapping[str, Array]
    threads: int
    precision: str
    requests: int = 1
    inner: Collection[str] = ()
    throughput: bool = False


@dataclass(frozen=True)
class ReferenceEngine:
    """`run` does one inference with fixed inputs; `outputs` are those of the last one, in order.
    `another` makes one more such call, which may run at the same time as others. `named` are the
    tensors inside the model that were requested, of the last one, as far as the engine has them."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[Any]]
    another: Callable[[], Callable[[], object]]
    named: Callable[[], dict[str, Array]] = dict


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed", got=str(error), fix=f"pip install {name}"
        ) from error


def onnxruntime(task: Task) -> ReferenceEngine:
    """The ONNX file in onnxruntime, on its CPU provider. Each request has its caller's thread, and
    for throughput a session of its own."""
    if task.path.suffix.lower() != ".onnx":
        raise UsageError(
            "onnxruntime can't read this file", got=str(task.path), expected="the model as .onnx"
        )
    if task.precision != "f32":
        raise UsageError(
            "onnxruntime has no such precision on CPUs", got=task.precision, expected="f32"
        )
    package = _package("onnxruntime")
    options = package.SessionOptions()
    options.intra_op_num_threads = task.threads
    options.log_severity_level = 3
    source = deliver_inner(task.path, task.inner) if task.inner else str(task.path)

    def new_session() -> Any:
        return package.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    session = new_session()
    feeds, held = dict(task.inputs), list[Any]()
    names = [output.name for output in session.get_outputs()]

    def run() -> None:
        held[:] = session.run(None, feeds)

    def second_runner() -> Callable[[], object]:
        own = new_session() if task.throughput else session
        return lambda: own.run(None, feeds)

    def outputs_by_name() -> dict[str, Array]:
        return dict(zip(names, held, strict=True))

    return ReferenceEngine("onnxruntime", run, lambda: list(held), second_runner, outputs_by_name)


def openvino(task: Task) -> ReferenceEngine:
    """The file in OpenVINO's CPU plugin, a stream of so many threads for each request, or the
    streams of its THROUGHPUT hint. Without the precision's hint it would compute in bf16 on
    machines that have matrix units for it."""
    if task.path.suffix.lower() not in (".onnx", ".xml"):
        raise UsageError(
            "openvino can't read this file",
            got=str(task.path),
            expected="the model as .onnx or .xml",
        )
    package = _package("openvino")
    core = package.Core()
    model = core.read_model(str(task.path))
    known = _inner_ports(model, task.path)
    asked = [n for n in task.inner if n in known]
    output_indices = [
        model.get_result_index(p) for p in model.add_outputs([known[n] for n in asked])
    ]
    settings: dict[str, object] = {"INFERENCE_PRECISION_HINT": task.precision}
    if task.throughput:
        settings["PERFORMANCE_HINT"] = "THROUGHPUT"
    else:
        settings["INFERENCE_NUM_THREADS"] = task.threads * task.requests
        settings["NUM_STREAMS"] = task.requests
    compiled = core.compile_model(model, "CPU", settings)
    keep_own_stack()
    kept = [np.asarray(a, order="C") for a in _in_order(model, task.inputs)]  # a scalar stays one

    def new_request() -> Any:
        made = compiled.create_infer_request()
        for number, array in enumerate(kept):
            made.set_input_tensor(number, package.Tensor(array, shared_memory=True))
        return made

    request = new_request()

    def outputs() -> list[Array]:
        return [np.array(request.get_output_tensor(i).data) for i in range(len(compiled.outputs))]

    def outputs_by_name() -> dict[str, Array]:
        arrays = outputs()
        return {name: arrays[at] for name, at in zip(asked, output_indices, strict=True)}

    return ReferenceEngine(
        "openvino", request.infer, outputs, lambda: new_request().infer, outputs_by_name
    )


def _inner_ports(model: Any, path: Path) -> dict[str, Any]:
    """What layers deliver, by tensor name; in an IR file also as `layer:0`."""
    ports = [(op, port) for op in model.get_ops() for port in op.outputs()]
    found = {name: port for _, port in ports for name in port.names}
    if path.suffix.lower() == ".xml":
        found |= {f"{op.friendly_name}:{port.index}": port for op, port in ports}
    return found


def _in_order(model: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs as the model orders them, by tensor name or by position."""
    found: list[Array] = []
    listed = list(inputs.values())
    for number, port in enumerate(model.inputs):
        names = {*port.names, port.node.friendly_name}
        by_name = [a for n, a in inputs.items() if n in names]
        found.append(by_name[0] if by_name else listed[number])
    return found


ENGINES: dict[str, Callable[[Task], ReferenceEngine]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def make_engine(name: str, task: Task) -> ReferenceEngine:
    """The engine of that name, which has run once. ExecutionError with its own words where it
    can't."""
    try:
        made = ENGINES[name](task)
        made.run()
    except Error:
        raise
    except Exception as error:
        raise ExecutionError(
            f"{name} can't run this model",
            where=str(task.path),
            got=" ".join(str(error).split())[:500],
            fix=f"leave {name} out of --against",
        ) from error
    return made


def parse_engines(text: str) -> list[str]:
    """`a,b` as names of ENGINES."""
    names = [n for n in text.split(",") if n]
    for name in names:
        if name not in ENGINES:
            raise UsageError("unknown reference engine", got=name, expected=", ".join(ENGINES))
    return names
