"""One node of a domain besides ONNX's own, run by onnxruntime and by irc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
from onnx import helper

from ..models.exact_int8 import create_session


def one_node(
    op_type: str,
    inputs: Sequence[Any],
    outputs: Sequence[str],
    *,
    domain: str,
    version: int = 1,
    opset: int = 17,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one node, and its feeds; an input None is absent."""
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    node = helper.make_node(op_type, names, outputs, domain=domain, **attributes)
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    ports = [helper.make_tensor_value_info(name, _element(v), v.shape) for name, v in feeds.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = helper.make_graph([node], "one", ports, results)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, version))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def _element(value: Any) -> int:
    if value.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(value.dtype)


def compare(
    model: onnx.ModelProto | str, feeds: dict[str, Any], *, rtol: float = 2e-6, atol: float = 2e-6
) -> None:
    """Every output of irc is onnxruntime's: element type, shape, numbers, text."""
    wanted = create_session(model).run(None, feeds)
    net = irc.compile_model(model)
    assert not any(net.graph.op(n).kind == "OnnxNode" for n in net.graph.ids())
    for got, want in zip(net(feeds), wanted, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if want.dtype.kind in "Oiub":
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
