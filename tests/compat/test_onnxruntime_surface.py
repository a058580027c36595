"""What of onnxruntime's module and classes the stand-in has, and why it leaves out the rest."""

from __future__ import annotations

import importlib
import pickle
import warnings
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.compat.test_onnxruntime_values import BOTH, X, ort, session, small_model

_ADAPTERS = "adapters: merge the adapter's weights into the model"
_COMPILED = "models that onnxruntime compiled for a provider"
_PACKAGES = "onnxruntime's model packages"
_PROVIDERS = "other execution providers and their devices"
_IMPORTS = "a module or name that onnxruntime's own code imports"
# Names that the stand-in does not have -> why.
LEFT_OUT = {
    "AdapterFormat": _ADAPTERS,
    "LoraAdapter": _ADAPTERS,
    "ModelCompiler": _COMPILED,
    "ModelPackage": _PACKAGES,
    "ModelPackageComponentContext": _PACKAGES,
    "ModelPackageContext": _PACKAGES,
    "ModelPackageOptions": _PACKAGES,
    "ModelPackageWriteMode": _PACKAGES,
    "OrtArenaCfg": "irc plans one arena per call",
    "OrtCompileApiFlags": _COMPILED,
    "OrtDeviceVendorId": _PROVIDERS,
    "OrtEpAssignedNode": _PROVIDERS,
    "OrtEpAssignedSubgraph": _PROVIDERS,
    "OrtEpContextData": _PROVIDERS,
    "OrtEpContextDataBuffer": _PROVIDERS,
    "OrtEpDevice": _PROVIDERS,
    "OrtExecutionProviderDevicePolicy": _PROVIDERS,
    "OrtExternalInitializerInfo": "external data is found by the model's path",
    "OrtHardwareDevice": _PROVIDERS,
    "OrtHardwareDeviceType": _PROVIDERS,
    "OrtMemoryInfoDeviceType": _PROVIDERS,
    "OrtSparseFormat": "irc has no sparse tensors",
    "OrtSyncStream": _PROVIDERS,
    "contextlib": _IMPORTS,
    "create_and_register_allocator_v2": "irc plans one arena per call",
    "cuda_version": _PROVIDERS,
    "import_capi_exception": _IMPORTS,
    "onnxruntime_validation": _IMPORTS,
    "register_execution_provider_library": _PROVIDERS,
    "unregister_execution_provider_library": _PROVIDERS,
}


pytestmark = pytest.mark.usefixtures("warn_again")


def public(thing: Any) -> set[str]:
    return {n for n in dir(thing) if not n.startswith("_")}


def test_the_module_has_what_onnxruntime_has_or_a_reason() -> None:
    # Submodules, such as `quantization`, become attributes when they are imported.
    names = {n for n in public(onnxruntime) if type(getattr(onnxruntime, n)).__name__ != "module"}
    names |= {"capi", "contextlib", "onnxruntime_validation"}
    assert names - public(ort) <= set(LEFT_OUT)
    assert not set(LEFT_OUT) & public(ort)


@pytest.mark.parametrize("name", ["InferenceSession", "IOBinding", "OrtValue", "OrtDevice"])
def test_classes_have_every_method(name: str) -> None:
    assert public(getattr(onnxruntime, name)) <= public(getattr(ort, name))


def test_capi_has_its_modules() -> None:
    state = importlib.import_module("irc_compiler.compat.onnxruntime.capi._pybind_state")
    assert state.get_available_providers() == ["CPUExecutionProvider"]
    assert state.OrtDevice is ort.OrtDevice
    with pytest.raises(AttributeError, match="docs/migrating.md"):
        _ = state.get_available_provider


@BOTH
def test_a_subclass_is_a_session(engine: Any) -> None:
    class Session(engine.InferenceSession):
        def __init__(self, model: bytes, **more: Any) -> None:
            super().__init__(model, **more)
            self.model = model

        def run(self, *given: Any) -> Any:
            return super().run(*given)[:1]

    net = Session(small_model(), providers=["CPUExecutionProvider"])
    assert len(net.run(None, {"x": X})) == 1 and isinstance(net, engine.InferenceSession)


class PickableSession(ort.InferenceSession):
    """As insightface writes it: what it saves are private attributes of onnxruntime's class."""

    def __getstate__(self) -> dict[str, Any]:
        assert list(self._provider_options) == self._providers == self.get_providers()
        return {"path": self._model_path}

    def __setstate__(self, values: dict[str, Any]) -> None:
        super().__init__(values["path"])


@pytest.mark.slow
def test_a_subclass_that_pickles_itself(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small_model())
    made = pickle.loads(pickle.dumps(PickableSession(path)))
    assert type(made) is PickableSession and made._model_path == str(path)
    (port,) = made.get_inputs()
    assert made.run(None, {port.name: X})
    assert PickableSession(small_model())._model_path is None


@BOTH
def test_sizes_have_the_names_that_the_model_gives_them(engine: Any) -> None:
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["all"], axis=1),
        helper.make_node("Add", ["new", "three"], ["sum"]),
    ]
    ports = [
        helper.make_tensor_value_info("past", TensorProto.FLOAT, ["n", "old", 3]),
        helper.make_tensor_value_info("new", TensorProto.FLOAT, ["n", "added", "channels"]),
    ]
    ends = [
        helper.make_tensor_value_info("all", TensorProto.FLOAT, ["n", "old + added", 3]),
        helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["rows", "added", "channels"]),
    ]
    three = helper.make_tensor("three", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    graph = helper.make_graph(nodes, "g", ports, ends, [three])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = engine.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    net = engine.InferenceSession(model.SerializeToString(), options)
    shapes = [p.shape for p in (*net.get_inputs(), *net.get_outputs())]
    assert shapes[:3] == [[2, "old", 3], [2, "added", "channels"], [2, "old + added", 3]]
    assert shapes[3][1:] == ["added", 3]


@BOTH
def test_a_declared_shape_that_contradicts_inference_gives_a_warning(engine: Any) -> None:
    proto = onnx.ModelProto.FromString(small_model())
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 5]))
    with pytest.raises(irc.ShapeError, match="contradicts"):
        irc.compile_model(proto)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        options = engine.SessionOptions()
        options.log_severity_level = 4
        net = engine.InferenceSession(proto.SerializeToString(), options)
    assert (net.run(["y"], {"x": X})[0] == -X).all()
    if engine is ort:
        assert [w.filename for w in found] == [__file__] and "f32[N, 3]" in str(found[0].message)


def test_other_faults_of_shapes_are_errors() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    proto = helper.make_model(helper.make_graph([node], "g", [port], [end]), ir_version=9)
    with pytest.raises(irc.ShapeError):
        ort.InferenceSession(proto.SerializeToString())


def warned(key: str, value: str) -> list[str]:
    options = ort.SessionOptions()
    options.add_session_config_entry(key, value)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ort.InferenceSession(small_model(), options)
    return [str(w.message) for w in found]


def test_config_entries_that_say_what_irc_does_give_no_warning() -> None:
    assert warned("session.set_denormal_as_zero", "0") == []
    assert warned("session.intra_op.allow_spinning", "1") == []
    assert warned("session.set_denormal_as_zero", "1") == []
    assert "'session.other'" in warned("session.other", "1")[0]


@pytest.mark.parametrize(("value", "flushes"), [("1", True), ("0", False)])
def test_config_entry_of_denormals_is_followed(value: str, flushes: bool) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", value)
    assert ort.InferenceSession(small_model(), options).net.plan.denormals.flush == flushes


@BOTH
def test_vectors_of_values(engine: Any) -> None:
    net = session(engine)
    value = engine.OrtValue.ortvalue_from_numpy(X)
    target = engine.OrtValue.ortvalue_from_shape_and_type(list(X.shape), np.float32)
    if engine is ort:  # onnxruntime copies between devices only
        engine.copy_tensors([value], [target])
        assert (target.numpy() == X).all()
    made = net.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu", 0)
    assert made.shape() == [2, 3]
    assert net.get_tuning_results() == [] and len(net.get_input_memory_infos()) == 1


def test_results_replace_the_elements_of_a_vector() -> None:
    fetches: list[Any] = []
    value = ort.OrtValue.ortvalue_from_numpy(X)
    session(ort).run_with_ortvaluevector(None, ["x"], [value], ["y"], fetches, [])
    assert (fetches[0].numpy() == -X).all()


def test_memories_and_devices_are_the_cpus() -> None:
    assert ort.OrtMemoryInfo("Cpu").mem_type == ort.OrtMemType.DEFAULT
    with pytest.raises(RuntimeError):
        ort.OrtMemoryInfo("Cuda")
    with pytest.raises(irc.UnsupportedOperationError, match="sparse"):
        ort.SparseTensor()
    assert ort.get_ep_devices() == [] and not ort.has_collective_ops()
