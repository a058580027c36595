"""Products that read and write memory as it lies: plans without copies, results against
onnxruntime and OpenVINO."""

from __future__ import annotations

from collections import Counter
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.plan.text import print_plan
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from support.models.exact_int8 import OPENVINO_CONFIG

_TYPES = {
    "u1": T.UINT8, "i1": T.INT8, "u2": T.UINT16, "i4": T.INT32, "i8": T.INT64,
    "f2": T.FLOAT16, "f4": T.FLOAT, "f8": T.DOUBLE,
}  # fmt: skip


def model(
    nodes: list[tuple[Any, ...]],
    inputs: dict[str, tuple[str, list[Any]]],
    weights: dict[str, np.ndarray],
    outputs: dict[str, str],
) -> bytes:
    """An ONNX model of (type, inputs, output, attributes) nodes."""
    made = [
        helper.make_node(kind, given.split(), [to], **(dict(*more)))
        for kind, given, to, *more in nodes
    ]
    ports = [helper.make_tensor_value_info(n, _TYPES[t], s) for n, (t, s) in inputs.items()]
    results = [helper.make_tensor_value_info(n, _TYPES[t], None) for n, t in outputs.items()]
    arrays = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(made, "g", ports, results, arrays)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def steps(net: irc.CompiledModel) -> Counter[str]:
    return Counter(s.spec.family for s in net.plan.kernel_steps())


def agree(net: irc.CompiledModel, source: bytes, feeds: dict[str, np.ndarray], rtol: float) -> None:
    wanted = onnxruntime.InferenceSession(source).run(None, feeds)
    for found, want in zip(net(feeds), wanted, strict=True):
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol * np.abs(want).max())


def compiled(tmp_path: Any, source: bytes, **options: Any) -> irc.CompiledModel:
    (tmp_path / "model.onnx").write_bytes(source)
    return irc.compile_model(tmp_path / "model.onnx", **options)


CONVERTED = [
    ("u1", "f4", ["B", 5, 24]),
    ("i1", "f4", [1, 24]),
    ("i4", "f4", [30, 24]),
    ("i8", "f4", ["M", 24]),
    ("f4", "f8", [7, 24]),
    ("u2", "f8", ["M", 24]),
    ("i4", "f2", [4, 24]),
    ("f8", "f4", [4, 24]),
]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [33, 1])
@pytest.mark.parametrize("source, to, shape", CONVERTED, ids=lambda x: str(x))
def test_left_operands_are_converted_while_they_are_packed(
    tmp_path: Any, source: str, to: str, shape: list[Any], columns: int
) -> None:
    rng = np.random.default_rng(1)
    weights = {"w": rng.standard_normal((24, columns)).astype(to)}
    data = model(
        [("Cast", "x", "c", {"to": _TYPES[to]}), ("MatMul", "c w", "p"), ("Relu", "p", "y")],
        {"x": (source, shape)}, weights, {"y": to},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    sizes = [9 if isinstance(d, str) else d for d in shape]
    x = rng.integers(0, 120, sizes).astype(source)
    agree(net, data, {"x": x}, {"f2": 1e-3, "f4": 1e-5, "f8": 1e-12}[to])


def test_right_operands_and_several_readers(tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    data = model(
        [("Cast", "x", "a", {"to": T.FLOAT}), ("Cast", "z", "b", {"to": T.FLOAT}),
         ("MatMul", "a v", "p"), ("MatMul", "a w", "q"), ("MatMul", "p b", "y"),
         ("Relu", "q", "r")],
        {"x": ("u1", [9, 24]), "z": ("i1", [40, 17])},
        {n: rng.standard_normal((24, 40)).astype("f4") for n in "vw"}, {"y": "f4", "r": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 3}, print_plan(net.plan)
    x, z = rng.integers(0, 256, (9, 24)).astype("u1"), rng.integers(-128, 128, (40, 17))
    agree(net, data, {"x": x, "z": z.astype("i1")}, 1e-5)


TO_F32 = {"to": T.FLOAT}
HEADED = [1, 3, "S", 16]
# What is read by the product, and whether it lies so that nothing has to be copied.
MOVED = {
    "reshaped": ([("Cast", "x", "c", TO_F32), ("Reshape", "c merged", "r")], ["B", "S", 3, 16]),
    "reshaped before": ([("Reshape", "x merged", "c"), ("Cast", "c", "r", TO_F32)], ["B", "S", 48]),
    "columns": (
        [("Cast", "x", "c", TO_F32), ("Transpose", "c", "r", {"perm": [0, 2, 1]})], ["B", 48, "S"],
    ),
    "heads": (
        [("Cast", "x", "c", TO_F32), ("Transpose", "c", "t", {"perm": [0, 2, 1, 3]}),
         ("Reshape", "t merged", "r")], HEADED,
    ),
    "heads before": (
        [("Transpose", "x", "t", {"perm": [0, 2, 1, 3]}), ("Reshape", "t merged", "c"),
         ("Cast", "c", "r", TO_F32)], HEADED,
    ),
    "heads around": (
        [("Transpose", "x", "t", {"perm": [0, 2, 1, 3]}), ("Cast", "t", "c", TO_F32),
         ("Reshape", "c merged", "r")], HEADED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_conversions_are_found_behind_views_and_before_them(tmp_path: Any, name: str) -> None:
    nodes, shape = MOVED[name]
    weights = {"w": np.random.default_rng(5).standard_normal((48, 33)).astype("f4")}
    weights |= {"merged": np.array([0, 0, 48])}
    data = model([*nodes, ("MatMul", "r w", "y")], {"x": ("u1", shape)}, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    assert "c" in {n for s in net.plan.kernel_steps() for n in s.sources} or "before" in name
    sizes = [{"B": 2, "S": 7}.get(d, d) for d in shape]
    agree(net, data, {"x": np.random.default_rng(6).integers(0, 256, sizes).astype("u1")}, 1e-5)


def test_heads_that_end_inside_a_vector_are_copied_as_they_are(tmp_path: Any) -> None:
    """A step of its own, but of bytes; and the right operand, whose view needs none."""
    nodes, _ = MOVED["heads"]
    right = [("Cast", "z", "d", TO_F32), ("Transpose", "d", "w", {"perm": [0, 2, 1]})]
    data = model(
        [*nodes, *right, ("MatMul", "r w", "y")],
        {"x": ("u1", [1, 3, "S", 5]), "z": ("i1", [1, 9, 15])},
        {"merged": np.array([0, 0, 15])}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1, "elementwise": 1}
    (copy,) = (s.spec for s in net.plan.kernel_steps() if s.spec.family == "elementwise")
    assert copy.operands()[-1].dtype.bits == 8
    rng = np.random.default_rng(7)
    feeds = {"x": rng.integers(0, 256, (1, 3, 7, 5)).astype("u1")}
    feeds["z"] = rng.integers(-128, 128, (1, 9, 15)).astype("i1")
    agree(net, data, feeds, 1e-5)


def test_a_square_is_the_product_s_own(tmp_path: Any) -> None:
    data = model(
        [("MatMul", "x w", "p"), ("Relu", "p", "r"), ("Mul", "r r", "y")], {"x": ("f4", ["B", 24])},
        {"w": np.random.default_rng(8).standard_normal((24, 33)).astype("f4")}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    agree(net, data, {"x": np.random.default_rng(9).standard_normal((5, 24)).astype("f4")}, 1e-5)


def test_a_conversion_that_others_read_stays_a_step(tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    data = model(
        [("Cast", "x", "c", {"to": T.FLOAT}), ("MatMul", "c w", "y"), ("ReduceSum", "c", "s")],
        {"x": ("i4", [9, 24])}, {"w": rng.standard_normal((24, 5)).astype("f4")},
        {"y": "f4", "s": "f4", "c": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net)["elementwise"] == 1
    agree(net, data, {"x": rng.integers(-9, 9, (9, 24)).astype("i4")}, 1e-5)


def test_a_conversion_in_an_earlier_region_stays_there(tmp_path: Any) -> None:
    """The product waits for columns that data picks; the conversion does not."""
    rng = np.random.default_rng(4)
    data = model(
        [("Cast", "x", "c", {"to": T.FLOAT}), ("NonZero", "f", "n"), ("Squeeze", "n zero", "i"),
         ("Gather", "w i", "v", {"axis": 1}), ("MatMul", "c v", "y")],
        {"x": ("u1", [7, 24]), "f": ("f4", [16])},
        {"w": rng.standard_normal((24, 16)).astype("f4"), "zero": np.array([0])}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert len(net.plan.regions) == 2 and steps(net)["elementwise"] == 1
    f = (rng.random(16) > 0.4).astype("f4")
    agree(net, data, {"x": rng.integers(0, 256, (7, 24)).astype("u1"), "f": f}, 1e-5)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype("f4")


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


HEADS = {"perm": [0, 2, 1, 3]}
IN_HEADS = [("Transpose", "x", "t", HEADS), ("Reshape", "t merged", "r")]
TO_HEADS = [("Reshape", "p heads", "h"), ("Transpose", "h", "y", HEADS)]
SIZES = [(2, 7), (1, 7), ("B", "S"), ("B", 1), (3, "S")]


def net_with_heads(
    size: int, sizes: tuple[Any, Any], *, read: bool, written: bool
) -> tuple[bytes, dict[str, np.ndarray]]:
    """Three heads of `size` times weights, plus a bias, to two heads of `size`."""
    b, s = sizes
    given = [b, 3, s, size] if read else [b, s, 3 * size]
    nodes = [*IN_HEADS, ("MatMul", "r w", "m")] if read else [("MatMul", "x w", "m")]
    nodes += [("Add", "m b", "p"), *TO_HEADS] if written else [("Add", "m b", "y")]
    weights = {"w": floats(3 * size, 2 * size), "b": floats(2 * size)}
    weights |= {"merged": whole(0, 0, 3 * size), "heads": whole(0, 0, 2, size)}
    feeds = {"x": floats(*[{"B": 2, "S": 5}.get(d, d) for d in given])}
    return model(nodes, {"x": ("f4", given)}, weights, {"y": "f4"}), feeds


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("size", [16, 5])
@pytest.mark.parametrize("read, written", [(True, False), (False, True), (True, True)])
def test_heads_are_neither_gathered_nor_spread_by_copies(
    tmp_path: Any, sizes: tuple[Any, Any], size: int, read: bool, written: bool
) -> None:
    data, feeds = net_with_heads(size, sizes, read=read, written=written)
    # Heads that end inside a vector are copied, unless their order needs none.
    copies = 0 if size == 16 or sizes[1] == 1 else read + written
    wanted = {"gemm": 1, **({"elementwise": copies} if copies else {})}
    for threads in (1, 2):
        net = compiled(tmp_path, data, num_threads=threads)
        assert steps(net) == wanted, print_plan(net.plan)
        agree(net, data, feeds, 1e-5)
    (product,) = (s for s in net.plan.kernel_steps() if s.spec.family == "gemm")
    assert product.spec.batch == (), "rows of all matrices share the weight"


def test_rounded_factors_in_heads(tmp_path: Any) -> None:
    data, feeds = net_with_heads(32, ("B", "S"), read=True, written=True)
    net = compiled(tmp_path, data, precision="bf16")
    assert steps(net) == {"gemm": 1}
    agree(net, data, feeds, 2e-2)


@pytest.mark.parametrize("dtype, rtol", [("f2", 4e-3), ("f8", 1e-12), ("u1", 0)])
def test_other_types_in_heads(tmp_path: Any, dtype: str, rtol: float) -> None:
    """Also sums of bytes, with a zero point."""
    weights = {"merged": whole(0, 0, 192), "heads": whole(0, 0, 2, 32)}
    x, w = floats(2, 3, 5, 64), floats(192, 64)
    if dtype == "u1":
        nodes = [*IN_HEADS, ("MatMulInteger", "r w zero", "p"), *TO_HEADS]
        weights |= {"w": (w * 40).astype("i1"), "zero": np.array(7, "u1")}
        x = np.abs(x * 60)
    else:
        nodes = [*IN_HEADS, ("MatMul", "r w", "m"), ("Add", "m b", "p"), *TO_HEADS]
        weights |= {"w": w.astype(dtype), "b": floats(64).astype(dtype)}
    made = "i4" if dtype == "u1" else dtype
    data = model(nodes, {"x": (dtype, ["B", 3, "S", 64])}, weights, {"y": made})
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    agree(net, data, {"x": x.astype(dtype)}, rtol)


def test_openvino_agrees(tmp_path: Any) -> None:
    import openvino

    data, feeds = net_with_heads(32, ("B", "S"), read=True, written=True)
    (found,) = compiled(tmp_path, data)(feeds)
    core, hint = openvino.Core(), OPENVINO_CONFIG
    other = core.compile_model(core.read_model(tmp_path / "model.onnx"), "CPU", hint)
    np.testing.assert_allclose(found, other(feeds)[0], rtol=1e-5, atol=1e-5)


def test_heads_behind_one_axis_of_rows(tmp_path: Any) -> None:
    """Gemm on [B * S, K], and heads that are a batch for what follows."""
    data = model(
        [*IN_HEADS, ("Gemm", "r w b", "p"), ("Reshape", "p heads", "h"),
         ("Transpose", "h", "u", HEADS), ("Reshape", "u batch", "v"), ("MatMul", "v z", "y")],
        {"x": ("f4", ["B", 3, 5, 16])},
        {"w": floats(48, 80), "b": floats(80), "z": floats(16, 6), "merged": whole(-1, 48),
         "heads": whole(-1, 5, 5, 16), "batch": whole(-1, 5, 16)}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 2}, print_plan(net.plan)
    agree(net, data, {"x": floats(2, 3, 5, 16)}, 1e-5)


def test_new_keys_go_behind_the_old_ones(tmp_path: Any) -> None:
    data = model(
        [("MatMul", "x w", "p"), ("Reshape", "p heads", "h"), ("Transpose", "h", "t", HEADS),
         ("Concat", "past t", "y", {"axis": 2})],
        {"x": ("f4", ["B", "S", 24]), "past": ("f4", ["B", 3, "P", 16])},
        {"w": floats(24, 48), "heads": whole(0, 0, 3, 16)}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    # What is left copies the old keys.
    assert steps(net) == {"gemm": 1, "elementwise": 1}, print_plan(net.plan)
    agree(net, data, {"x": floats(2, 3, 24), "past": floats(2, 3, 4, 16)}, 1e-5)


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [2, 0, 3, 1], [3, 2, 1, 0]], ids=str)
def test_transposed_batches(tmp_path: Any, order: list[int]) -> None:
    data = model(
        [("MatMul", "x z", "p"), ("Transpose", "p", "y", {"perm": order})],
        {"x": ("f4", ["B", 3, "S", 24]), "z": ("f4", ["B", 3, 24, 16])}, {}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    # Columns that are turned to the front are copied (test_turned_products.py).
    assert steps(net)["gemm"] == 1 and steps(net)["elementwise"] == (order[-1] != 3)
    agree(net, data, {"x": floats(2, 3, 5, 24), "z": floats(2, 3, 24, 16)}, 1e-5)


def test_rows_and_result_in_other_blocks(tmp_path: Any) -> None:
    """Rows read as 3 x 8 and written as 2 x 12: one of the two is copied."""
    data = model(
        [("Transpose", "x", "t", HEADS), ("Reshape", "t merged", "r"), ("MatMul", "r w", "p"),
         ("Reshape", "p heads", "h"), ("Transpose", "h", "y", HEADS)],
        {"x": ("f4", [3, 2, 8, 16])},
        {"w": floats(32, 48), "merged": whole(24, 32), "heads": whole(2, 12, 3, 16)}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1, "elementwise": 1}
    agree(net, data, {"x": floats(3, 2, 8, 16)}, 1e-5)


def integers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape).integers(-4, 5, shape).astype(dtype)


def column_counts(net: irc.CompiledModel) -> list[Any]:
    return [s.spec.n for s in net.plan.kernel_steps() if s.spec.family == "gemm"]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("turned", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("batch, columns", [([6], 1), (["B"], 3), ([2, "B"], 7)], ids=str)
def test_one_matrix_times_many_of_few_columns_is_one_product(
    tmp_path: Any, dtype: str, turned: bool, batch: list[Any], columns: int
) -> None:
    """Its epilogue reads a bias by rows and a tensor of the result's size."""
    axes = [*range(len(batch)), len(batch) + 1, len(batch)]
    shape = [*batch, 24, columns]
    nodes = [("MatMul", "w t", "p"), ("Add", "p b", "q"), ("Mul", "q z", "r"), ("Relu", "r", "y")]
    nodes.insert(0, ("Transpose", "x", "t", {"perm": axes if turned else sorted(axes)}))
    given = [shape[a] for a in axes] if turned else shape
    data = model(
        nodes, {"x": (dtype, given), "z": (dtype, [*batch, 40, columns])},
        {"w": integers(dtype, 40, 24), "b": integers(dtype, 40, 1)}, {"y": dtype},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert column_counts(net) == [40], print_plan(net.plan)
    sizes = [5 if d == "B" else d for d in given], [5 if d == "B" else d for d in batch]
    feeds = {"x": integers(dtype, *sizes[0]), "z": integers(dtype, *sizes[1], 40, columns)}
    agree(net, data, feeds, 0)


@pytest.mark.parametrize(
    "kind", ["columns of a vector", "one matrix", "two matrices", "a row", "few rows"]
)
def test_other_products_of_one_matrix_keep_their_operands(tmp_path: Any, kind: str) -> None:
    left, shape, columns = {
        "columns of a vector": ([40, 24], [6, 24, 64], 64),
        "one matrix": ([40, 24], [1, 24, 3], 3),
        "two matrices": ([2, 40, 24], [2, 24, 3], 3),
        "a row": ([24], [6, 24, 3], 3),
        "few rows": ([2, 24], [6, 24, 3], 3),
    }[kind]
    data = model(
        [("MatMul", "w x", "y")], {"x": ("f4", shape)}, {"w": integers("f4", *left)}, {"y": "f4"}
    )
    net = compiled(tmp_path, data)
    assert column_counts(net) == [columns], print_plan(net.plan)
    agree(net, data, {"x": integers("f4", *shape)}, 0)


def test_a_left_matrix_may_be_an_input_and_the_result_may_be_reshaped(tmp_path: Any) -> None:
    """The second product reads what the first has written by two strides."""
    data = model(
        [("MatMul", "w x", "p"), ("Transpose", "p", "t", {"perm": [0, 2, 1]}),
         ("Reshape", "t rows", "r"), ("MatMul", "r v", "y"), ("Transpose", "p", "u",
         {"perm": [1, 0, 2]}), ("Reshape", "u flat", "z")],
        {"x": ("f4", ["B", 24, 3]), "w": ("f4", ["M", 24])},
        {"v": integers("f4", 10, 9), "rows": np.array([-1, 10]), "flat": np.array([-1, 5])},
        {"y": "f4", "z": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    feeds = {"x": integers("f4", 5, 24, 3), "w": integers("f4", 40, 24)}
    agree(net, data, feeds, 0)


@pytest.mark.parametrize(
    "parts, order",
    [([8, 5, 6], [0, 2, 1, 3]), ([4, 10, 6], [0, 2, 3, 1])],
    ids=str,
)
def test_a_result_in_blocks_is_written_where_it_belongs(
    tmp_path: Any, parts: list[int], order: list[int]
) -> None:
    data = model(
        [("MatMul", "w x", "p"), ("Reshape", "p parts", "r"), ("Transpose", "r", "y",
         {"perm": order})],
        {"x": ("f4", ["B", 24, 6])},
        {"w": integers("f4", 40, 24), "parts": np.array([-1, *parts])}, {"y": "f4"},
    )  # fmt: skip
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    (product,) = net.plan.kernel_steps()
    assert product.spec.batch == (), print_plan(net.plan)
    agree(net, data, {"x": integers("f4", 5, 24, 6)}, 0)
