"""Ranks of elements: in registers, along a chain and in a heap, against `evaluate`."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops.tensor.sorting import TopK
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.scan_topk import TopKSpec
from support.kernels.harness import ISAS, Sizes, run, same_bits, unwritten

TYPES = (DType.f32, DType.f64, DType.i32, DType.i64)
each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
each_isa = pytest.mark.parametrize("isa", ISAS)


def make_data(dtype: DType, *shape: int) -> np.ndarray:
    """Numbers with many equal ones; of floats some NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(sum(shape))
    data = rng.integers(-20, 20, shape).astype(dtype.numpy)
    if dtype.is_float:
        flat = data.reshape(-1)
        for value in (np.nan, np.inf, -np.inf, -0.0):
            flat[rng.integers(0, flat.size, flat.size // 40)] = value
    return data


def check_ranks(
    data: np.ndarray,
    axis: int,
    count: int,
    isa: str,
    *,
    largest: bool = True,
    by_index: bool = False,
    dynamic: bool = False,
    fixed_count: bool = True,
    most: int | None = None,
    index: DType = DType.i64,
) -> None:
    """The ranks along an axis of [a, b] are those that `evaluate` gives."""
    dtype = next(t for t in TYPES if t.numpy == data.dtype)
    sizes = Sizes(dynamic)
    chains, size = data.shape[1 - axis], data.shape[axis]
    shape = (count, chains) if axis == 0 else (chains, count)

    def walk(length: int, kind: DType) -> Operand:
        strides = (1, sizes(chains)) if axis == 0 else (sizes(length), 1)
        return Operand(kind, strides)

    spec = TopKSpec(
        (sizes(chains),),
        sizes(size),
        count if fixed_count else sizes(count),
        walk(size, dtype),
        walk(count, dtype),
        walk(count, index),
        largest,
        by_index,
        most,
    )
    mode, sort = "max" if largest else "min", "index" if by_index else "value"
    op = TopK(axis=axis, mode=mode, sort=sort, index_element_type=index)
    values, indices = op.evaluate(data, np.array(min(count, size)))
    for workers in (1, 3):
        made = run(spec, [data], [shape] * 2, isa=isa, dims=sizes.dims, workers=workers)
        assert made.status == 0
        kept = [out[:size] if axis == 0 else out[:, :size] for out in made.outs]
        assert same_bits(kept[1].copy(), indices) and same_bits(kept[0].copy(), values)
        # The harness fills results with a pattern, which stays behind the end of a chain.
        beyond = made.outs[1][size:] if axis == 0 else made.outs[1][:, size:]
        assert same_bits(beyond.copy(), unwritten(beyond.shape, index.numpy).copy())


@each_isa
@each_type
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dynamic", [False, True])
def test_chains_side_by_side(dynamic: bool, largest: bool, dtype: DType, isa: str) -> None:
    """A lane each: fewer than a vector of them, some vectors, and more than one task."""
    for chains in (9, 40, 300):
        data = make_data(dtype, 21, chains)
        for count, by_index in ((1, False), (3, True), (5, False), (8, True)):
            how = {"largest": largest, "by_index": by_index, "dynamic": dynamic}
            check_ranks(data, 0, count, isa, **how)


@each_isa
@each_type
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_best_along_a_chain(dynamic: bool, largest: bool, dtype: DType, isa: str) -> None:
    """Of fewer elements than a vector, of a vector, and of more than a turn of the loop."""
    for size in (1, 5, 16, 67, 300):
        check_ranks(make_data(dtype, 7, size), 1, 1, isa, largest=largest, dynamic=dynamic)


@each_isa
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_the_first_of_equal_elements_is_the_best(value: float, isa: str) -> None:
    data = np.full((3, 90), value, np.float32)
    for axis, count in ((1, 1), (1, 4), (0, 1), (0, 2)):
        for largest in (True, False):
            check_ranks(data, axis, count, isa, largest=largest)


@pytest.mark.aarch64
@each_isa
@each_type
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("by_index", [True, False])
def test_heaps(by_index: bool, largest: bool, dtype: DType, isa: str) -> None:
    """Of neighbours and of chains side by side; all elements, and few of them."""
    data = make_data(dtype, 5, 150)
    how = {"largest": largest, "by_index": by_index}
    for count in (2, 7, 40, 129, 150):
        check_ranks(data, 1, count, isa, **how)
        check_ranks(data.T.copy(), 0, max(count, 9), isa, **how)
        check_ranks(data, 1, count, isa, dynamic=True, fixed_count=False, **how)


@each_isa
@pytest.mark.parametrize("by_index", [True, False])
def test_limits_of_counts_known_at_run_time_only(by_index: bool, isa: str) -> None:
    """All of them, in each of the ways of ranking; and fewer than there may be."""
    data = make_data(DType.f32, 50, 40)
    for axis, most in ((0, 1), (0, 4), (1, 1), (1, 4), (1, 32), (1, 33), (0, 33)):
        for count in {0, 1, most // 2, most}:
            how = {"by_index": by_index, "dynamic": True, "fixed_count": False, "most": most}
            check_ranks(data, axis, count, isa, **how)


def test_more_ranks_than_the_limit_are_refused() -> None:
    operand, index = Operand(DType.f32, (40, 1)), Operand(DType.i64, (40, 1))
    sizes = Sizes(True)
    spec = TopKSpec((1,), 40, sizes(5), operand, operand, index, most=4)
    with pytest.raises(VerificationError, match="more ranks than at most"):
        spec.verify_sizes(lambda size: sizes.dims[0], "here")


@each_isa
def test_chains_with_fewer_elements_than_ranks(isa: str) -> None:
    """What is behind their end is not written."""
    for axis, count in ((0, 4), (1, 4), (0, 20), (1, 20), (1, 1), (0, 1)):
        for size in (0, 1, 3):
            shape = (size, 40) if axis == 0 else (40, size)
            check_ranks(make_data(DType.f32, *shape), axis, count, isa, dynamic=True)


@pytest.mark.aarch64
@each_isa
def test_indices_of_32_bits(isa: str) -> None:
    data = make_data(DType.f32, 60, 40)
    for axis, count in ((0, 2), (1, 1), (1, 12)):
        check_ranks(data, axis, count, isa, index=DType.i32)


@each_isa
@pytest.mark.parametrize("order", [1, -1])
def test_elements_in_order(order: int, isa: str) -> None:
    """In either direction, which moves all that is in a heap, or nothing."""
    data = np.arange(500, dtype=np.float32)[None, ::order].copy()
    for count in (1, 30, 500):
        check_ranks(data, 1, count, isa)


def test_graphs_give_limits(compile_graph) -> None:
    """A number of ranks that a dynamic axis may lack is the limit of a count."""
    graph = parse_graph("""graph "ranks"
%0 = Parameter.1() {element_type=f32, shape=["N", "C", 40]} "x"
%1 = Constant.1() {data=[3], dtype=i64, shape=[]}
%2 = TopK.11(%0, %1) {axis=1, mode="max", sort="value"}
%3 = Result.1(%2:1) "y"
""")
    net: irc.CompiledModel = compile_graph(graph.copy(), True, 1)
    (spec,) = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, TopKSpec)]
    assert spec.most == spec.limit == 3 and not isinstance(spec.count, int)
    for channels in (2, 3, 11):
        x = make_data(DType.f32, 2, channels, 40)
        np.testing.assert_array_equal(net([x])[0], interpret(graph, [x])[0])
