"""The peers that benchmarks compare with, each as a callable that does one inference.

A peer gets the same ONNX model and the same inputs as irc, fixed buffers, and its own best
settings for a fixed number of threads. openvino is told to compute in f32: by default it may
choose bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Peer:
    """`run` does one inference into fixed buffers, `output` copies the first result."""

    name: str
    run: Callable[[], object]
    output: Callable[[], np.ndarray]


def onnxruntime_peer(model: bytes, inputs: Mapping[str, np.ndarray], threads: int) -> Peer:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in inputs.items()}
    for name, value in kept.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    session.run_with_iobinding(binding)
    # Bound to what the first run allocated, so that later runs allocate nothing.
    out = binding.get_outputs()[0]
    binding.bind_ortvalue_output(session.get_outputs()[0].name, out)

    def run() -> None:
        session.run_with_iobinding(binding)

    return Peer("onnxruntime", run, lambda: np.array(kept and out.numpy()))


def openvino_peer(
    model: bytes, inputs: Mapping[str, np.ndarray], threads: int, precision: str = "f32"
) -> Peer:
    import openvino as ov

    core = ov.Core()
    config = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }
    compiled = core.compile_model(core.read_model(model, b""), "CPU", config)
    request = compiled.create_infer_request()
    kept = {k: np.ascontiguousarray(v) for k, v in inputs.items()}  # tensors share this memory
    for name, value in kept.items():
        request.set_tensor(name, ov.Tensor(value, shared_memory=True))
    request.infer()
    return Peer(
        "openvino", request.infer, lambda: np.array(kept and request.get_output_tensor(0).data)
    )


PEERS: dict[str, Callable[[bytes, Mapping[str, np.ndarray], int], Peer]] = {
    "onnxruntime": onnxruntime_peer,
    "openvino": openvino_peer,
}
