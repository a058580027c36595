"""Inputs of other element types, properties and rt_info: as openvino takes and shows them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import openvino
import openvino.opset13 as opset
import pytest
from irc_compiler.compat.warn import forget_warnings
from onnx import TensorProto, helper

stand_in = importlib.import_module("irc_compiler.compat.openvino")
BOTH = pytest.mark.parametrize("ov", [stand_in, openvino], ids=["irc", "openvino"])
DIGITS = str(Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx")
CONFIG = {
    "INFERENCE_PRECISION_HINT": "f32",
    "INFERENCE_NUM_THREADS": 1,
    "CPU_DENORMALS_OPTIMIZATION": False,
}
PORTS = ("f16", "f32", "f64", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
GIVEN: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "boolean": np.bool_,
    **{t.replace("f", "float").replace("i", "int").replace("u", "uint"): None for t in PORTS},
}
DTYPES = [np.dtype(kind or name) for name, kind in GIVEN.items() if name != "bfloat16"]
DTYPES = sorted({d.name: d for d in DTYPES if d.name != "b"}.values(), key=lambda d: d.name)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, list[int]], str]:
    folder = tmp_path_factory.mktemp("ports")

    def path(kind: str, shape: list[int]) -> str:
        file = folder / f"{kind}_{len(shape)}.xml"
        if not file.exists():
            port = opset.parameter(shape, getattr(openvino.Type, kind))
            port.output(0).tensor.set_names({"x"})
            made = opset.result(opset.convert(port, "f64"))
            made.output(0).tensor.set_names({"y"})
            model = openvino.Model([made], [port], "m")
            openvino.save_model(model, file, compress_to_fp16=False)
        return str(file)

    return path


def compiled(ov: Any, path: str) -> Any:
    return ov.Core().compile_model(path, "CPU", CONFIG)


def outcome(net: Any, value: Any) -> list[float] | str:
    try:
        return net({"x": value})[0].tolist()
    except Exception:
        return "refused"


@pytest.mark.slow
@pytest.mark.parametrize("port", (*PORTS, "boolean"))
def test_arrays_are_cast_as_openvino_casts_them(port: str, models: Any) -> None:
    """Every element type into every other one; the values are such that no cast is undefined."""
    nets = [compiled(ov, models(port, [-1])) for ov in (stand_in, openvino)]
    for dtype in DTYPES:
        value = np.array([0, 1, 1.75, 100, 3]).astype(dtype)
        mine, theirs = (outcome(net, value) for net in nets)
        assert mine == theirs, (port, dtype)
        sliced = np.repeat(value, 2)[::2]
        assert sliced.tolist() == value.tolist() and outcome(nets[0], sliced) == mine


@BOTH
def test_tensors_are_not_cast(ov: Any, models: Any) -> None:
    net = compiled(ov, models("i32", [-1]))
    with pytest.raises(Exception, match="element type|precision"):
        net({"x": ov.Tensor(np.arange(3))})
    request = net.create_infer_request()
    for put in (lambda t: request.set_tensor("x", t), lambda t: request.set_input_tensor(0, t)):
        with pytest.raises(Exception, match="element type|precision"):
            put(ov.Tensor(np.arange(3)))
        put(ov.Tensor(np.arange(3, dtype=np.int32)))
        assert request.infer()[0].tolist() == [0, 1, 2]


class Array:
    """What only NumPy's protocol reads."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array([1, 2], dtype)


@BOTH
def test_lists_scalars_and_array_likes(ov: Any, models: Any) -> None:
    i64, scalar = compiled(ov, models("i64", [-1])), compiled(ov, models("f32", []))
    for value in ([1, 2], np.array([1, 2]), Array(), np.array([1, 2], object)):
        assert i64({"x": value})[0].tolist() == [1, 2]
    assert i64([1, 2])[0].tolist() == [1, 2] and i64([np.array([3.5])])[0].tolist() == [3]
    assert i64({"x": np.array(3)})[0].tolist() == [3]
    for number in (2.5, 2, np.float64(2.5), np.array(2.5)):
        assert scalar({"x": number})[0].tolist() == pytest.approx(float(number))


def test_lists_take_the_type_of_the_port_and_text_is_refused(models: Any) -> None:
    """openvino refuses a list where NumPy's default type is not the port's."""
    net = compiled(stand_in, models("i32", [-1]))
    assert net({"x": [1, 2]})[0].tolist() == [1, 2] and net([1, 2])[0].tolist() == [1, 2]
    for wrong in (np.array(["1"]), np.array([1j]), "ab", b"ab", None, {"q": 1}, [[1], [2, 3]]):
        with pytest.raises(irc.InputError):
            net({"x": wrong})


def state_model() -> Any:
    """A cache that grows along axis 1 and is gathered by `beam_idx` (i32), as of optimum-intel."""
    ids, beam = opset.parameter([-1, -1], np.int64), opset.parameter([-1], np.int32)
    ids.output(0).tensor.set_names({"input_ids"})
    beam.output(0).tensor.set_names({"beam_idx"})
    shape = opset.shape_of(ids)
    batch, length = (opset.gather(shape, np.array([n]), np.array(0)) for n in (0, 1))
    # openvino takes a constant size for the variable's size in all runs.
    sizes = opset.concat([batch, opset.divide(length, length)], 0)
    start = opset.broadcast(opset.constant(np.float32(0)), sizes)
    from openvino.op.util import Variable, VariableInfo

    held = VariableInfo()
    held.data_shape = openvino.PartialShape([-1, -1])
    held.data_type, held.variable_id = openvino.Type.f32, "past"
    variable = Variable(held)
    past = opset.gather(opset.read_value(start, variable), beam, np.array(0))
    grown = opset.concat([past, opset.convert(ids, "f32")], 1)
    logits = opset.result(opset.reduce_sum(grown, np.array([1])))
    logits.output(0).tensor.set_names({"logits"})
    return openvino.Model([logits], [opset.assign(grown, variable)], [ids, beam], "llm")


def test_a_loop_of_tokens_as_optimum_intel_runs_it(tmp_path: Path) -> None:
    """Against sums by hand: OpenVINO 2026.4 gives others in about one of five runs."""
    openvino.save_model(state_model(), tmp_path / "llm.xml", compress_to_fp16=False)
    core = stand_in.Core()
    model = core.read_model(tmp_path / "llm.xml")
    config = {**CONFIG, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
    net = core.compile_model(model, "CPU", config)
    sums: list[list[float]] = []
    for _ in range(2):
        request = net.create_infer_request()
        request.reset_state()
        tokens, beams = np.array([[1, 2, 3], [4, 5, 6]]), np.arange(2, dtype=int)
        for step in range(3):
            inputs = {"input_ids": tokens, "beam_idx": beams}
            request.start_async(inputs, share_inputs=True)
            request.wait()
            sums.append(request.get_tensor("logits").data.tolist())
            tokens, beams = np.array([[step], [10]]), np.array([1, 0])
        assert len(request.query_state()) == 1
    assert sums == [[6, 15], [15, 16], [17, 25]] * 2


def with_metadata(folder: Path) -> str:
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    helper.set_model_props(proto, {"character": "a\nb", "stride": "32"})
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return str(folder / "m.onnx")


@BOTH
def test_rt_info_is_read_set_and_saved(ov: Any, tmp_path: Path) -> None:
    model = ov.Core().read_model(with_metadata(tmp_path))
    assert model.get_rt_info()["framework"]["character"].value == "a\nb"
    assert model.rt_info["framework"]["stride"].astype(int) == 32
    assert model.get_rt_info(["framework", "stride"]).astype(str) == "32"
    assert model.get_rt_info(["framework", "stride"]) == "32"
    assert model.has_rt_info(["framework", "stride"])
    assert not model.has_rt_info(["framework", "nothing"])
    with pytest.raises(Exception):  # noqa: B017 (openvino's is a RuntimeError)
        model.get_rt_info(["framework", "nothing"])
    model.set_rt_info("64", ["framework", "stride"])
    model.set_rt_info("new", ["mine", "key"])
    ov.save_model(model, tmp_path / "saved.xml")
    again = openvino.Core().read_model(tmp_path / "saved.xml")
    assert again.get_rt_info(["framework", "stride"]).astype(str) == "64"
    assert again.get_rt_info(["mine", "key"]).astype(str) == "new"


def test_properties_without_effect_warn_once() -> None:
    forget_warnings()
    core = stand_in.Core()
    config = {**CONFIG, "PERFORMANCE_HINT": "UNKNOWN", "NUM_STREAMS": 4, "CACHE_DIR": "/x"}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        core.compile_model(DIGITS, "CPU", config)
        core.compile_model(DIGITS, "CPU", config)
        core.compile_model(DIGITS, "CPU", {"INFERENCE_PRECISION_HINT": openvino.Type.f32})
        core.compile_model(DIGITS, "CPU", {"INFERENCE_PRECISION_HINT": stand_in.Type.f32})
    texts = [str(w.message) for w in found]
    for option in ("PERFORMANCE_HINT=UNKNOWN", "NUM_STREAMS=4", "CACHE_DIR"):
        assert sum(option in text for text in texts) == 1, texts
    assert len(texts) == 3 and all(w.filename == __file__ for w in found)
    forget_warnings()


def test_throughput_hint() -> None:
    """As many requests of one thread each as the property gives threads."""
    config = {"INFERENCE_NUM_THREADS": 3, "PERFORMANCE_HINT": "THROUGHPUT"}
    net = stand_in.Core().compile_model(DIGITS, "CPU", config)
    again = stand_in.Core().import_model(net.export_model(), "CPU", config)
    for one in (net, again):
        assert one.net.session.num_threads == 1
        assert one.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS") == 3
        assert one.get_property("NUM_STREAMS") == one.get_property("INFERENCE_NUM_THREADS") == 3
        assert one.get_property("PERFORMANCE_HINT").name == "THROUGHPUT"
        assert len(stand_in.AsyncInferQueue(one)) == 3


def test_a_wrong_attribute_names_the_nearest() -> None:
    core = stand_in.Core()
    request = core.compile_model(DIGITS).create_infer_request()
    wrong: dict[str, Callable[[], Any]] = {
        "compile_model": lambda: core.compile_models,
        "create_infer_request": lambda: core.compile_model(DIGITS).create_infer_requests,
        "get_output_tensor": lambda: request.get_output_tensors,
        "AsyncInferQueue": lambda: stand_in.AsyncInferQueues,
    }
    for nearest, act in wrong.items():
        with pytest.raises(AttributeError, match=f"the nearest that it has is '{nearest}'"):
            act()


def test_declared_types_that_contradict_inference_are_refused(tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    ends = [helper.make_tensor_value_info("y", TensorProto.INT64, [2])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports, ends)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    with pytest.raises(irc.ShapeError, match="declared type contradicts inference") as error:
        stand_in.Core().read_model(model)
    shown = str(error.value)
    for part in ('output "y"', "i64[2]", "f32[2]", "declared_shapes"):
        assert part in shown
