"""Variables that grow by Concat are stored with the axis that grows first."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.builder.tensor import Tensor
from irc_compiler.compiler.shape_analysis.grow_caches import grow_caches
from irc_compiler.ir import ops as o
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.interpret import interpret
from support.models.tiny_decoder import decoder_model


def kinds(graph: Any) -> list[str]:
    return [graph.op(n).kind for n in graph.order()]


def cache_model(rows: str = "input", order: bool = True) -> irc.Model:
    """y: the sum over a variable [B, P, 2] that takes in x [B, S, 2]. rows: "input", "none", or
    "computed", which is no input. order: whether the variable's value comes first."""
    x = ops.parameter("x", ["B", "S", 2])
    chosen = ops.parameter("rows", ["B"], "i32")
    sizes = ops.concat([ops.gather(ops.shape_of(x), np.array([0])), np.array([0, 2])])
    first = ops.broadcast_to(np.float32(0), sizes)
    past: Tensor = ops.apply(o.ReadValue("cache", DType.f32, "?,?,2"), first)
    if rows != "none":
        past = ops.gather(past, chosen if rows == "input" else ops.abs(chosen))
    grown = ops.concat([past, x] if order else [x, past], 1)
    held = ops.apply(o.Assign("cache"), grown)
    return ops.model({"y": ops.reduce_sum(held, [1])}, inputs=[x, chosen])


@pytest.mark.slow
def test_a_decoder_reads_caches_and_writes_no_repeated_heads() -> None:
    net = irc.compile_model(decoder_model(layers=3), num_threads=1)
    found = kinds(net.graph)
    assert found.count("ReadCache") == 6 and "ReadValue" not in found
    assert found.count("Broadcast") <= 6, "initial values only"
    lengths = {str(getattr(net.plan.slots[v.slot], "shape")[0]) for v in net.plan.variables}  # noqa: B009
    assert len(lengths) == 1, "variables that grow alike have one length"
    assert all(v.axes == (2, 0, 1, 3) and v.row_axis == 1 for v in net.plan.variables)


@pytest.mark.parametrize("rows", ["input", "none", "computed"])
def test_runs_equal_a_list_of_rows(rows: str) -> None:
    net = irc.compile_model(cache_model(rows), num_threads=1)
    assert ("ReadCache" in kinds(net.graph)) == (rows != "computed")
    request = net.create_infer_request()
    wanted = np.zeros((2, 0, 2), np.float32)
    rng = np.random.default_rng(0)
    choices = [[0, 1], [1, 0], [1, 1], [0, 1]]
    for chosen in choices if rows == "computed" else [*choices, [-1, 0], [0, 7]]:
        x = rng.standard_normal((2, 3, 2)).astype(np.float32)
        found = request(x=x, rows=np.array(chosen, np.int32))["y"]
        if rows != "none":  # out of range gives zeros, as Gather does in OpenVINO
            wanted = np.stack([wanted[c] if c < 2 else np.zeros_like(wanted[0]) for c in chosen])
        wanted = np.concatenate([wanted, x], axis=1)
        np.testing.assert_allclose(found, wanted.sum(axis=1), rtol=1e-5, atol=1e-5)
        (state,) = request.query_state()
        np.testing.assert_array_equal(state.state, wanted)


def test_a_state_is_set_and_trimmed_as_callers_see_it() -> None:
    request = irc.compile_model(cache_model(), num_threads=1).create_infer_request()
    (state,) = request.query_state()
    assert state.state.shape == (0, 0, 2)
    given = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    state.state = given
    np.testing.assert_array_equal(state.state, given)
    assert request.state_nbytes() == given.nbytes
    request.trim_state(1, 2)
    np.testing.assert_array_equal(state.state, given[:, :2])
    x = np.ones((2, 1, 2), np.float32)
    found = request(x=x, rows=np.array([1, 0], np.int32))["y"]
    np.testing.assert_array_equal(found, given[[1, 0], :2].sum(axis=1) + 1)
    with pytest.raises(irc.InputError, match="cannot be trimmed"):
        request.trim_state(3, 1)
    with pytest.raises(irc.InputError, match="does not fit|dimensions"):
        state.state = np.zeros((2, 3, 5), np.float32)


def test_evaluation_is_the_same() -> None:
    model = cache_model()
    x = np.random.default_rng(0).standard_normal((2, 3, 2)).astype(np.float32)
    inputs = [x, np.array([1, 0], np.int32)]
    wanted = interpret(model.graph, inputs)
    found = interpret(grow_caches(model.graph.copy()), inputs)
    np.testing.assert_array_equal(found[0], wanted[0])


def test_what_does_not_grow_by_rows_behind_stays() -> None:
    x = ops.parameter("x", [2, 3, 2])
    past = ops.apply(o.ReadValue("cache", DType.f32, "2,3,2"), np.zeros((2, 3, 2), np.float32))
    other = ops.model({"y": ops.apply(o.Assign("cache"), past + x)}, inputs=[x])
    for model in (cache_model("computed"), cache_model(order=False), other):
        assert kinds(grow_caches(model.graph.copy())) == kinds(model.graph)
