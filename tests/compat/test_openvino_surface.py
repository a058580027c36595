"""Shapes, nodes, properties, preprocessing and opset modules: the same script on both packages."""

from __future__ import annotations

import importlib
import io
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino
import pytest

stand_in = importlib.import_module("irc_compiler.compat.openvino")
DIGITS = str(Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx")
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 64)).astype(np.float32)
IMAGE = RNG.integers(0, 256, (2, 6, 8, 3)).astype(np.uint8)


def error(call: Callable[[], Any]) -> Any:
    """What a call gives, or that it fails."""
    try:
        return call()
    except Exception:
        return "fails"


def module(ov: Any, name: str) -> Any:
    return importlib.import_module(f"{ov.__name__}.{name}")


def small_model(ov: Any, shape: Any = (2, 3, 6, 8)) -> Any:
    """A model that reads an image of floats."""
    opset = module(ov, "opset13")
    image = opset.parameter(ov.PartialShape(list(shape)), np.float32, name="image")
    image.output(0).set_names({"image"}) if ov is stand_in else image.output(
        0
    ).get_tensor().set_names({"image"})
    scaled = opset.multiply(image, np.float32(2))
    scaled.set_friendly_name("scaled")
    made = opset.reduce_sum(scaled, np.array([2, 3]), keep_dims=False)
    made.set_friendly_name("sums")
    if ov is stand_in:
        made.output(0).set_names({"sums"})
    else:
        made.output(0).get_tensor().set_names({"sums"})
    return ov.Model([opset.result(made)], [image], "small")


def run(ov: Any, model: Any, *inputs: Any) -> list[Any]:
    net = ov.compile_model(model, "CPU", CONFIG)
    found = net(list(inputs))
    return [np.array(found[n]) for n in range(len(net.outputs))]


def shapes(ov: Any) -> list[Any]:
    dims = [ov.Dimension(3), ov.Dimension(-1), ov.Dimension(1, 8), ov.Dimension("2..")]
    found = [[str(d), repr(d), d.is_static, d.min_length, d.max_length] for d in dims]
    found += [dims[0].compatible(dims[2]), dims[2].refines(dims[1]), dims[1].relaxes(dims[2])]
    for text in ("1,3,?", "[1,3..5,..7,2..]", "...", "[?,3]"):
        shape = ov.PartialShape(text)
        found += [str(shape), repr(shape), shape.is_dynamic, str(shape.rank), len(text)]
    mixed = ov.PartialShape([1, (2, 3), -1, ov.Dimension(4, 5), "1..9"])
    found += [str(mixed), str(mixed.get_min_shape()), list(mixed.get_max_shape()), str(mixed[1:3])]
    other = ov.PartialShape([1, 2, 7, 4, 1])
    found += [mixed.compatible(other), other.refines(mixed), mixed.same_scheme(other)]
    mixed[1] = 9
    found += [str(mixed), str(ov.PartialShape.dynamic()), ov.PartialShape([2, 3]) == [2, 3]]
    return [*found, error(lambda: mixed.to_shape()), error(lambda: ov.Dimension(1, 8).get_length())]


def layouts(ov: Any) -> list[Any]:
    found: list[Any] = []
    for text in ("NCHW", "nhwc", "N...C", "[n,c,h,w]", "N??C", "..."):
        layout = ov.Layout(text)
        found += [str(layout), repr(layout), layout.has_name("C"), layout.empty]
        found += [error(lambda layout=layout: layout.get_index_by_name("C"))]
    found += [ov.Layout("NCHW") == ov.Layout("nchw"), ov.Layout("NCHW") == "NCHW"]
    return [*found, error(lambda: ov.Layout("NCC")), ov.layout_helpers.has_batch(ov.Layout("NC"))]


def types(ov: Any) -> list[Any]:
    names = ("f16", "bf16", "f32", "f64", "i4", "i8", "i64", "u8", "nf4", "boolean", "string")
    found: list[Any] = []
    for kind in (getattr(ov.Type, name) for name in names):
        found += [repr(kind), kind.get_type_name(), kind.is_real(), kind.is_integral()]
        found += [kind.is_dynamic()]
    return [*found, ov.Type.f32.size, ov.Type.f32.bitwidth, ov.Type(np.int8).get_type_name()]


def nodes(ov: Any) -> list[Any]:
    model = small_model(ov)
    ops = model.get_ordered_ops()
    kinds = sorted(op.get_type_name() for op in ops)
    found = [kinds, len(model.get_ops()), len(model.get_sinks()), model.get_friendly_name()]
    made = next(op for op in ops if op.get_friendly_name() == "scaled")
    found += [made.get_input_size(), made.get_output_size(), str(made.get_output_shape(0))]
    found += [made.input_value(0).get_node().get_friendly_name(), made.output(0).get_index()]
    found += [made.get_element_type().get_type_name(), made.get_type_name()]
    found += [[p.get_friendly_name() for p in model.get_parameters()], len(model.get_results())]
    found += [model.get_parameter_index(model.get_parameters()[0])]
    constant = next(op for op in ops if op.get_type_name() == "Constant" and op.data.size == 2)
    found += [constant.data.tolist(), model.get_result().get_type_name(), model.is_dynamic()]
    copy = model.clone()
    ports = copy.add_outputs(["image", ("scaled", 0)])
    found += [len(ports), len(copy.outputs), len(model.outputs)]
    found += [[str(p.partial_shape) for p in copy.outputs], str(copy.get_output_shape(1))]
    copy.reshape([1, 3, 4, 4])
    found += [str(copy.outputs[0].shape), str(model.outputs[0].shape)]
    copy.reshape({"image": [ov.Dimension(1, 8), 3, -1, "2..5"]})
    found += [str(copy.inputs[0].partial_shape), copy.is_dynamic(), copy.dynamic]
    copy.set_rt_info("7", ["mine", "answer"])
    found += [
        copy.has_rt_info(["mine", "answer"]),
        copy.get_rt_info(["mine", "answer"]).astype(str),
    ]
    image = np.ones((2, 3, 4, 5), np.float32)
    return [*found, *run(ov, copy, image), str(copy.input("image").any_name)]


def batches(ov: Any) -> list[Any]:
    model = small_model(ov, (-1, 3, 6, 8))
    found: list[Any] = [error(lambda: ov.set_batch(model, 4)), error(lambda: ov.get_batch(model))]
    model.get_parameters()[0].set_layout(ov.Layout("NCHW"))
    ov.set_batch(model, 4)
    found += [str(model.input().partial_shape), str(ov.get_batch(model))]
    ov.set_batch(model, ov.Dimension(1, 5))
    return [*found, str(model.input().partial_shape), str(model.output().partial_shape)]


def properties(ov: Any) -> list[Any]:
    props, hint = module(ov, "properties"), module(ov, "properties.hint")
    found = [str(props.inference_num_threads), props.inference_num_threads()]
    found += [props.inference_num_threads(3)[0], hint.performance_mode(), props.streams.num()]
    found += [str(hint.PerformanceMode.LATENCY), hint.PerformanceMode.THROUGHPUT.value]
    found += [props.device.full_name(), props.log.level(), props.hint.ExecutionMode.ACCURACY.value]
    config = {props.inference_num_threads: 1, hint.inference_precision: ov.Type.f32}
    config[hint.performance_mode] = hint.PerformanceMode.LATENCY
    core = ov.Core()
    net = core.compile_model(DIGITS, "CPU", config)
    found += [net.get_property(props.inference_num_threads), net.get_property("NUM_STREAMS")]
    found += [net.get_property("INFERENCE_PRECISION_HINT").get_type_name()]
    found += [net.get_property("EXECUTION_DEVICES"), core.available_devices]
    found += [type(core.get_property("CPU", "FULL_DEVICE_NAME")).__name__]
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1})
    found += [core.get_property("CPU", props.inference_num_threads)]
    return [*found, "CPU" in core.get_versions("CPU"), error(lambda: net.get_property("NOTHING"))]


def requests(ov: Any) -> list[Any]:
    core = ov.Core()
    model = core.read_model(DIGITS)
    net = core.compile_model(model, "CPU", {**CONFIG, "PERF_COUNT": True})
    request = net.create_infer_request()
    found = [request.latency]
    y = request.infer({net.input(0): X.astype(np.float64)})[net.output(0)]
    found += [y, request.latency > 0, len(request.get_profiling_info()) > 0]
    info = request.profiling_info[0]
    found += [info.real_time.total_seconds() >= 0, isinstance(info.node_name, str)]
    request.set_input_tensors([ov.Tensor(X[:2])])
    request.infer()
    found += [np.array(request.get_tensor("probabilities").data), len(request.query_state())]
    tensor = ov.Tensor(ov.Type.f32, ov.Shape([2, 64]))
    tensor.copy_from(ov.Tensor(X[2:]))
    request.set_tensors({"image": tensor})
    request.infer()
    found += [np.array(request.get_output_tensor().data), tensor.get_size(), list(tensor.strides)]
    devices = set(core.query_model(model, "CPU").values())
    stream = io.BytesIO()
    net.export_model(stream)
    again = core.import_model(stream, "CPU", CONFIG)
    same = core.import_model(net.export_model(), "CPU", CONFIG)
    return [*found, devices, again(X)[0], same(X)[0], repr(net).splitlines()[0]]


def conversions(ov: Any) -> list[Any]:
    found: list[Any] = []
    for given in ([2, 64], {"image": [3, 64]}, [("image", [1, 64])], {"image": [-1, 64]}):
        model = ov.convert_model(DIGITS, input=given)
        found += [str(model.input().partial_shape), str(model.output().partial_shape)]
    return [*found, ov.convert_model(DIGITS, output="probabilities").output().any_name]


def image_steps(ov: Any) -> list[Any]:
    pp = ov.preprocess
    model = small_model(ov)
    ppp = pp.PrePostProcessor(model)
    ppp.input().tensor().set_element_type(ov.Type.u8).set_layout(
        ov.Layout("NHWC")
    ).set_color_format(pp.ColorFormat.BGR)
    steps = ppp.input("image").preprocess()
    steps.convert_element_type(ov.Type.f32).convert_color(pp.ColorFormat.RGB)
    steps.mean([1.0, 2.0, 3.0]).scale([0.5, 2.0, 4.0]).mean(3.0)
    ppp.input().model().set_layout(ov.Layout("NCHW"))
    ppp.output(0).tensor().set_element_type(ov.Type.f16).set_layout(ov.Layout("CN"))
    ppp.output(0).model().set_layout(ov.Layout("NC"))
    built = ppp.build()
    found = [str(built.input().partial_shape), built.input().element_type.get_type_name()]
    found += [built.input().any_name, str(built.output().partial_shape)]
    return [*found, *run(ov, built, IMAGE)]


def resizes(ov: Any) -> list[Any]:
    pp = ov.preprocess
    found: list[Any] = []
    for algorithm in ("LINEAR", "CUBIC", "NEAREST"):
        model = small_model(ov, (2, 3, 4, 5))
        ppp = pp.PrePostProcessor(model)
        info = ppp.input(0)
        info.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
        info.tensor().set_spatial_dynamic_shape()
        kind = getattr(pp.ResizeAlgorithm, f"RESIZE_{algorithm}")
        info.preprocess().convert_element_type(ov.Type.f32).resize(kind)
        info.model().set_layout(ov.Layout("NCHW"))
        built = ppp.build()
        found += [str(built.input().partial_shape), *run(ov, built, IMAGE)]
    return found


def other_steps(ov: Any) -> list[Any]:
    pp, opset = ov.preprocess, module(ov, "opset13")
    model = small_model(ov, (2, 3, 4, 5))
    ppp = pp.PrePostProcessor(model)
    ppp.input().tensor().set_shape([2, 6, 8, 3]).set_layout(ov.Layout("NHWC"))
    steps = ppp.input().preprocess()
    steps.crop([0, 1, 2, 0], [2, 4, 7, 3]).pad(
        [0, 0, 0, 0], [0, 1, 0, 0], 1.5, pp.PaddingMode.CONSTANT
    )
    steps.reverse_channels().custom(lambda output: opset.abs(output).output(0)).convert_layout(
        [0, 3, 1, 2]
    )
    ppp.output().postprocess().custom(lambda output: opset.negative(output).output(0))
    x = RNG_FREE.reshape(2, 6, 8, 3)
    built = ppp.build()
    return [str(built.input().partial_shape), *run(ov, built, x)]


RNG_FREE = np.linspace(-1, 1, 2 * 6 * 8 * 3, dtype=np.float32)


def planes(ov: Any) -> list[Any]:
    pp = ov.preprocess
    model = small_model(ov, (1, 3, 6, 8))
    ppp = pp.PrePostProcessor(model)
    ppp.input().tensor().set_element_type(ov.Type.u8).set_color_format(
        pp.ColorFormat.NV12_TWO_PLANES, ["y", "uv"]
    )
    ppp.input().preprocess().convert_color(pp.ColorFormat.RGB)
    ppp.input().model().set_layout(ov.Layout("NCHW"))
    built = ppp.build()
    y, uv = IMAGE[:1, :, :, :1].copy(), IMAGE[1:, :3, :4, :2].copy()
    found = [[str(p.partial_shape) for p in built.inputs], [p.any_name for p in built.inputs]]
    return [*found, *run(ov, built, y, uv)]


def opsets(ov: Any) -> list[Any]:
    opset = module(ov, "opset8")
    x = opset.parameter([1, 2, 5, 6], np.float32, name="x")
    w = np.linspace(-1, 1, 3 * 2 * 3 * 3, dtype=np.float32).reshape(3, 2, 3, 3)
    made = opset.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1])
    made = opset.relu(opset.add(made, np.ones((1, 3, 1, 1), np.float32)))
    pooled = opset.max_pool(made, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2])
    flat = opset.reshape(pooled.output(0), np.array([1, -1]), special_zero=False)
    soft = opset.softmax(flat, axis=1)
    values = opset.topk(flat, np.int64(3), axis=1, mode="max", sort="value")
    both = opset.concat([soft, values.output(0)], axis=1)
    types_ = opset.convert(opset.gather(both, np.array([0, 2]), np.int64(1)), "f64")
    model = ov.Model([opset.result(both), opset.result(types_)], [x], "made")
    given = np.linspace(-2, 2, 60, dtype=np.float32).reshape(1, 2, 5, 6)
    return [both.get_type_name(), str(both.get_output_shape(0)), *run(ov, model, given)]


def files(ov: Any) -> list[Any]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model = small_model(ov)
        model.get_parameters()[0].set_layout(ov.Layout("NCHW"))
        ov.serialize(model, f"{folder}/a.xml", f"{folder}/b.bin")
        read = ov.Core().read_model(f"{folder}/a.xml", f"{folder}/b.bin")
        parts = [Path(f"{folder}/a.xml").read_bytes(), Path(f"{folder}/b.bin").read_bytes()]
        memory = ov.Core().read_model(parts[0], parts[1])
        x = IMAGE.transpose(0, 3, 1, 2).astype(np.float32)
        layout = str(read.get_parameters()[0].layout)
        return [layout, *run(ov, read, x), *run(ov, memory, x)]


SCRIPTS = [
    shapes, layouts, types, nodes, batches, properties, requests, conversions, image_steps,
    resizes, other_steps, planes, opsets, files,
]  # fmt: skip


def agree(got: Any, want: Any, at: str) -> None:
    if isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape, at
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=1e-3, atol=1e-4, err_msg=at
        )
    elif isinstance(want, list):
        assert len(got) == len(want), at
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            agree(g, w, f"{at}[{n}]")
    else:
        assert got == want, at


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.__name__)
def test_a_script_gives_the_same(script: Callable[[Any], list[Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(script(stand_in), script(openvino), script.__name__)


def test_a_queue_runs_in_as_many_threads_as_it_has_requests() -> None:
    net = stand_in.compile_model(DIGITS, "CPU", CONFIG)
    jobs = stand_in.AsyncInferQueue(net, 2)
    seen: set[str] = set()
    jobs.set_callback(lambda request, n: seen.add(threading.current_thread().name))
    for n in range(20):
        jobs.start_async(X, n)
    jobs.wait_all()
    assert 1 <= len(seen) <= 2 and len(jobs.userdata) == 2 and jobs.get_idle_request_id() in (0, 1)


def test_the_old_module_and_the_version() -> None:
    runtime = importlib.import_module("irc_compiler.compat.openvino.runtime")
    opset = importlib.import_module("irc_compiler.compat.openvino.runtime.opset13")
    assert runtime.Core is stand_in.Core and opset.add is stand_in.opset13.add
    assert stand_in.__version__ == stand_in.get_version()
    assert openvino.__version__.startswith(stand_in.__version__.partition(".")[0])


def test_each_function_of_the_opsets_has_an_operation() -> None:
    for number in range(1, 17):
        mine = stand_in.__dict__[f"opset{number}"]
        real = importlib.import_module(f"openvino.opset{number}")
        names = {n for n in dir(real) if not n.startswith("_") and callable(getattr(real, n))}
        lacking = names - set(dir(mine)) - {"if_op", "loop", "tensor_iterator"}
        assert not lacking, number


def test_refusals_of_the_openvino_stand_in() -> None:
    opset = stand_in.opset13
    x = opset.parameter([2, 3], np.float32, name="x")
    with pytest.raises(TypeError, match="needs the argument 'axis'"):
        opset.gather(x, np.array([0]))
    with pytest.raises(irc.UsageError, match="attribute cannot be read"):
        opset.convolution(x, x, ["a"], [0], [0], [1])
    with pytest.raises(irc.UsageError, match="cannot be changed"):
        stand_in.compile_model(DIGITS, "CPU", CONFIG).set_property({"NUM_STREAMS": 2})
    with pytest.raises(irc.UsageError, match="native libraries"):
        stand_in.Core().add_extension("lib.so")
    with pytest.raises(irc.UsageError, match="IR version 11"):
        stand_in.serialize(small_model(stand_in), "a.xml", version="IR_V10")
    with pytest.raises(irc.UsageError, match="which axis is H"):
        ppp = stand_in.preprocess.PrePostProcessor(small_model(stand_in))
        ppp.input().preprocess().resize(stand_in.preprocess.ResizeAlgorithm.RESIZE_LINEAR)
        ppp.build()
