"""OrtValue and IOBinding of the stand-in do what onnxruntime's do; buffers receive the results."""

from __future__ import annotations

import importlib
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

ort = importlib.import_module("irc_compiler.compat.onnxruntime")
BOTH = pytest.mark.parametrize("engine", [ort, onnxruntime], ids=["irc", "onnxruntime"])
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def small_model() -> bytes:
    """y = -x, and i = the number of axes that x has."""
    ports = {"x": ("N", 3), "y": ("N", 3), "i": (2,)}
    kinds = {"x": TensorProto.FLOAT, "y": TensorProto.FLOAT, "i": TensorProto.INT64}
    infos = {n: helper.make_tensor_value_info(n, kinds[n], s) for n, s in ports.items()}
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Shape", ["x"], ["i"])]
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["y"], infos["i"]])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def session(engine: Any) -> Any:
    return engine.InferenceSession(small_model(), providers=["CPUExecutionProvider"])


@BOTH
def test_a_result_is_written_into_the_bound_buffer(engine: Any) -> None:
    net, x, y = session(engine), X.copy(), np.full((2, 3), np.nan, np.float32)
    counts = np.full(2, -1, np.int64)
    binding = net.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("i", "cpu", 0, np.int64, [2], counts.ctypes.data)
    binding.bind_output("y", "cpu", 0, TensorProto.FLOAT, y.shape, y.ctypes.data)
    net.run_with_iobinding(binding)
    assert (y == -X).all() and counts.tolist() == [2, 3]
    x[:] = 5  # each run reads the buffer again
    net.run_with_iobinding(binding)
    assert (y == -5).all()
    first, second = binding.get_outputs()
    assert first.numpy().tolist() == [2, 3] and second.data_ptr() == y.ctypes.data
    copied = binding.copy_outputs_to_cpu()[1]
    assert (copied == -5).all() and not np.may_share_memory(copied, y)


@BOTH
def test_ort_values_are_bound_by_memory(engine: Any) -> None:
    net, x = session(engine), X.copy()
    given = engine.OrtValue.ortvalue_from_numpy(x)
    taken = engine.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = net.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", taken)
    net.run_with_iobinding(binding)
    assert (taken.numpy() == -X).all()
    given.update_inplace(2 * X)
    net.run_with_iobinding(binding)
    assert (x == 2 * X).all() and (taken.numpy() == -2 * X).all()
    binding.clear_binding_outputs()
    with pytest.raises(RuntimeError):
        net.run_with_iobinding(binding)


WRONG_BUFFERS = {
    "element type": (np.float64, (2, 3)),
    "size": (np.float32, (2, 4)),
    "dynamic size": (np.float32, (1, 3)),
    "rank": (np.float32, (6,)),
    "negative size": (np.float32, (-1, 3)),
}


@BOTH
@pytest.mark.parametrize("case", WRONG_BUFFERS)
def test_a_buffer_that_does_not_fit_is_refused_and_not_written(engine: Any, case: str) -> None:
    kind, shape = WRONG_BUFFERS[case]
    memory = np.full(64, 7, np.float64)
    net = session(engine)
    binding = net.io_binding()
    binding.bind_cpu_input("x", X)
    with pytest.raises(RuntimeError) as error:
        binding.bind_output("y", "cpu", 0, kind, shape, memory.ctypes.data)
        net.run_with_iobinding(binding)
    assert (memory == 7).all()
    if engine is ort:
        assert isinstance(error.value, irc.InputError)
        assert isinstance(error.value, ort.capi.onnxruntime_pybind11_state.InvalidArgument)


@BOTH
def test_bindings_refuse_what_is_missing(engine: Any) -> None:
    net = session(engine)
    binding = net.io_binding()
    with pytest.raises(RuntimeError):
        net.run_with_iobinding(binding)
    for missing in ({"element_type": np.float32}, {"shape": (2, 3)}):
        with pytest.raises(ValueError, match="element_type"):
            binding.bind_output("y", buffer_ptr=X.ctypes.data, **missing)
    with pytest.raises(RuntimeError):
        binding.bind_cpu_input("z", X)
    with pytest.raises(Exception):  # noqa: B017 (onnxruntime raises a plain Exception)
        binding.bind_output("y", "bogus")


def test_a_null_address_and_types_without_addresses_are_refused() -> None:
    binding = session(ort).io_binding()
    for address in (0, -1, None, 1.5, "x"):
        if address is not None:
            with pytest.raises(irc.InputError, match="address"):
                binding.bind_output("y", "cpu", 0, np.float32, (2, 3), address)
    for kind in (TensorProto.UINT4, np.dtype("O"), 99, "nothing"):
        with pytest.raises(irc.InputError, match="element type|no address"):
            binding.bind_output("y", "cpu", 0, kind, (2, 3), X.ctypes.data)
    with pytest.raises(irc.InputError, match="shape is wrong"):
        binding.bind_output("y", "cpu", 0, np.float32, (1 << 62, 3), X.ctypes.data)


def describe(engine: Any) -> list[Any]:
    """What an OrtValue says of itself."""
    found: list[Any] = []
    for kind in (np.float32, np.float16, np.int8, np.uint64, np.bool_, np.float64):
        array = np.ones((2, 3), kind)
        value = engine.OrtValue.ortvalue_from_numpy(array)
        found += [value.shape(), value.data_type(), value.element_type(), value.device_name()]
        found += [value.is_tensor(), value.is_sparse_tensor(), value.is_tensor_sequence()]
        found += [value.has_value(), value.tensor_size_in_bytes(), value.numpy().tolist()]
        found += [value.data_ptr() == array.ctypes.data, np.shares_memory(value.numpy(), array)]
        found.append(np.asarray(value).dtype)
    made = engine.OrtValue.ortvalue_from_shape_and_type([4], TensorProto.BFLOAT16)
    found += [made.data_type(), made.shape(), made.element_type()]
    bits = np.arange(3, dtype=np.uint16)
    cast = engine.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.FLOAT16)
    found += [cast.data_type(), cast.numpy().tolist()]
    found.append(engine.OrtValue.ortvalue_from_numpy(X.T).numpy().tolist())
    made = session(engine).run_with_ort_values(None, {"x": engine.OrtValue.ortvalue_from_numpy(X)})
    found += [(v.data_type(), v.numpy().tolist()) for v in made]
    found += session(engine).run(["i"], {"x": engine.OrtValue.ortvalue_from_numpy(X)})[0].tolist()
    return found


def test_ort_values_describe_themselves_alike() -> None:
    assert describe(ort) == describe(onnxruntime)


@BOTH
def test_ort_values_refuse_what_does_not_fit(engine: Any) -> None:
    value = engine.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    with pytest.raises(RuntimeError):
        value.update_inplace(np.ones(7, np.float32))
    with pytest.raises(TypeError):
        value.update_inplace([1.0])
    for wrong in (np.array(["a"]), [1, 2]):
        with pytest.raises(RuntimeError):
            engine.OrtValue.ortvalue_from_numpy(wrong)
    shared = engine.OrtValue.from_dlpack(X) if hasattr(engine.OrtValue, "from_dlpack") else value
    assert shared.shape() == [2, 3]


def test_an_update_of_another_element_type_is_refused() -> None:
    """onnxruntime copies the bytes as they are: numbers without meaning."""
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    with pytest.raises(irc.InputError, match="does not fit"):
        value.update_inplace(np.ones((2, 3), np.float64))
