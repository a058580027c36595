"""Options of the stand-in of onnxruntime: kept, done, or a warning that names them."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.compat.test_onnxruntime_surface import public
from tests.compat.test_onnxruntime_values import BOTH, X, ort, session, small_model

pytestmark = pytest.mark.usefixtures("warn_again")
STATE = importlib.import_module("irc_compiler.compat.onnxruntime.capi.onnxruntime_pybind11_state")
DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"


def warned(options: Any = None, **more: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ort.InferenceSession(small_model(), options, **more)
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


def test_defaults_and_attributes_are_those_of_onnxruntime() -> None:
    for kind in (onnxruntime.SessionOptions, onnxruntime.RunOptions):
        mine = getattr(ort, kind.__name__)()
        for name in public(kind):
            theirs = getattr(kind(), name)
            if callable(theirs):
                assert callable(getattr(mine, name)), name
            else:
                plain = theirs if isinstance(theirs, str | int | bool) else theirs.value
                assert getattr(mine, name) == plain, name
    for name in ("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"):
        members = {n: int(m.value) for n, m in getattr(onnxruntime, name).__members__.items()}
        assert members == {n: int(m) for n, m in getattr(ort, name).__members__.items()}


SETTINGS: dict[str, Any] = {
    "enable_cpu_mem_arena": False,
    "enable_mem_pattern": False,
    "enable_mem_reuse": False,
    "enable_profiling": True,
    "execution_mode": ort.ExecutionMode.ORT_PARALLEL,
    "execution_order": ort.ExecutionOrder.PRIORITY_BASED,
    "graph_optimization_level": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "optimized_model_filepath": "optimized.onnx",
    "use_per_session_threads": False,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_option_that_irc_does_not_follow_warns_once(name: str) -> None:
    options = ort.SessionOptions()
    setattr(options, name, SETTINGS[name])
    assert [f"SessionOptions.{name} has no effect" in text for text in warned(options)] == [True]
    assert warned(options) == []


CALLS: dict[str, Callable[[Any], Any]] = {
    "session.intra_op.allow_spinning": lambda o: o.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    ),
    "register_custom_ops_library": lambda o: o.register_custom_ops_library("ops.so"),
    "override_by_denotation": lambda o: o.add_free_dimension_override_by_denotation("BATCH", 1),
    "'Z'": lambda o: o.add_free_dimension_override_by_name("Z", 1),
    "CUDAExecutionProvider": lambda o: o.add_provider("CUDAExecutionProvider", {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_effect_warns(name: str) -> None:
    options = ort.SessionOptions()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        CALLS[name](options)
    texts = [str(w.message) for w in found] + warned(options)
    assert len(texts) == 1 and name in texts[0]


def test_providers_and_unknown_arguments_warn() -> None:
    texts = warned(providers=["CUDAExecutionProvider", ("CPUExecutionProvider", {"use_arena": 1})])
    assert ["CUDAExecutionProvider" in texts[0], "'use_arena'" in texts[1]] == [True, True]
    assert "'disabled_optimizers'" in warned(disabled_optimizers=["x"])[0]
    assert warned(providers=["CPUExecutionProvider"], provider_options=[{}]) == []
    for wrong in ("CPUExecutionProvider", [3], 5, [("a", "b", "c")]):
        with pytest.raises(ValueError, match="providers must be a list"):
            ort.InferenceSession(small_model(), providers=wrong)


def test_what_is_done_or_asks_for_nothing_does_not_warn() -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 4
    options.log_severity_level, options.logid, options.log_verbosity_level = 4, "me", 1
    options.use_deterministic_compute = True
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert warned(options) == []


@BOTH
def test_sizes_are_fixed_by_name(engine: Any) -> None:
    options = engine.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    net = engine.InferenceSession(small_model(), options, providers=["CPUExecutionProvider"])
    assert net.get_inputs()[0].shape == [2, 3]
    assert net.run(["i"], {"x": X})[0].tolist() == [2, 3]
    with pytest.raises(engine.capi.onnxruntime_pybind11_state.InvalidArgument):
        net.run(None, {"x": X[:1]})


@BOTH
def test_wrong_attributes_and_keys(engine: Any) -> None:
    options = engine.SessionOptions()
    with pytest.raises(AttributeError):
        options.nosuch = 1
    with pytest.raises(TypeError):
        options.intra_op_num_threads = "x"
    for asked in (options.get_session_config_entry, engine.RunOptions().get_run_config_entry):
        with pytest.raises(RuntimeError, match="does not have configuration"):
            asked("key")


def test_a_wrong_attribute_names_the_nearest() -> None:
    wrong: dict[str, Callable[[], Any]] = {
        "intra_op_num_threads": lambda: setattr(ort.SessionOptions(), "intra_op_threads", 1),
        "add_session_config_entry": lambda: ort.SessionOptions().add_config_entry("a", "b"),
        "terminate": lambda: setattr(ort.RunOptions(), "terminated", True),
        "get_modelmeta": lambda: session(ort).get_model_meta(),
        "ortvalue_from_numpy": lambda: ort.OrtValue(X).ort_value_from_numpy,
        "bind_cpu_input": lambda: session(ort).io_binding().bind_cpu_inputs,
        "InferenceSession": lambda: ort.InferenceSesion,
        "InvalidArgument": lambda: STATE.InvalidArguments,
    }
    for nearest, act in wrong.items():
        with pytest.raises(AttributeError, match=f"the nearest that it has is '{nearest}'"):
            act()
    assert not hasattr(ort, "__path_of_nothing__")


def test_calls_that_would_change_results_are_refused() -> None:
    with pytest.raises(STATE.NotImplemented, match="add_initializer"):
        ort.SessionOptions().add_initializer("w", ort.OrtValue(X))
    with pytest.raises(irc.UnsupportedOperationError, match="add_active_adapter"):
        ort.RunOptions().add_active_adapter(None)


@BOTH
def test_terminate_ends_a_run(engine: Any) -> None:
    options = engine.RunOptions()
    options.terminate = True
    with pytest.raises(engine.capi.onnxruntime_pybind11_state.Fail, match="terminat"):
        session(engine).run(None, {"x": X}, options)
    options.terminate = False
    assert (session(engine).run(["y"], {"x": X}, options)[0] == -X).all()


@BOTH
def test_functions_of_the_module(engine: Any) -> None:
    engine.disable_telemetry_events()
    engine.set_default_logger_severity(3)
    engine.set_default_logger_verbosity(1)
    with pytest.raises(RuntimeError):
        engine.set_default_logger_severity(9)
    assert engine.get_device() == "CPU"
    assert "CPUExecutionProvider" in engine.get_available_providers()
    assert "CPUExecutionProvider" in engine.get_all_providers()
    assert engine.get_version_string() == engine.__version__
    assert [int(n) for n in engine.__version__.split(".")] >= [1, 20, 0]
    net = session(engine)
    net.set_providers(["CPUExecutionProvider"])
    net.disable_fallback()
    net.enable_fallback()
    assert net.end_profiling() == "" and net.get_providers() == ["CPUExecutionProvider"]


@BOTH
def test_run_async_calls_back(engine: Any) -> None:
    net, done, got = session(engine), threading.Event(), []

    def take(*given: Any) -> None:
        got.append(given)
        done.set()

    net.run_async(["y"], {"x": X}, take, "mine")
    assert done.wait(60)
    (made,), data, error = got[0]
    assert (made == -X).all() and data == "mine" and error == ""


def broken_model(kind: int, operation: str = "Neg") -> bytes:
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("y", kind, [2]),
    ]
    nodes = [helper.make_node(operation, ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


# Each as (the class that both raise, what raises it).
ERRORS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no file": ("NoSuchFile", lambda e: e.InferenceSession("/nonexistent/model.onnx")),
    "no model": ("InvalidProtobuf", lambda e: e.InferenceSession(b"garbage")),
    "declared type": ("Fail", lambda e: e.InferenceSession(broken_model(TensorProto.INT64))),
    "unknown input": ("InvalidArgument", lambda e: session(e).run(None, {"x": X, "q": X})),
    "unknown output": ("InvalidArgument", lambda e: session(e).run(["z"], {"x": X})),
    "dtype": ("InvalidArgument", lambda e: session(e).run(None, {"x": X.astype(np.int32)})),
    "rank": ("InvalidArgument", lambda e: session(e).run(None, {"x": X[0]})),
    "size": ("InvalidArgument", lambda e: session(e).run(None, {"x": X[:, :2]})),
    "missing input": ("ValueError", lambda e: session(e).run(None, {})),
    "a name for names": ("TypeError", lambda e: session(e).run("y", {"x": X})),
    "no model at all": ("TypeError", lambda e: e.InferenceSession(3)),
}


@BOTH
@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_the_classes_of_onnxruntime(engine: Any, case: str) -> None:
    name, act = ERRORS[case]
    state = engine.capi.onnxruntime_pybind11_state
    kind: Any = {"ValueError": ValueError, "TypeError": TypeError}.get(name) or getattr(state, name)
    with pytest.raises(kind) as error:
        act(engine)
    if engine is ort:
        assert isinstance(error.value, irc.Error) and error.value.what
        again = pickle.loads(pickle.dumps(error.value))
        assert isinstance(again, kind) and str(again) == str(error.value)


def test_arguments_of_the_wrong_kind_are_errors_of_irc() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: session(ort).run(None, [X]),
        lambda: session(ort).run(None, None),
        lambda: session(ort).run(None, {"x": X}, {"terminate": True}),
        lambda: session(ort).run(None, {"x": object()}),
        lambda: ort.InferenceSession(small_model(), {"intra_op_num_threads": 1}),
        lambda: ort.SessionOptions().add_free_dimension_override_by_name("N", "a"),
        lambda: ort.OrtValue.ortvalue_from_shape_and_type([1 << 46], np.float32),
        lambda: ort.OrtValue.ortvalue_from_shape_and_type("ab", np.float32),
        lambda: ort.OrtValue.ortvalue_from_shape_and_type([2], np.str_),
    ]
    for act in wrong:
        with pytest.raises(irc.Error):
            act()


def test_an_operation_that_irc_lacks_is_not_implemented() -> None:
    with pytest.raises(STATE.NotImplemented, match="Strange"):
        ort.InferenceSession(broken_model(TensorProto.FLOAT, "Strange"))


@BOTH
def test_lists_and_numbers_take_the_element_type(engine: Any) -> None:
    assert (session(engine).run(["y"], {"x": [[1, 2.5, 3]]})[0] == [[-1, -2.5, -3]]).all()


@BOTH
def test_metadata_reaches_the_session(engine: Any) -> None:
    import onnx

    model = onnx.load_from_string(small_model())
    model.producer_name, model.domain, model.model_version = "maker", "org.some", 7
    model.doc_string, model.graph.doc_string = "about the model", "about the graph"
    helper.set_model_props(model, {"names": "{0: 'cat'}", "text": "a\nb"})
    net = engine.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    meta = net.get_modelmeta()
    assert meta.custom_metadata_map == {"names": "{0: 'cat'}", "text": "a\nb"}
    assert (meta.producer_name, meta.domain, meta.version) == ("maker", "org.some", 7)
    assert (meta.description, meta.graph_description) == ("about the model", "about the graph")
    plain = session(engine).get_modelmeta()
    assert (plain.custom_metadata_map, plain.version) == ({}, (1 << 63) - 1)


def test_metadata_reaches_the_session_of_an_artefact(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(DIGITS)
    helper.set_model_props(model, {"character": "a\nb"})
    irc.compile_model(model).export(tmp_path / "d.irc")
    meta = ort.InferenceSession(tmp_path / "d.irc").get_modelmeta()
    assert meta.custom_metadata_map == {"character": "a\nb"}
    assert meta.producer_name == model.producer_name


@pytest.mark.slow
def test_a_script_that_imports_the_error_classes_by_path() -> None:
    code = (
        "import irc_compiler.compat.onnxruntime as ort\n"
        "from irc_compiler.compat.onnxruntime.capi.onnxruntime_pybind11_state import "
        "Fail, InvalidArgument\n"
        "assert ort.capi.onnxruntime_pybind11_state.Fail is Fail\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_every_error_class_exists() -> None:
    theirs = onnxruntime.capi.onnxruntime_pybind11_state
    kinds = {n: k for n in dir(theirs) if isinstance(k := getattr(theirs, n), type)}
    for name in (n for n, k in kinds.items() if issubclass(k, Exception)):
        assert issubclass(getattr(STATE, name), Exception), name
