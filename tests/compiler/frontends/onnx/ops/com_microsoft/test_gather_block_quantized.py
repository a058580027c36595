"""GatherBlockQuantized against onnxruntime over element types, bits, axes and zero points."""

from __future__ import annotations

import itertools
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.ir.graph import Value
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDTH = 20, 64
FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}


def tensor(name: str, codes: Any, kind: int, bits: int) -> onnx.TensorProto:
    """Codes packed along the last axis, of u8, or as a tensor of 4-bit integers."""
    if kind == TensorProto.UINT8:
        each = 8 // bits
        parts = codes.reshape(*codes.shape[:-1], -1, each).astype(np.uint8)
        packed = sum(parts[..., i] << (i * bits) for i in range(each)).astype(np.uint8)
        return numpy_helper.from_array(packed, name)
    return numpy_helper.from_array(codes.astype(helper.tensor_dtype_to_np_dtype(kind)), name)


def model(
    kind: int,
    bits: int,
    *,
    dtype: int = TensorProto.FLOAT,
    zero: bool = False,
    axes: tuple[int, int] = (0, 1),
    shape: tuple[int, ...] = (ROWS, WIDTH),
    block: int = 16,
    scales: tuple[int, ...] | None = None,
) -> onnx.ModelProto:
    """`axes`: of the gather and of the blocks."""
    rng = np.random.default_rng(bits)
    low = -8 if kind == TensorProto.INT4 else 0
    sizes = [
        -(-d // block) if block and i == axes[1] % len(shape) else d for i, d in enumerate(shape)
    ]
    data = tensor("data", rng.integers(low, low + (1 << bits), shape), kind, bits)
    sizes = sizes if scales is None else list(scales)
    scale = rng.uniform(0.01, 0.1, sizes).astype(FLOATS[dtype])
    constants = [data, numpy_helper.from_array(scale, "scales")]
    if zero:
        points = rng.integers(low, low + (1 << bits), sizes)
        constants.append(tensor("zeros", points, kind, bits))
    node = helper.make_node(
        "GatherBlockQuantized", ["data", "indices", "scales", *(["zeros"] if zero else [])], ["y"],
        domain="com.microsoft", bits=bits, block_size=block, gather_axis=axes[0],
        quantize_axis=axes[1],
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("indices", TensorProto.INT64, ["a", "b"])],
        [helper.make_tensor_value_info("y", dtype, None)],
        constants,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def agree(made: onnx.ModelProto, indices: Any) -> irc.CompiledModel:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    feeds = {"indices": np.array(indices, np.int64)}
    (want,) = ort.InferenceSession(made.SerializeToString(), options).run(None, feeds)
    net = irc.compile_model(made)
    (got,) = net(feeds)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    return net


INTEGERS = [(TensorProto.UINT8, bits) for bits in (2, 4, 8)]
INTEGERS += [(TensorProto.UINT4, 4), (TensorProto.INT4, 4)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows(kind: int, bits: int, zero: bool, dtype: int) -> None:
    net = agree(model(kind, bits, dtype=dtype, zero=zero), [[0, 3, ROWS - 1], [-1, -ROWS, 7]])
    assert ", 0 in Python" in net.report()


@pytest.mark.parametrize("kind", [TensorProto.UINT4, TensorProto.INT4])
@pytest.mark.parametrize(
    ("axes", "zero"), list(itertools.product([(0, 0), (1, 0), (1, 1), (-1, -2)], [False, True]))
)
def test_other_axes(kind: int, axes: tuple[int, int], zero: bool) -> None:
    agree(model(kind, 4, axes=axes, zero=zero, shape=(32, 32)), [[0, 31, 5]])


def test_three_axes_and_a_block_that_is_cut_off() -> None:
    agree(model(TensorProto.UINT4, 4, axes=(0, 2), shape=(6, 2, 32)), [[5, 0], [1, 1]])
    agree(model(TensorProto.INT4, 4, zero=True, shape=(6, 40)), [[5, 0], [1, 1]])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
@pytest.mark.parametrize(
    ("block", "scales"), [(16, (ROWS, 4)), (16, (1, 4)), (0, (ROWS, 1)), (0, (1, 1))]
)
def test_rows_of_floats(kind: int, block: int, scales: tuple[int, int]) -> None:
    agree(model(kind, 4, block=block, scales=scales), [[0, 3, ROWS - 1], [-1, -ROWS, 7]])


def test_indices_out_of_range_give_zeros() -> None:
    made = model(TensorProto.UINT8, 4, zero=True)
    (got,) = irc.compile_model(made)({"indices": np.array([[0, ROWS, -ROWS - 1]], np.int64)})
    assert got[0, 0].any() and not got[0, 1:].any()


def test_a_table_that_a_product_shares_is_reshaped() -> None:
    """onnxruntime-genai's builder writes one weight for the embeddings and the last product."""
    made = model(TensorProto.UINT8, 4)
    (data, *_), gather = made.graph.initializer, made.graph.node[0]
    data.dims[:] = [ROWS, WIDTH // 16, 8]
    made.graph.initializer.append(numpy_helper.from_array(np.array([ROWS, -1]), "rows"))
    gather.input[0] = "table"
    product = helper.make_node(
        "MatMulNBits", ["y", "data", "scales"], ["logits"], domain="com.microsoft",
        K=WIDTH, N=ROWS, bits=4, block_size=16,
    )  # fmt: skip
    nodes = [helper.make_node("Reshape", ["data", "rows"], ["table"]), gather, product]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    agree(made, [[0, 3, ROWS - 1], [-1, -ROWS, 7]])
    made.graph.output[0].name = "logits"
    options, feeds = ort.SessionOptions(), {"indices": np.array([[0, 5]], np.int64)}
    (want,) = ort.InferenceSession(made.SerializeToString(), options).run(None, feeds)
    (got,) = irc.compile_model(made)(feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_table_behind_many_reshapes_is_found() -> None:
    made = model(TensorProto.UINT8, 4)
    gather = made.graph.node[0]
    made.graph.initializer.append(numpy_helper.from_array(np.array([ROWS, -1]), "rows"))
    names = ["data", *(f"t{i}" for i in range(1500))]
    chain = [
        helper.make_node("Reshape", [a, "rows"], [b])
        for a, b in zip(names, names[1:], strict=False)
    ]
    gather.input[0] = names[-1]
    nodes = [*chain, gather]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    agree(made, [[0, 3, ROWS - 1]])


def test_the_table_stays_packed() -> None:
    net = irc.compile_model(model(TensorProto.UINT4, 4, shape=(1000, 64)))
    graph = net.graph
    tables = [Value(node) for node in graph.ids() if graph.op(node).kind == "Constant"]
    arrays = [fact.value for v in tables if (fact := graph.fact(v)) is not None]
    assert max(array.nbytes for array in arrays if array is not None) == 1000 * 64 // 2


def test_a_table_that_does_not_fit_is_refused() -> None:
    with pytest.raises(irc.Error, match="another number of scales"):
        read_onnx(model(TensorProto.UINT8, 4, scales=(ROWS, 3)))
