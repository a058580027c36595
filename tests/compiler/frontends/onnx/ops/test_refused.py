"""Each operator that the installed onnxruntime defines in com.microsoft is read, or refused with a
reason."""

from __future__ import annotations

import irc_compiler as irc
import pytest
from irc_compiler.compiler.frontends.onnx.ops import IMPORTERS
from irc_compiler.compiler.frontends.onnx.ops.refused import REASONS
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import (
    get_all_operator_schema,
    get_all_opkernel_def,
)

MS = "com.microsoft"
READ = {name.removeprefix(f"{MS}::") for name in IMPORTERS if name.startswith(f"{MS}::")}


def test_every_operator_is_read_or_refused_with_a_reason() -> None:
    defined = {schema.name for schema in get_all_operator_schema() if schema.domain == MS}
    assert len(defined) >= 100
    assert sorted(defined - READ - REASONS.keys()) == []


def test_no_operator_is_read_and_refused() -> None:
    assert not READ & REASONS.keys()


def test_what_is_refused_for_want_of_a_kernel_has_none() -> None:
    kernels = {kernel.op_name for kernel in get_all_opkernel_def() if kernel.domain == MS}
    assert [n for n, reason in REASONS.items() if "it is for GPUs" in reason and n in kernels] == []


@pytest.mark.parametrize(
    ("op_type", "reason"), [("RelativePositionBias", "it is for GPUs"), ("BeamSearch", "irc.LLM")]
)
def test_the_error_says_why(op_type: str, reason: str) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], domain=MS)
    ports = [helper.make_tensor_value_info(name, 1, [3]) for name in "xy"]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    with pytest.raises(irc.UnsupportedOperationError, match=reason):
        irc.read_model(helper.make_model(graph, opset_imports=opsets, ir_version=10))
