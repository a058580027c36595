"""The same scripts on OpenVINO and on its stand-in give the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> str:
    from irc_compiler import ops

    a, b = ops.parameter("a", [None, 3]), ops.parameter("b", [2, 3])
    path = tmp_path_factory.mktemp("models") / "two.xml"
    irc.save_model(ops.model({"sum": a + b, "product": a * b}), path)
    return str(path)


def compiled(ov: Any, path: str) -> Any:
    core = ov.Core()
    return core.compile_model(core.read_model(path), "CPU", CONFIG)


def port(p: Any) -> list[Any]:
    shape = p.get_partial_shape()
    return [
        p.get_any_name(),
        p.any_name,
        sorted(p.get_names()),
        str(p.partial_shape),
        p.element_type.get_type_name(),
        p.get_element_type().to_dtype().name,
        str(p.element_type),
        shape.is_dynamic,
        shape.rank.get_length(),
        [str(d) for d in shape],
        len(shape),
    ]


def metadata(ov: Any, two: str) -> list[Any]:
    found: list[Any] = []
    for path in (DIGITS, two):
        model = ov.Core().read_model(path)
        net = ov.Core().compile_model(path, "CPU", CONFIG)
        for held in (model, net):
            found += [port(p) for p in (*held.inputs, *held.outputs)]
            found += [held.output(0).get_any_name(), held.input(0).partial_shape[1].get_length()]
        found += [
            model.is_dynamic(),
            net.output("probabilities" if path == DIGITS else "sum").index,
        ]
        found += [net.input(0) == net.inputs[0]]
    return found


def reshape(ov: Any, two: str) -> list[Any]:
    model = ov.Core().read_model(DIGITS)
    model.reshape([2, 64])
    before = [str(model.input().shape), list(model.output().shape), model.input().shape == [2, 64]]
    model.reshape({"image": [-1, 64]})
    other = ov.Core().read_model(two)
    other.reshape({0: [2, 3]})
    return [*before, str(other.output(0).partial_shape), other.is_dynamic()]


def call(ov: Any, two: str) -> list[Any]:
    net = compiled(ov, DIGITS)
    by = [net(X), net([X]), net({0: X}), net({"image": X}), net({net.input(0): X})]
    found = [r[net.output(0)] for r in by] + [r[0] for r in by] + [by[0]["probabilities"]]
    y = by[0]
    found += [
        len(y),
        [p.get_any_name() for p in y],
        y.names(),
        list(y.to_tuple()),
        list(y.values()),
    ]
    found += [y.to_dict()[net.output(0)]]
    a, b = X[:2, :3], X[2:, :3].copy()
    many = compiled(ov, two)({"a": a, "b": b})
    return [*found, many["sum"], many[1], many[net_output(many, "product")]]


def net_output(results: Any, name: str) -> Any:
    return next(p for p in results if p.get_any_name() == name)


def requests(ov: Any, two: str) -> list[Any]:
    request = compiled(ov, DIGITS).create_infer_request()
    request.infer({"image": X})
    found = [request.get_output_tensor(0).data.copy(), request.get_tensor("image").data.copy()]
    request.set_tensor("image", ov.Tensor(X[:1]))
    request.infer()
    found += [
        request.get_tensor("probabilities").data.copy(),
        list(request.get_output_tensor().shape),
    ]
    request.set_input_tensor(ov.Tensor(X[1:3].copy(), shared_memory=True))
    request.infer()
    found += [request.results[0].copy(), request.output_tensors[0].data.copy()]
    tensor = request.get_input_tensor()
    tensor.data[:] = X[2:4]
    request.infer()
    found += [request.get_output_tensor().data.copy(), tensor.element_type.get_type_name()]
    pair = compiled(ov, two).create_infer_request()
    mine = np.full((2, 3), np.nan, np.float32)
    pair.set_output_tensor(1, ov.Tensor(mine, shared_memory=True))
    pair.infer([X[:2, :3].copy(), X[2:, :3].copy()])
    found += [
        mine.copy(),
        pair.get_output_tensor(0).data.copy(),
        pair.get_output_tensor(1).data.copy(),
    ]
    request = compiled(ov, DIGITS).create_infer_request()
    request.start_async({"image": X})
    request.wait()
    return [*found, request.get_output_tensor().data.copy()]


def queue(ov: Any, two: str) -> list[Any]:
    found: dict[int, Any] = {}
    jobs = ov.AsyncInferQueue(compiled(ov, DIGITS), 2)

    def done(request: Any, n: int) -> None:
        found[n] = request.get_output_tensor().data.copy()

    jobs.set_callback(done)
    for n in range(8):
        jobs.start_async({"image": X[n % 4 : n % 4 + 1]}, n)
    jobs.wait_all()
    return [len(jobs), *[found[n] for n in range(8)]]


def tensors(ov: Any, two: str) -> list[Any]:
    made = ov.Tensor(ov.Type.f32, ov.Shape([2, 3]))
    made.data[:] = 7
    copied, shared = ov.Tensor(X), ov.Tensor(X, shared_memory=True)
    return [
        made.data.copy(),
        str(made.shape),
        made.get_size(),
        made.byte_size,
        copied.data.copy(),
        np.may_share_memory(copied.data, X),
        np.may_share_memory(shared.data, X),
        ov.Type(np.int64).get_type_name(),
        ov.Type.f32 == copied.element_type,
        str(ov.PartialShape([1, -1])),
        list(ov.Shape([4, 5])),
    ]


SCRIPTS: dict[str, Callable[[Any, str], list[Any]]] = {
    f.__name__: f for f in (metadata, reshape, call, requests, queue, tensors)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_the_same(name: str, two: str) -> None:
    got = SCRIPTS[name](importlib.import_module("irc_compiler.compat.openvino"), two)
    wanted = SCRIPTS[name](importlib.import_module("openvino"), two)
    assert len(got) == len(wanted)
    for n, (g, w) in enumerate(zip(got, wanted, strict=True)):
        if isinstance(w, np.ndarray):
            assert g.dtype == w.dtype and g.shape == w.shape, n
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)
        elif isinstance(w, list) and w and isinstance(w[0], np.ndarray):
            np.testing.assert_allclose(np.array(g), np.array(w), rtol=1e-4, atol=1e-6)
        else:
            assert g == w, n


def test_threads_and_precision_are_heeded() -> None:
    core = importlib.import_module("irc_compiler.compat.openvino").Core()
    net = core.compile_model(DIGITS, "CPU", {"INFERENCE_NUM_THREADS": 1}).net
    assert net.stats().threads == 1 and net.plan.precision == "f32"
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": "2", "INFERENCE_PRECISION_HINT": "bf16"})
    net = core.compile_model(DIGITS).net
    assert net.stats().threads == 2 and net.plan.precision == "bf16"
    for hint in ("f16", core_types().f16):
        made = core.compile_model(DIGITS, "CPU", {"INFERENCE_PRECISION_HINT": hint})
        assert made.net.plan.precision == "f16"
        assert made.get_property("INFERENCE_PRECISION_HINT") == core_types().f16


def core_types() -> Any:
    return importlib.import_module("irc_compiler.compat.openvino").Type


def test_a_saved_model(tmp_path: Path) -> None:
    ov = importlib.import_module("irc_compiler.compat.openvino")
    ov.save_model(ov.convert_model(DIGITS), tmp_path / "m.xml", compress_to_fp16=False)
    assert (ov.compile_model(tmp_path / "m.xml")(X)[0] == compiled(ov, DIGITS)(X)[0]).all()


def test_clear_refusals() -> None:
    ov = importlib.import_module("irc_compiler.compat.openvino")
    net = compiled(ov, DIGITS)
    with pytest.raises(irc.UsageError, match="GPU"):
        ov.Core().compile_model(DIGITS, "GPU")
    with pytest.raises(irc.UsageError, match="no such input or output"):
        net.input("z")
    with pytest.raises(irc.ShapeError, match="dynamic shape"):
        _ = net.input(0).shape
    with pytest.raises(irc.InputError, match="element type"):
        net(X.astype(np.complex64))
    jobs = ov.AsyncInferQueue(net, 1)
    jobs.start_async(X.astype(np.complex64))
    with pytest.raises(irc.InputError, match="element type"):
        jobs.wait_all()
    jobs.start_async(X)
    jobs.wait_all()


@pytest.mark.parametrize(("value", "flushes"), [(True, True), (False, False), ("NO", False)])
def test_denormals_optimization_is_followed(value: Any, flushes: bool) -> None:
    ov = importlib.import_module("irc_compiler.compat.openvino")
    net = ov.Core().compile_model(DIGITS, "CPU", {"CPU_DENORMALS_OPTIMIZATION": value})
    assert net.net.plan.denormals.flush == flushes
