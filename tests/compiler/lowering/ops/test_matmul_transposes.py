"""Products among transposes: rows in whichever order they lie, columns never one by one, tokens
that become an image without a copy. Results against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.plan.text import print_plan
from support.plan_steps import gemm_specs

from tests.compiler.lowering.ops.test_matmul import agree, compiled, model, steps


@pytest.mark.slow
@pytest.mark.parametrize("shape", [["B", 20, 24], [3, "S", 24], ["B", "S", 24], [3, 20, 24]])
@pytest.mark.parametrize("before", [True, False])
def test_rows_of_a_batch_that_is_turned_are_one_product(
    tmp_path: Any, shape: list[Any], before: bool
) -> None:
    """[B, S, K] to [S, B, N], as multi-head attention with the batch first is exported."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.integers(-3, 4, (24, 33)).astype("f4")}
    turn = {"perm": [1, 0, 2]}
    nodes = [("Transpose", "x", "t", turn), ("MatMul", "t w", "p"), ("Relu", "p", "y")]
    if not before:
        nodes = [("MatMul", "x w", "p"), ("Relu", "p", "r"), ("Transpose", "r", "y", turn)]
    data = model(nodes, {"x": ("f4", shape)}, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 1}, print_plan(net.plan)
    (spec,) = gemm_specs(net.plan)
    assert spec.batch == () and (spec.out_m_split or spec.a_m_split), print_plan(net.plan)
    for b, s in ((1, 20), (3, 20), (3, 1)):
        sizes = [b if d in ("B", 3) else s if d in ("S", 20) else d for d in shape]
        sizes = [n if isinstance(n, int) else 1 for n in sizes]
        fixed = [have if isinstance(have, int) else n for have, n in zip(shape, sizes, strict=True)]
        agree(net, data, {"x": rng.integers(-3, 4, fixed).astype("f4")}, 0)


def test_rows_that_do_not_join_are_the_known_ones(tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    weights = {"w": rng.integers(-3, 4, (24, 33)).astype("f4")}
    nodes = [
        ("Transpose", "x", "t", {"perm": [1, 0, 2]}),
        ("MatMul", "t w", "p"),
        ("Add", "p r", "y"),
    ]
    ports = {"x": ("f4", ["B", 20, 24]), "r": ("f4", [20, 1, 33])}
    data = model(nodes, ports, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    (spec,) = gemm_specs(net.plan)
    assert spec.m == 20, print_plan(net.plan)
    for b in (1, 2, 5):
        x, r = (rng.integers(-3, 4, s).astype("f4") for s in ((b, 20, 24), (20, 1, 33)))
        agree(net, data, {"x": x, "r": r}, 0)


@pytest.mark.parametrize("tail", ["", "Reshape", "Concat"])
def test_products_write_vectors_of_columns(tmp_path: Any, tail: str) -> None:
    """A result with its columns turned to the front is written as it is, and copied."""
    rng = np.random.default_rng(3)
    weights: dict[str, Any] = {"w": rng.integers(-3, 4, (24, 40)).astype("f4")}
    weights["shape"] = np.array([0, 5, -1])
    turned: list[tuple[Any, ...]] = [
        ("MatMul", "x w", "p"),
        ("Transpose", "p", "t" if tail else "y", {"perm": [0, 2, 1]}),
    ]
    if tail == "Reshape":
        turned.append(("Reshape", "t shape", "y"))
    elif tail:
        turned.append(("Concat", "t t", "y", {"axis": 1}))
    data = model(turned, {"x": ("f4", [2, 30, 24])}, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    (spec,) = gemm_specs(net.plan)
    assert spec.out.strides[-1] == 1, print_plan(net.plan)
    agree(net, data, {"x": rng.integers(-3, 4, (2, 30, 24)).astype("f4")}, 0)


def test_tokens_become_an_image_without_a_copy(tmp_path: Any) -> None:
    """A product's [B, H * W, C] as the image of a depthwise convolution, joined with another, and
    back to tokens: the layers of vision transformers that convolve."""
    rng = np.random.default_rng(4)
    weights: dict[str, Any] = {
        "w": rng.integers(-3, 4, (24, 32)).astype("f4"),
        "d": rng.integers(-3, 4, (32, 1, 3, 3)).astype("f4"),
        "f": rng.integers(-3, 4, (16, 64, 1, 1)).astype("f4"),
        "image": np.array([0, 32, 6, 10]),
        "tokens": np.array([0, 16, 60]),
        "v": rng.integers(-3, 4, (16, 8)).astype("f4"),
    }
    pads = {"pads": [1, 1, 1, 1], "group": 32}
    nodes = [
        ("MatMul", "x w", "p"),
        ("Transpose", "p", "t", {"perm": [0, 2, 1]}),
        ("Reshape", "t image", "i"),
        ("Conv", "i d", "c", pads),
        ("Concat", "i c", "j", {"axis": 1}),
        ("Conv", "j f", "g"),
        ("Reshape", "g tokens", "h"),
        ("Transpose", "h", "k", {"perm": [0, 2, 1]}),
        ("MatMul", "k v", "y"),
    ]
    data = model(nodes, {"x": ("f4", [2, 60, 24])}, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    found = steps(net)
    copies = found["elementwise"] + found["gather"]
    # Only the part of the concatenation that two read is copied.
    assert copies <= 1, print_plan(net.plan)
    agree(net, data, {"x": rng.integers(-3, 4, (2, 60, 24)).astype("f4")}, 0)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, -1])
def test_a_part_that_a_known_index_picks_is_not_copied(tmp_path: Any, at: int) -> None:
    """Queries, keys or values out of one product, stacked and picked as exporters do."""
    rng = np.random.default_rng(5)
    weights: dict[str, Any] = {
        "w": rng.integers(-3, 4, (24, 96)).astype("f4"),
        "shape": np.array([0, 0, 3, 32]),
        "at": np.array(at),
        "v": rng.integers(-3, 4, (32, 8)).astype("f4"),
    }
    nodes = [
        ("MatMul", "x w", "p"),
        ("Reshape", "p shape", "s"),
        ("Transpose", "s", "t", {"perm": [2, 0, 1, 3]}),
        ("Gather", "t at", "q", {"axis": 0}),
        ("MatMul", "q v", "y"),
    ]
    data = model(nodes, {"x": ("f4", ["B", 7, 24])}, weights, {"y": "f4"})
    net = compiled(tmp_path, data)
    assert steps(net) == {"gemm": 2}, print_plan(net.plan)
    for b in (1, 3):
        agree(net, data, {"x": rng.integers(-3, 4, (b, 7, 24)).astype("f4")}, 0)
