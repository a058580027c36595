"""Operands whose sizes only data tells: cases of ONNX's backend tests, one operand at a time."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.frontends.onnx_cases import node_cases, same

NAMES = (
    "attention_4d",
    "attention_4d_attn_mask_bool",
    "batchnorm_example",
    "causal_conv_with_state_basic",
    "convtranspose_group_2",
    "einsum_batch_matmul",
    "gathernd_example_int32",
    "gemm_all_attributes",
    "gru_batchwise",
    "gridsample",
    "group_normalization_example",
    "layer_normalization_2d_axis1",
    "lstm_with_peepholes",
    "qlinearmatmul_2D_uint8_float32",
    "roialign_aligned_true",
    "scatter_elements_with_axis",
)


def _told_by_data(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with an input read through a Reshape to an input of sizes."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    for node in graph.node:
        for at, read in enumerate(node.input):
            if read == name:
                node.input[at] = f"{name}_of_data"
    sizes = f"{name}_sizes"
    graph.node.insert(0, helper.make_node("Reshape", [name, sizes], [f"{name}_of_data"]))
    (rank,) = (len(i.type.tensor_type.shape.dim) for i in graph.input if i.name == name)
    graph.input.append(helper.make_tensor_value_info(sizes, TensorProto.INT64, [rank]))
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_depend_on_data(name: str) -> None:
    (case,) = (c for c in node_cases() if c.name == f"test_{name}")
    inputs, expected = case.data_sets[0]
    feeds = {i.name: a for i, a in zip(case.model.graph.input, inputs, strict=True)}
    told = [key for key, array in feeds.items() if array.ndim]
    assert told
    for key in told:
        net = irc.compile_model(_told_by_data(case.model, key))
        found = net({**feeds, f"{key}_sizes": np.array(feeds[key].shape)})
        for got, want in zip(found, expected, strict=True):
            same(got, want, case.rtol, case.atol)


def test_filters_that_do_not_split_into_groups() -> None:
    (case,) = (c for c in node_cases() if c.name == "test_convtranspose_group_2")
    name = case.model.graph.input[1].name
    net = irc.compile_model(_told_by_data(case.model, name))
    data, filters = case.data_sets[0][0]
    with pytest.raises(irc.Error, match="the -1 of a reshape target is not an integer"):
        net({"X": data, name: filters, f"{name}_sizes": np.array([1, 2, 3, 3])})
