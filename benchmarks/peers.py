"""The peers that benchmarks compare with, each as a callable that does one inference.

A peer gets the same ONNX model (its bytes, or its path) and the same inputs as irc, fixed buffers,
and its own best settings for a fixed number of threads. openvino computes in f32 by
INFERENCE_PRECISION_HINT: by default it may choose bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Peer:
    """`run` does one inference into fixed buffers, `outputs` copies its results in order."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[np.ndarray]]


def onnxruntime_peer(model: bytes | str, inputs: Mapping[str, np.ndarray], threads: int) -> Peer:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # By default it rounds the activations of products with compressed weights to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in inputs.items()}
    for name, value in kept.items():
        binding.bind_ortvalue_input(name, value)
    names = [o.name for o in session.get_outputs()]
    for name in names:
        binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    # Bound to what the first run allocated, so that later runs allocate nothing.
    outs = binding.get_outputs()
    for name, out in zip(names, outs, strict=True):
        binding.bind_ortvalue_output(name, out)

    def run() -> None:
        session.run_with_iobinding(binding)

    return Peer("onnxruntime", run, lambda: [np.array(kept and out.numpy()) for out in outs])


def openvino_peer(
    model: bytes | str,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    precision: str = "f32",
    *,
    name: str = "openvino",
) -> Peer:
    """OpenVINO in one precision; `precision` "" leaves that choice, and its others, to it."""
    import openvino as ov

    core = ov.Core()
    config: dict[str, object] = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    if precision:
        config["INFERENCE_PRECISION_HINT"] = precision
        config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
    read = core.read_model(model) if isinstance(model, str) else core.read_model(model, b"")
    compiled = core.compile_model(read, "CPU", config)
    request = compiled.create_infer_request()
    kept = {k: np.ascontiguousarray(v) for k, v in inputs.items()}  # tensors share this memory
    for port, value in kept.items():
        request.set_tensor(port, ov.Tensor(value, shared_memory=True))
    request.infer()
    count = len(compiled.outputs)

    def outputs() -> list[np.ndarray]:
        return [np.array(kept and request.get_output_tensor(i).data) for i in range(count)]

    return Peer(name, request.infer, outputs)


def openvino_defaults(
    model: bytes | str, inputs: Mapping[str, np.ndarray], threads: int, precision: str = ""
) -> Peer:
    """OpenVINO as it comes: it may compute in another precision than it was given."""
    return openvino_peer(model, inputs, threads, "", name="openvino defaults")


def numpy_layer(
    inputs: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray], threads: int
) -> Peer:
    """NumPy's product of a with b, and with bias c and ReLU where there is a c, into one array."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise SystemExit(
            "timing NumPy needs threadpoolctl: pip install 'irc-compiler[bench]'"
        ) from None

    threadpool_limits(threads)
    given = {**inputs, **weights}
    a, b, c = given["a"], given["b"], given.get("c")
    if a.ndim > 2 and a.shape[-1] != b.shape[-2]:
        b = b.swapaxes(1, 2)
    out = np.matmul(a, b)

    def run() -> None:
        np.matmul(a, b, out=out)
        if c is not None:
            np.add(out, c, out=out)
            np.maximum(out, 0, out=out)

    return Peer("numpy", run, lambda: [out.copy()])


PEERS: dict[str, Callable[..., Peer]] = {
    "onnxruntime": onnxruntime_peer,
    "openvino": openvino_peer,
    "openvino defaults": openvino_defaults,
}
