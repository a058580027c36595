"""MatMulNBits against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.frontends.onnx.ops.com_microsoft.matmul_nbits import unpack_codes
from irc_compiler.plan.specs.gemm import GemmSpec
from onnx import TensorProto, helper, numpy_helper
from support.frontends.ml_models import compare

_R = np.random.default_rng(7)


def model(
    m: int,
    k: int,
    n: int,
    bits: int,
    block: int,
    zero: str = "none",
    bias: bool = False,
    groups: Any = None,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A node with constant weights. zero: none, packed, float."""
    blocks = -(-k // block)
    arrays = [
        _R.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        _R.uniform(0.01, 0.1, n * blocks).astype(np.float32),
        _R.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8),
        np.zeros(0, np.int32) if groups is None else groups,
        _R.standard_normal(n).astype(np.float32),
    ]
    if zero == "float":
        arrays[2] = _R.uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
    given = [True, True, zero != "none", groups is not None, bias]
    names = [f"c{i}" if there else "" for i, there in enumerate(given)]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        "MatMulNBits", ["a", *names], ["y"], domain="com.microsoft",
        K=k, N=n, bits=bits, block_size=block,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["M", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", n])],
        [numpy_helper.from_array(x, c) for x, c in zip(arrays, names, strict=False) if c],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return made, {"a": _R.standard_normal((m, k)).astype(np.float32)}


@pytest.mark.parametrize(
    ("bits", "zero"), [(2, "packed"), (4, "none"), (4, "packed"), (8, "none"), (8, "packed")]
)
def test_against_onnxruntime(bits: int, zero: str) -> None:
    compare(*model(3, 70, 24, bits, 32, zero, bias=True), rtol=1e-4, atol=1e-3)


def test_zero_points_that_are_floats() -> None:
    compare(*model(3, 64, 24, 4, 16, "float"), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
def test_large_weights_stay_compressed(bits: int) -> None:
    made, feeds = model(5, 256, 160, bits, 64, "packed")
    compare(made, feeds, rtol=1e-4, atol=1e-2)
    net = irc.compile_model(made)
    (spec,) = [s for s in net.plan.specs() if isinstance(s, GemmSpec)]
    assert spec.b.dtype.bits == bits and spec.compressed is not None


@pytest.mark.parametrize("zero", ["none", "float"])
def test_rows_in_the_order_of_gptq(zero: str) -> None:
    """g_idx holds the block of each row: of act-order, and of rows that are adjacent anyway."""
    adjacent = np.arange(128, dtype=np.int32) // 32
    for groups in (_R.permutation(adjacent), adjacent):
        made, feeds = model(3, 128, 24, 4, 32, zero, bias=True, groups=groups)
        compare(made, feeds, rtol=1e-4, atol=1e-3)


def test_packed_zero_points_in_the_order_of_gptq() -> None:
    """Against the operator's formula: onnxruntime 1.32 ignores packed zero points next to g_idx.
    The weights stay compressed."""
    groups = _R.permutation(np.arange(256, dtype=np.int32) // 64)
    made, feeds = model(5, 256, 160, 4, 64, "packed", groups=groups)
    packed, scale, zero = (numpy_helper.to_array(i) for i in made.graph.initializer[:3])
    codes = unpack_codes(packed, 4, 160, 256).astype(np.float64)
    zeros = unpack_codes(zero, 4, 160, 4).astype(np.float64)
    weight = (codes - zeros[:, groups]) * scale.reshape(160, 4)[:, groups]
    net = irc.compile_model(made)
    np.testing.assert_allclose(net(feeds)[0], feeds["a"] @ weight.T, rtol=1e-4, atol=1e-3)
    (spec,) = [s for s in net.plan.specs() if isinstance(s, GemmSpec)]
    assert spec.b.dtype.bits == 4 and spec.compressed is not None


def test_blocks_of_unequal_size_are_refused() -> None:
    groups = np.zeros(128, np.int32)
    with pytest.raises(irc.Error, match="g_idx"):
        irc.compile_model(model(3, 128, 24, 4, 32, groups=groups)[0])


def test_weights_must_be_constants_of_the_right_size() -> None:
    made, _ = model(3, 64, 24, 4, 32)
    made.graph.node[0].attribute[0].i = 96
    with pytest.raises(irc.Error, match="other weights"):
        irc.compile_model(made)
    made, _ = model(3, 64, 24, 4, 32)
    del made.graph.initializer[0]
    made.graph.input.append(helper.make_tensor_value_info("c0", TensorProto.UINT8, [24, 2, 16]))
    with pytest.raises(irc.Error, match="not constants"):
        irc.compile_model(made)
