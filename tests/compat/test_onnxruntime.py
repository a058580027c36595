"""The same scripts on onnxruntime and on its stand-in give the same."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"
X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def odd_model() -> bytes:
    """Two outputs, integers, booleans, sizes with and without names."""
    ports = [
        helper.make_tensor_value_info("x", TensorProto.INT64, [None, "N", 3]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    made = [
        helper.make_tensor_value_info("y", TensorProto.INT64, [None, "N", 3]),
        helper.make_tensor_value_info("not", TensorProto.BOOL, []),
    ]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Not", ["flag"], ["not"])]
    graph = helper.make_graph(nodes, "odd", ports, made)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def metadata(ort: Any) -> list[Any]:
    found: list[Any] = []
    for source in (str(DIGITS), DIGITS, DIGITS.read_bytes(), odd_model()):
        session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
        for arg in (*session.get_inputs(), *session.get_outputs()):
            found.append((arg.name, arg.type, arg.shape))
        found += [session.get_providers(), session.get_overridable_initializers()]
        found.append(session.get_modelmeta().graph_name)
    return [*found, ort.get_device()]


def run(ort: Any) -> list[Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(DIGITS), options, providers=["CPUExecutionProvider"])
    found = [*session.run(None, {"image": X}), *session.run(["probabilities"], {"image": X[:1]})]
    found += session.run([], {session.get_inputs()[0].name: X[::2]}, ort.RunOptions())
    odd = ort.InferenceSession(odd_model(), options, providers=["CPUExecutionProvider"])
    x = np.arange(12).reshape(2, 2, 3)
    found += odd.run(["not", "y"], {"x": x, "flag": np.array(True)})
    binding = session.io_binding()
    binding.bind_cpu_input("image", X)
    binding.bind_output("probabilities")
    session.run_with_iobinding(binding)
    return [*found, *binding.copy_outputs_to_cpu()]


# Threads of irc spin for a fixed time; test_onnxruntime_settings.py checks the warning.
@pytest.mark.filterwarnings("ignore:irc. the session config entry:UserWarning")
@pytest.mark.parametrize("script", [metadata, run], ids=lambda s: s.__name__)
def test_a_script_gives_the_same(script: Any) -> None:
    got = script(importlib.import_module("irc_compiler.compat.onnxruntime"))
    wanted = script(importlib.import_module("onnxruntime"))
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        if isinstance(w, np.ndarray):
            assert g.dtype == w.dtype and g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)
        else:
            assert g == w


def test_threads_are_heeded() -> None:
    ort = importlib.import_module("irc_compiler.compat.onnxruntime")
    options = ort.SessionOptions()
    for threads in (1, 2):
        options.intra_op_num_threads = threads
        assert ort.InferenceSession(DIGITS, options).net.stats().threads == threads


def test_other_files_and_refusals(tmp_path: Path) -> None:
    ort = importlib.import_module("irc_compiler.compat.onnxruntime")
    irc.compile_model(DIGITS).export(tmp_path / "d.irc")
    irc.save_model(DIGITS, tmp_path / "d.xml")
    wanted = ort.InferenceSession(DIGITS).run(None, {"image": X})[0]
    for name in ("d.irc", "d.xml"):
        got = ort.InferenceSession(tmp_path / name).run(None, {"image": X})[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    session = ort.InferenceSession(DIGITS)
    with pytest.raises(irc.InputError, match="unknown output"):
        session.run(["z"], {"image": X})
    with pytest.raises(irc.InputError, match="'image' is missing"):
        session.run(None, {})
    with pytest.raises(irc.InputError, match="element type"):
        session.run(None, {"image": X.astype(np.float64)})


def test_feeds_of_every_form_give_the_same() -> None:
    """A dict of arrays, which takes a shorter way, and what does not."""
    import irc_compiler.compat.onnxruntime as ort

    session = ort.InferenceSession(str(DIGITS))
    (want,) = session.run(["probabilities"], {"image": X})
    forms: list[Any] = [
        MappingProxyType({"image": X}),
        OrderedDict(image=X),
        {"image": X.tolist()},
        {"image": ort.OrtValue.ortvalue_from_numpy(X)},
        {"image": np.asfortranarray(X)},
    ]
    for feed in forms:
        for options in (None, ort.RunOptions()):
            assert (session.run(["probabilities"], feed, options)[0] == want).all()
    invalid = ort.capi.onnxruntime_pybind11_state.InvalidArgument
    refused: list[tuple[Any, Any]] = [
        ({"image": X.astype(np.float64)}, invalid),
        ({"image": X, "more": X}, invalid),
        ({"picture": X}, ValueError),
        ({"image": X[0]}, invalid),
        ([X], TypeError),
    ]
    for feed, kind in refused:
        with pytest.raises(kind) as caught:
            session.run(None, feed)
        assert isinstance(caught.value, irc.InputError)
    with pytest.raises(invalid):
        session.run(["nothing"], {"image": X})
