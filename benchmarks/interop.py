"""How well irc and OpenVINO read each other's IR, scored on the ONNX package's node cases.

    python -m benchmarks.interop read      # ONNX -> OpenVINO's IR -> irc, against expected values
    python -m benchmarks.interop write     # ONNX -> irc -> IR -> OpenVINO, against expected values

Both count the cases that OpenVINO itself converts (`ov.Core.read_model` of the ONNX model). Output
values and shapes must match at each case's own tolerance; element types may be those of the IR.
`--every N` takes one case of N, `--only TEXT` those whose name contains it, `--out FILE` writes why
each failed as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

# Shares of what OpenVINO converts; the test in tests/interop keeps them on its sample.
BAR = 0.85
# Element types that OpenVINO takes from NumPy as bits, and those that it packs.
_BITS = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    "int4": "i4",
    "uint4": "u4",
    "float4_e2m1fn": "f4e2m1",
    "uint2": "u2",
}
_PACKED = {"i4": 4, "u4": 4, "f4e2m1": 4, "u2": 2}


@dataclass(frozen=True)
class Case:
    """A node case: its model, and sets of inputs with expected outputs."""

    name: str
    model: onnx.ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def cases(every: int = 1, only: str = "") -> Iterator[Case]:
    """The node cases, sorted by name."""
    found = sorted(load_model_tests(kind="node"), key=lambda c: c.name)
    for number, case in enumerate(c for c in found if only in c.name):
        if number % every or case.model is None or not case.data_sets:
            continue
        sets = [([_plain(v) for v in i], [_plain(v) for v in o]) for i, o in case.data_sets]
        yield Case(case.name, case.model, sets, case.rtol, case.atol)


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    return numpy_helper.to_optional(value) if isinstance(value, onnx.OptionalProto) else value


def converted(case: Case) -> Any:
    """OpenVINO's model of a case, None where it does not convert it."""
    import openvino as ov

    try:
        return ov.Core().read_model(case.model.SerializeToString(), b"")
    except RuntimeError:
        return None


def read_by_irc(case: Case, model: Any) -> str | None:
    """Why irc does not compute a case from OpenVINO's IR of it; None where it does."""
    import openvino as ov

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        ov.serialize(model, path)
        net = irc.compile_model(path, num_threads=1)
        kept = {name for port in net.inputs for name in (port.name, *port.names)}
        ports = [port.name for port in case.model.graph.input]

        def run(inputs: list[Any]) -> list[Any]:
            feeds = dict(zip(ports, inputs, strict=False))
            # OpenVINO drops inputs that nothing reads.
            return list(net({name: v for name, v in feeds.items() if name in kept}))

        return _check(case, run)


def written_by_irc(case: Case, _: Any) -> str | None:
    """Why OpenVINO does not compute a case from the IR that irc writes; None where it does."""
    import openvino as ov

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        irc.save_model(case.model, path)
        # Low-precision kernels saturate on processors without VNNI.
        config = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": 1,
            "LP_TRANSFORMS_MODE": False,
        }
        net = ov.Core().compile_model(path, "CPU", config)

        def run(inputs: list[Any]) -> list[Any]:
            found = net([_for_openvino(v) for v in inputs])
            return [_from_openvino(found[i], port) for i, port in enumerate(net.outputs)]

        return _check(case, run)


def _for_openvino(array: Any) -> Any:
    import openvino as ov

    if not isinstance(array, np.ndarray) or array.dtype.name not in _BITS:
        return array
    name = _BITS[array.dtype.name]
    plain = np.array(array.view(np.uint16 if array.itemsize == 2 else np.uint8), order="C")
    bits = _PACKED.get(name)
    if bits:
        digits = (plain.reshape(-1, 1) >> np.arange(bits, dtype=np.uint8)) & 1
        plain = np.packbits(digits.reshape(-1), bitorder="little")
    tensor = ov.Tensor(getattr(ov.Type, name), ov.Shape(array.shape))
    raw = np.frombuffer(plain.tobytes(), np.uint8)
    tensor.data.view(np.uint8).reshape(-1)[:] = raw
    return tensor


def _from_openvino(array: Any, port: Any) -> Any:
    """An array as ml_dtypes has it, from the bits that OpenVINO gives."""
    name = port.get_element_type().get_type_name()
    known = next((k for k, v in _BITS.items() if v == name), None)
    if known is None:
        return array
    bits = _PACKED.get(name)
    raw = np.frombuffer(array.tobytes(), np.uint8)
    dtype = np.dtype(getattr(ml_dtypes, known))
    if not bits:
        return raw.view(dtype).reshape(array.shape)
    shape = [d.get_length() for d in port.partial_shape]
    count = int(np.prod(shape))
    digits = np.unpackbits(raw, bitorder="little")[: count * bits].reshape(-1, bits)
    codes = (digits << np.arange(bits, dtype=np.uint8)).sum(axis=1).astype(np.uint8)
    if known.startswith("int"):
        codes = (codes.astype(np.int8) << 4 >> 4).astype(np.int8)
        found = codes.astype(dtype)
    else:
        found = codes.astype(dtype) if known.startswith("uint") else codes.view(dtype)
    return found.reshape(shape)


def _check(case: Case, run: Callable[[list[Any]], list[Any]]) -> str | None:
    for inputs, outputs in case.sets:
        got = run(inputs)
        if len(got) != len(outputs):
            return f"{len(got)} outputs instead of {len(outputs)}"
        for have, want in zip(got, outputs, strict=True):
            reason = _differs(case, have, want)
            if reason:
                return reason
    return None


def _differs(case: Case, have: Any, want: Any) -> str | None:
    if not isinstance(want, np.ndarray | np.generic):
        return "not a tensor"
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape:
        return f"shape {have.shape} instead of {want.shape}"
    if want.dtype == object or want.dtype.kind in "US":
        return None if (have.astype(str) == want.astype(str)).all() else "text differs"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = (np.asarray(v).astype(wide) for v in (have, want))
    if np.allclose(a, b, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        return f"values differ by up to {np.nanmax(np.abs(a - b)):.3g}"


DIRECTIONS: dict[str, Callable[[Case, Any], str | None]] = {
    "read": read_by_irc,
    "write": written_by_irc,
}


def score(direction: str, *, every: int = 1, only: str = "") -> dict[str, str | None]:
    """By case that OpenVINO converts: None where it passed, else why not.

    A child process runs the cases: OpenVINO ends the process on some of them, and a new child
    goes on with the next one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = list(cases(every, only))
    fork = multiprocessing.get_context("fork")
    results: dict[str, str | None] = {}
    at = 0
    while at < len(listed):
        receive, send = fork.Pipe(duplex=False)
        child = fork.Process(target=_work, args=(direction, listed[at:], send), daemon=True)
        child.start()
        send.close()
        while at < len(listed):
            try:
                name, known, reason = receive.recv()
            except EOFError:
                results[listed[at].name] = "the process died"
                at += 1
                break
            at += 1
            if known:
                results[name] = reason
        child.join()
    return results


def _work(direction: str, listed: list[Case], send: Any) -> None:
    warnings.simplefilter("ignore")
    for case in listed:
        reason: str | None = None
        model = converted(case)
        if model is not None:
            try:
                reason = DIRECTIONS[direction](case, model)
            except Exception as error:  # a score counts what fails, whatever it is
                text = str(error).strip() or "no message"
                reason = f"{type(error).__name__}: {' '.join(text.split())[:300]}"
        send.send((case.name, model is not None, reason))


def share(results: dict[str, str | None]) -> float:
    """The part of the cases that passed."""
    return sum(reason is None for reason in results.values()) / max(len(results), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("direction", choices=list(DIRECTIONS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = score(options.direction, every=options.every, only=options.only)
    passed = sum(reason is None for reason in results.values())
    for name, reason in results.items():
        if reason is not None:
            print(f"{name}: {reason}")
    print(f"{options.direction}: {passed} of {len(results)} cases, {share(results):.1%}")
    if options.out:
        options.out.write_text(json.dumps(results, indent=0))


if __name__ == "__main__":
    main()
