"""`install`: programs that import onnxruntime run on irc, and reach onnxruntime for the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compat import install
from irc_compiler.compat.stand_in_metadata import StandInDistribution
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits" / "digits.onnx"


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def unsupported_model(path: Path) -> Path:
    """An operator that onnxruntime runs and irc does not read: MaxpoolWithMask of single pixels."""
    constants = {"image": np.array([1, 1, 1, -1]), "row": np.array([-1])}
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["wide", "image"], ["pixels"]),
        helper.make_node("Reshape", ["x", "image"], ["mask"]),
        helper.make_node(
            "MaxpoolWithMask",
            ["pixels", "mask"],
            ["pooled"],
            domain="com.microsoft",
            kernel_shape=[1, 1],
        ),
        helper.make_node("Reshape", ["pooled", "row"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["y"], to=TensorProto.UINT32),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.INT32, ["n"])]
    ends = [helper.make_tensor_value_info("y", TensorProto.UINT32, ["n"])]
    stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, ends, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    return path


PROGRAM = """
import importlib.metadata
from irc_compiler.compat import install
install("onnxruntime")
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
import onnxruntime.capi._pybind_state as C
import irc_compiler.compat.onnxruntime as stand_in
assert onnxruntime is stand_in and onnxruntime.capi.onnxruntime_pybind11_state.Fail is Fail
assert C.get_available_providers() == ["CPUExecutionProvider"]
# The engine's own submodules and attributes.
import onnxruntime.quantization.quant_utils as q
assert "site-packages" in q.__file__ and q.QuantType.QInt8 is not None
assert onnxruntime.OrtSparseFormat.ORT_SPARSE_COO is not None
assert importlib.metadata.version("onnxruntime")
try:
    onnxruntime.InferenceSesion
except AttributeError as error:
    assert "'InferenceSession'" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.slow
def test_the_name_means_the_stand_in_and_the_rest_is_found() -> None:
    run_python(PROGRAM)


@pytest.mark.slow
def test_a_model_that_irc_does_not_support_goes_to_the_engine(tmp_path: Path) -> None:
    path = unsupported_model(tmp_path / "m.onnx")
    code = f"""
import numpy as np
from irc_compiler.compat import install
ort = install()
class Session(ort.InferenceSession):
    def run(self, *given):
        return super().run(*given) + ["mine"]
options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
feeds = {{"x": np.arange(3, dtype=np.int32)}}
net = ort.InferenceSession({str(path)!r}, options, providers=["CPUExecutionProvider"])
assert isinstance(net, ort.InferenceSession) and net.get_inputs()[0].name == "x"
print(net.run(None, feeds, ort.RunOptions())[0].tolist())
made = ort.InferenceSession({str(DIGITS)!r})
assert made.net is not None
"""
    report = tmp_path / "report"
    printed = run_python(code, IRC_SHIM_REPORT=str(report))
    import onnxruntime

    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": np.arange(3, dtype=np.int32)})
    assert json.loads(printed) == want[0].tolist()
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["engine"] for line in lines] == ["onnxruntime", "irc"]
    assert "MaxpoolWithMask" in lines[0]["reason"]


def test_without_install_such_a_model_is_refused(tmp_path: Path) -> None:
    import irc_compiler.compat.onnxruntime as stand_in

    with pytest.raises(irc.UnsupportedOperationError, match="MaxpoolWithMask"):
        stand_in.InferenceSession(unsupported_model(tmp_path / "m.onnx"))


@pytest.mark.slow
def test_without_the_engine_its_version_is_the_stand_ins(tmp_path: Path) -> None:
    code = """
import importlib.metadata
from irc_compiler.compat import install, stand_ins
stand_ins._folders_of = lambda name: []
ort = install()
import onnxruntime
assert onnxruntime is ort
found = [d.version for d in importlib.metadata.distributions(name="onnxruntime")]
assert found[0] == ort.__version__, found
try:
    import onnxruntime.quantization
except ModuleNotFoundError:
    pass
else:
    raise AssertionError
"""
    run_python(code)
    assert StandInDistribution("onnxruntime", "1.2").version == "1.2"


@pytest.mark.slow
def test_uninstall_gives_the_name_back() -> None:
    code = """
from irc_compiler.compat import install, uninstall
stand_in = install()
assert install() is stand_in
uninstall()
import onnxruntime
assert onnxruntime is not stand_in and "site-packages" in onnxruntime.__file__
"""
    run_python(code)


def test_an_engine_without_a_stand_in_is_refused() -> None:
    wrong: Any = "torch"
    with pytest.raises(irc.UsageError, match="no stand-in"):
        install(wrong)
