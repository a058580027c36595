"""MatMulBnb4 against onnxruntime over both types, sizes of blocks and weights that onnxruntime's
own quantizer packed; MatMulInteger16."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
_R = np.random.default_rng(31)
FP4, NF4 = 0, 1


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


def product(kind: int, block: int, k: int, columns: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    from onnxruntime.capi import _pybind_state

    packed = np.zeros((columns * k + 1) // 2, np.uint8)
    largest = np.zeros(-(-columns * k // block), np.float32)
    _pybind_state.quantize_matmul_bnb4(packed, f(k, columns), largest, block, kind, columns, k)
    node = helper.make_node("MatMulBnb4", ["x", "w", "s"], ["y"], domain=MS, K=k, N=columns,
                            block_size=block, quant_type=kind)  # fmt: skip
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", 1, [2, 3, k])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(largest, "s")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {"x": f(2, 3, k)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FP4, NF4])
@pytest.mark.parametrize(("block", "k", "columns"), [(16, 32, 5), (64, 128, 8), (32, 48, 7)])
def test_products(kind: int, block: int, k: int, columns: int) -> None:
    compare(*product(kind, block, k, columns), rtol=1e-5, atol=1e-5)


def test_nf4_weights_stay_packed_in_the_graph() -> None:
    graph = irc.read_model(product(NF4, 64, 128, 8)[0]).graph
    held = [graph.op(n).dtype.value for n in graph.ids() if graph.op(n).kind == "Constant"]
    assert "nf4" in held


@pytest.mark.slow
def test_products_of_i16_wrap_around() -> None:
    a, b = (_R.integers(-(2**15), 2**15, s).astype(np.int16) for s in ((2, 3, 9), (9, 4)))
    compare(*one_node("MatMulInteger16", [a, b], ["y"], domain=MS))


def test_weights_that_do_not_fit_are_refused() -> None:
    model, _ = product(NF4, 16, 32, 5)
    next(a for a in model.graph.node[0].attribute if a.name == "N").i = 6
    with pytest.raises(irc.Error, match="other weights than K and N"):
        irc.read_model(model)
