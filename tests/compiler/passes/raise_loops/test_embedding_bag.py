"""Bags of embeddings as PyTorch's exporters write them, against onnxruntime."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import pytest
from irc_compiler.plan.text import print_plan
from support.plan_steps import step_families

TABLE = np.random.default_rng(0).integers(-9, 10, (50, 8)).astype(np.float32)

# What both exporters begin with: numbers of rows in a row, and where each bag begins.
FLAT = {
    "bags": """
      minus = Constant <value_ints = [-1]> ()
      flat = Reshape (x, minus)
      shape = Shape (x)
      zero = Constant <value_int = 0> ()
      one = Constant <value_int = 1> ()
      total = ReduceProd <keepdims = 0> (shape)
      size = Gather (shape, one)
      begins = Range (zero, total, size)
      axes = Constant <value_ints = [0]> ()
      last = Unsqueeze (total, axes)
      offsets = Concat <axis = 0> (begins, last)
    """,
    "flat": """
      flat = Identity (x)
      zero = Constant <value_int = 0> ()
      shape = Shape (x)
      total = Gather (shape, zero)
      axes = Constant <value_ints = [0]> ()
      last = Unsqueeze (total, axes)
      offsets = Concat <axis = 0> (o, last)
    """,
}

# The older exporter: a counted loop over offsets and their successors.
COUNTED = """
      ones = Constant <value_ints = [1]> ()
      far = Constant <value_ints = [9223372036854775807]> ()
      ends = Slice (offsets, SKIP, far, axes, ones)
      sizes = Shape (ends)
      count = Gather (sizes, zero)
      yes = Constant <value = bool {1}> ()
      y = Loop (count, yes) <body = each (int64 i, bool go) => (bool on, float[8] row) {
        s = Gather (offsets, i)
        e = Gather (ends, i)
        inside = Constant <value_ints = [0]> ()
        start = Unsqueeze (s, inside)
        end = Unsqueeze (e, inside)
        picked = Slice (flat, start, end, inside)
        rows = Gather (table, picked)
        row = REDUCE <keepdims = 0> (rows, inside)
        on = Identity (go)
      }>
"""

# The newer one: a loop with a counter of its own that fills a list, and zeros for empty bags.
LISTED = """
      all = Gather (table, flat)
      limit = Constant <value_int = 4> ()
      yes = Constant <value = bool {1}> ()
      none = SequenceEmpty ()
      list, i9 = Loop (, yes, none, zero) <body = each
          (int64 t, bool go, seq(float) had, int64 i) => (bool on, seq(float) has, int64 next) {
        minus1 = Constant <value_ints = [-1]> ()
        at = Reshape (i, minus1)
        step = Constant <value_int = 1> ()
        two = Constant <value_int = 2> ()
        then1 = Add (at, step)
        then2 = Add (at, two)
        start = Slice (offsets, at, then1)
        end = Slice (offsets, then1, then2)
        empty = Equal (start, end)
        row = If (empty) <
          then_branch = zeros () => (float[1, 8] z) {
            z = Constant <value = float[1, 8] {0, 0, 0, 0, 0, 0, 0, 0}> ()
          },
          else_branch = some () => (float[1, N] r) {
            part = Slice (all, start, end)
            inside = Constant <value_ints = [0]> ()
            r = REDUCE <keepdims = 1> (part, inside)
          }>
        has = SequenceInsert (had, row)
        next = Add (i, step)
        on = Less (next, limit)
      }>
      y = ConcatFromSequence <axis = 0> (list)
"""


def model(ports: str, *parts: str, **words: str) -> bytes:
    body = "".join(parts)
    for word, by in words.items():
        body = body.replace(word, by)
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
    g ({ports}) => (float[M, 8] y) {{ {body} }}"""
    made = onnx.parser.parse_model(text)
    made.graph.initializer.append(onnx.numpy_helper.from_array(TABLE, "table"))
    return made.SerializeToString()


def compiled(tmp_path: Any, data: bytes) -> irc.CompiledModel:
    (tmp_path / "m.onnx").write_bytes(data)
    return irc.compile_model(tmp_path / "m.onnx")


def agree(net: irc.CompiledModel, data: bytes, **feeds: np.ndarray) -> None:
    (wanted,) = onnxruntime.InferenceSession(data).run(None, feeds)
    found = net(feeds)[0]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax")


@pytest.mark.parametrize("loop", [COUNTED, LISTED], ids=["counted", "listed"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_bags_of_one_size_are_an_axis(tmp_path: Any, loop: str, reduction: str) -> None:
    rows = "B" if loop is COUNTED else "4"
    data = model(f"int64[{rows}, 3] x", FLAT["bags"], loop, REDUCE=reduction, SKIP="ones")
    net = compiled(tmp_path, data)
    assert not net.plan.host_steps() and step_families(net.plan) == ["gather", "reduce"], (
        print_plan(net.plan)
    )
    for bags in (4,) if loop is LISTED else (1, 4, 33):
        agree(net, data, x=np.random.default_rng(bags).integers(0, 50, (bags, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("loop", [COUNTED, LISTED], ids=["counted", "listed"])
@pytest.mark.parametrize("reduction", REDUCTIONS[:2])
@pytest.mark.parametrize("offsets", [[0, 2, 2, 7], [0, 0, 0, 0], [3, 5, 12, 12], [0, 1, 2, 11]])
def test_bags_of_any_size_are_added_up(
    tmp_path: Any, loop: str, reduction: str, offsets: list[int]
) -> None:
    data = model("int64[N] x, int64[4] o", FLAT["flat"], loop, REDUCE=reduction, SKIP="ones")
    net = compiled(tmp_path, data)
    assert not net.plan.host_steps(), print_plan(net.plan)
    assert "gather_scatter" in step_families(net.plan), print_plan(net.plan)
    agree(net, data, x=np.random.default_rng(1).integers(0, 50, 12), o=np.array(offsets))


def test_other_loops_stay(tmp_path: Any) -> None:
    """Bags that end where others end, products for sums: loops as they were, and right."""
    x, o = np.random.default_rng(2).integers(0, 50, 12), np.array([0, 2, 2, 7])
    for words in (
        {"SKIP": "twice", "REDUCE": "ReduceSum"},
        {"SKIP": "ones", "REDUCE": "ReduceProd"},
    ):
        parts = ("twice = Constant <value_ints = [2]> ()", FLAT["flat"], COUNTED)
        data = model("int64[N] x, int64[4] o", *parts, **words)
        net = compiled(tmp_path, data)
        assert net.plan.host_steps(), print_plan(net.plan)
        agree(net, data, x=x, o=o)
