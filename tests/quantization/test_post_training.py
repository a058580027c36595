"""`irc.quantize`: both forms of the result in irc, onnxruntime and OpenVINO; the same bits on each
instruction set; bad arguments and data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.plan.processors import maskable_processors
from irc_compiler.runtime.jit.host_features import detected_features
from support.models.exact_int8 import OPENVINO_CONFIG, create_session
from support.quantization import nets

NETS: dict[str, Callable[[], tuple[onnx.ModelProto, nets.Batches]]] = {
    "convnet": nets.convnet,
    "mlp": nets.mlp,
}
# How far answers of two engines may differ: a step at a tie moves what follows by steps.
STEPS = 0.02


@cache
def built(name: str) -> tuple[onnx.ModelProto, nets.Batches]:
    return NETS[name]()


def apart(got: Any, wanted: Any) -> float:
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def openvino(path: Path, inputs: dict[str, Any]) -> Any:
    import openvino as ov

    return ov.Core().compile_model(str(path), "CPU", OPENVINO_CONFIG)(inputs)[0]


@pytest.mark.slow
@pytest.mark.parametrize("activations", ["u8", "i8"])
@pytest.mark.parametrize("name", NETS)
def test_int8_in_three_engines(name: str, activations: str, tmp_path: Path) -> None:
    model, data = built(name)
    made = irc.quantize(model, data, activations=activations)
    assert len(made.quantized_layers) == len(made.layers)
    (wanted,) = irc.compile_model(model)(data[0])
    net = irc.compile_model(made.model)
    (found,) = net(data[0])
    assert apart(found, wanted) < 0.05
    assert not net.plan.host_steps()

    made.save(tmp_path / "q.xml")
    made.save(tmp_path / "q.onnx")
    made.save(tmp_path / "q.irc")
    onnx.checker.check_model(str(tmp_path / "q.onnx"), full_check=True)
    for suffix in ("xml", "irc"):
        (again,) = irc.compile_model(tmp_path / f"q.{suffix}")(data[0])
        assert again.tobytes() == found.tobytes()
    other = irc.compile_model(tmp_path / "q.onnx")
    assert apart(other(data[0])[0], found) < STEPS
    for each in (net, other):
        integers = next(s for s in each.report().splitlines() if s.startswith("integers"))
        numbers = [w for w in integers.split() if w.isdecimal()]
        assert numbers[::2] == numbers[1::2], integers  # every product multiplies integers
    session = create_session(str(tmp_path / "q.onnx"))
    assert apart(session.run(None, data[0])[0], found) < STEPS
    assert apart(openvino(tmp_path / "q.xml", data[0]), found) < STEPS
    assert apart(openvino(tmp_path / "q.onnx", data[0]), found) < STEPS


def test_weights_are_i8_and_biases_i32_in_onnx() -> None:
    model, data = built("mlp")
    made = irc.quantize(model, data).to_onnx()
    kinds = {t.name: t.data_type for t in made.graph.initializer}
    readers = {n.input[0]: n for n in made.graph.node if n.op_type == "DequantizeLinear"}
    for number in range(1, 5):
        assert kinds[f"w{number}_quantized"] == onnx.TensorProto.INT8
        assert f"w{number}" not in kinds
    assert kinds["b4_quantized"] == onnx.TensorProto.INT32
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer}
    scale = arrays[readers["b4_quantized"].input[1]]
    gemm = next(n for n in made.graph.node if n.op_type == "Gemm")
    product = next(n for n in made.graph.node if n.output[0] == gemm.input[0])
    weights = arrays[readers["w4_quantized"].input[1]]
    np.testing.assert_array_equal(scale, arrays[product.input[1]] * weights)


def test_the_exact_bias_widens_a_scale() -> None:
    """A bias that has no 32-bit code of the scales' product gets one: the weight's scale grows."""
    model, data = built("mlp")
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        if tensor.name in ("w4", "b4"):
            array = onnx.numpy_helper.to_array(tensor).copy()
            array[0] = 1e-9 if tensor.name == "w4" else 1e6
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    made = irc.quantize(changed, data)
    codes = {t.name: t for t in made.to_onnx().graph.initializer}
    bias = onnx.numpy_helper.to_array(codes["b4_quantized"])
    scale = onnx.numpy_helper.to_array(codes["b4_scale"])
    assert abs(bias[0] * np.float64(scale[0]) / 1e6 - 1) < 1e-6


def test_two_layers_of_one_activation_share_its_quantization() -> None:
    model, data = built("mlp")
    nodes = irc.quantize(model, data).to_onnx().graph.node
    assert sum(n.op_type == "QuantizeLinear" for n in nodes) == 3  # of 4 layers


def test_kept_layers_stay_float() -> None:
    model, data = built("mlp")
    first = irc.quantize(model, data).quantized_layers[0]
    made = irc.quantize(model, data, keep=[first])
    assert first not in made.quantized_layers
    assert "w1" in {t.name for t in made.to_onnx().graph.initializer}


def test_results_do_not_depend_on_batches() -> None:
    model, data = built("mlp")
    joined = [{"x": np.concatenate([batch["x"] for batch in data])}]
    pair = [irc.quantize(model, d, calibrate="mse").to_onnx() for d in (data, joined)]
    assert pair[0].SerializeToString() == pair[1].SerializeToString()


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["name"] != "mlp")
@pytest.mark.parametrize("name", NETS)
def test_the_same_bits_on_every_instruction_set(name: str, tmp_path: Path) -> None:
    """AVX2 and no vector extension on any x86-64 machine, and more where it has more."""
    model, data = built(name)
    made = irc.quantize(model, data)
    made.save(tmp_path / "q.xml")
    np.savez(tmp_path / "x.npz", x=data[0]["x"])
    program = (
        "import sys, numpy as np, irc_compiler as irc\n"
        "net = irc.compile_model(sys.argv[1])\n"
        "print(net(dict(np.load(sys.argv[2])))[0].tobytes().hex())\n"
    )
    maskable = maskable_processors(detected_features())
    found: dict[str, str] = {}
    for cpu in ("", "x86-64-v2", "haswell", "alderlake", "cascadelake", "sapphirerapids", "znver5"):
        if cpu and cpu not in maskable:
            print(f"not run: this machine lacks features of {cpu}")
            continue
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "q.xml"), str(tmp_path / "x.npz")],
            env={**os.environ, "IRC_CPU": cpu} if cpu else None,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found[cpu] = done.stdout
    assert len(found) >= 2
    assert len(set(found.values())) == 1, {cpu: hash(text) for cpu, text in found.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int3"}, "unknown weights"),
        ({"algorithm": "awq"}, "awq and gptq quantize weights alone"),
        ({"weights": "int4", "activations": "u8"}, "8-bit activations need 8-bit weights"),
        ({"calibrate": "best"}, "unknown calibrate"),
        ({"group": 0}, "group must be at least 1"),
        ({"smooth": 2.0}, "smooth is out of range"),
        ({"smooth": 0.5, "activations": "none"}, "smooth is for quantized activations"),
        ({"max_drop": 0.1}, "max_drop needs a metric"),
        ({"metric": 3}, "the metric is not a function"),
        ({"keep": ["missing"]}, "no layer that can be quantized has this name"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    model, data = built("mlp")
    with pytest.raises(irc.UsageError, match=message):
        irc.quantize(model, data, **options)


def test_a_metric_that_fails_fails_first() -> None:
    model, data = built("mlp")

    def broken(run: Any) -> float:
        raise KeyError("labels")

    with pytest.raises(irc.Error, match="the metric raises an error"):
        irc.quantize(model, _never(data), metric=broken)
    with pytest.raises(irc.Error, match="the metric is not finite"):
        irc.quantize(model, data, metric=lambda run: float("nan"))


def _never(data: nets.Batches) -> Callable[[], Any]:
    """Data whose second batch must not be read."""

    def batches() -> Any:
        yield data[0]
        raise AssertionError("the long work began")

    return batches


def test_a_quantized_model_has_nothing_left_to_quantize() -> None:
    model, data = built("mlp")
    made = irc.quantize(model, data).to_onnx()
    with pytest.raises(irc.UnsupportedOperationError, match="no layer that can be quantized"):
        irc.quantize(made, data)


def test_a_model_without_its_file_is_saved_as_ir(tmp_path: Path) -> None:
    model, data = built("mlp")
    made = irc.quantize(irc.read_model(model), data)
    with pytest.raises(irc.UnsupportedOperationError, match="read from ONNX"):
        made.save(tmp_path / "q.onnx")
    made.save(tmp_path / "q.xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["q.bin", "q.xml"]


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True])
def test_ir_as_the_source(compress: bool, tmp_path: Path) -> None:
    """Also with weights that are stored in f16."""
    model, data = built("convnet")
    irc.save_model(model, tmp_path / "m.xml", compress_to_fp16=compress)
    made = irc.quantize(tmp_path / "m.xml", data)
    assert len(made.quantized_layers) == 9
    made.save(tmp_path / "q.xml")
    (wanted,) = irc.compile_model(model)(data[0])
    (found,) = irc.compile_model(tmp_path / "q.xml")(data[0])
    assert apart(found, wanted) < 0.05
    assert apart(openvino(tmp_path / "q.xml", data[0]), found) < STEPS
    assert (tmp_path / "q.bin").stat().st_size < (tmp_path / "m.bin").stat().st_size
