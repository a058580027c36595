"""One kernel for the pieces of a large Concat or Split: counts of kernels, and the numbers."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.compiler.lowering.build.kernel_sharing import MIN_SHARED_KERNELS
from irc_compiler.ir import ops as o
from irc_compiler.plan.plan import KernelStep
from irc_compiler.plan.specs.base import Spec
from support.formulas import softmax

PIECES = 2 * MIN_SHARED_KERNELS
RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def compiled(y: ops.Tensor | list[ops.Tensor]) -> tuple[irc.CompiledModel, list[Spec]]:
    net = irc.compile_model(ops.model(y), num_threads=1)
    steps = [s for region in net.plan.regions for s in region.steps]
    return net, [s.spec for s in steps if isinstance(s, KernelStep)]


def test_pieces_of_a_concat_share_a_kernel() -> None:
    x, scales = ops.parameter("x", [3, 5]), floats(PIECES, 5)
    net, specs = compiled(ops.concat([ops.softmax(x * s) for s in scales], 1))
    assert len(specs) == PIECES and len(set(specs)) == 1
    data = floats(3, 5)
    want = np.concatenate([softmax(data * s) for s in scales], 1)
    np.testing.assert_allclose(net(data)[0], want, rtol=1e-5, atol=1e-6)


def test_pieces_of_a_split_share_a_kernel() -> None:
    x = ops.parameter("x", [3, 5 * PIECES])
    net, specs = compiled([ops.softmax(p) for p in ops.split(x, PIECES, 1)])
    assert len(specs) == PIECES and len(set(specs)) == 1
    data = floats(3, 5 * PIECES)
    for got, part in zip(net(data), np.split(data, PIECES, 1), strict=True):
        np.testing.assert_allclose(got, softmax(part), rtol=1e-5, atol=1e-6)


def test_copies_of_a_concat_share_a_kernel() -> None:
    parts = [ops.parameter(f"p{i}", [4, 3]) for i in range(PIECES)]
    net, specs = compiled(ops.concat(parts, 1))
    assert len(specs) == PIECES and len(set(specs)) == 1
    data = [floats(4, 3) for _ in parts]
    np.testing.assert_array_equal(net(data)[0], np.concatenate(data, 1))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize("kind", ["matmul", "reduce", "norm", "gather", "convolution", "transpose"])
def test_every_family_takes_its_offsets_as_sizes(kind: str, batch: int | str) -> None:
    """Parts of a split go through one operation each, and side by side into a concatenation."""
    x = ops.parameter("x", [batch, 4 * PIECES, 6])
    parts = ops.split(x, PIECES, 1)
    w, filters = floats(6, 7), floats(3, 4, 3)
    index = np.int64([2, 0, 0, 5])
    made = {
        "matmul": lambda p: p @ w,
        "reduce": lambda p: ops.reduce_sum(p, 2, True),
        "norm": lambda p: ops.layer_norm(p, w[:, 0], w[:, 1]),
        "gather": lambda p: ops.gather(p, index, 2),
        "convolution": lambda p: ops.apply(o.Convolution((1,), (1,), (1,), (1,)), p, filters),
        "transpose": lambda p: ops.transpose(p, [0, 2, 1]) * np.float32(2),
    }[kind]
    net, specs = compiled(ops.concat([made(p) for p in parts], 1))
    assert len(specs) >= PIECES and len(set(specs)) < 4
    # The same with so few parts that each has a kernel of its own.
    few = 4
    y = ops.parameter("x", [batch, 4 * few, 6])
    part_by_part, own = compiled(ops.concat([made(p) for p in ops.split(y, few, 1)], 1))
    assert len(set(own)) >= few
    data = floats(2, 4 * PIECES, 6)
    want = [part_by_part(d)[0] for d in np.split(data, PIECES // few, 1)]
    np.testing.assert_array_equal(net(data)[0], np.concatenate(want, 1))


@pytest.mark.slow
def test_few_pieces_keep_offsets_in_the_code() -> None:
    x = ops.parameter("x", [3, 5 * (MIN_SHARED_KERNELS - 1)])
    _, specs = compiled([ops.softmax(p) for p in ops.split(x, MIN_SHARED_KERNELS - 1, 1)])
    assert len(set(specs)) == MIN_SHARED_KERNELS - 1
