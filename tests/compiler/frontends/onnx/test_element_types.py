"""Every element type of ONNX end to end: from an array of NumPy or ml_dtypes through a compiled
model to such an array, by every form of a model, with a size that is known at run time only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import TensorProto as P
from onnx import helper

# Floats of six bits, which operator set 28 brought to Cast and the quantising operators.
REFUSED = {"FLOAT6E2M3", "FLOAT6E3M2"}
TYPES = [k for k in P.DataType.values() if k and P.DataType.Name(k) not in REFUSED]


def numbers(kind: int) -> Any:
    if kind == P.STRING:
        return np.array([["a", "", "b"], ["c", "é", "d"]], object)
    low = 1 if kind == P.FLOAT8E8M0 else 0
    values = np.array([[1, low, 1], [low, 1, 1]])
    return values.astype(helper.tensor_dtype_to_np_dtype(kind))


def moved(kind: int) -> onnx.ModelProto:
    """The values transposed, in a row, and as they are."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
        helper.make_node("Reshape", ["x", "row"], ["flat"]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    ends = [helper.make_tensor_value_info(n, kind, None) for n in ("turned", "flat", "same")]
    port = helper.make_tensor_value_info("x", kind, ["N", 3])
    row = helper.make_tensor("row", P.INT64, [1], [-1])
    graph = helper.make_graph(nodes, "g", [port], ends, [row])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "irc", "xml"])
@pytest.mark.parametrize("kind", TYPES, ids=P.DataType.Name)
def test_values_go_in_and_come_out(kind: int, form: str, tmp_path: Path) -> None:
    model, x = moved(kind), numbers(kind)
    net = irc.compile_model(model)
    if form == "irc":
        net.export(tmp_path / "m.irc")
        net = irc.compile_model(tmp_path / "m.irc")
    elif form == "xml":
        # OpenVINO has no complex numbers and not all eight-bit floats.
        irc.save_model(model, tmp_path / "m.xml", dialect=True)
        net = irc.compile_model(tmp_path / "m.xml")
    for found, wanted in zip(net(x), (x.T, x.reshape(-1), x), strict=True):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert (found == wanted).all()


@pytest.mark.parametrize("name", sorted(REFUSED & set(P.DataType.keys())))
def test_types_that_are_refused(name: str) -> None:
    with pytest.raises(irc.ModelFormatError, match="unknown element type") as caught:
        irc.compile_model(moved(P.DataType.Value(name)))
    assert 'input "x"' in str(caught.value) and "1 to 26" in str(caught.value)
