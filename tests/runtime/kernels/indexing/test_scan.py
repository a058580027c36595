"""Running sums and products, of one chain after the other and of chains in the lanes of vectors,
against `evaluate`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops.tensor.sorting import CumProd, CumSum
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.scan_topk import ScanSpec
from support.kernels.harness import ISAS, Sizes, run, same_bits

TYPES = (DType.f32, DType.f64, DType.i32, DType.i64)


def check_scan(data: np.ndarray, op: CumSum | CumProd, isa: str, *, dynamic: bool) -> None:
    """The sums or products along axis 1 of [a, size, b] are those that `evaluate` gives."""
    dtype = next(t for t in TYPES if t.numpy == data.dtype)
    (before, size, behind), sizes = data.shape, Sizes(dynamic)
    walk = Operand(dtype, (sizes(size * behind), 1, sizes(behind)))
    how = (isinstance(op, CumProd), op.exclusive, op.reverse)
    spec = ScanSpec((sizes(before), sizes(behind)), sizes(size), walk, walk, *how)
    (want,) = op.evaluate(data, np.array(1))
    for workers in (1, 3):
        found = run(spec, [data], [data.shape], isa=isa, workers=workers, dims=sizes.dims)
        assert found.status == 0 and same_bits(found.outs[0], want)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(reverse: bool, exclusive: bool, dtype: DType, isa: str) -> None:
    """Of neighbours; of fewer chains than a vector has lanes, of some vectors, of two tasks."""
    rng = np.random.default_rng(3)
    for behind in (1, 5, 40, 300):
        data = rng.integers(-9, 9, (3, 8, behind)).astype(dtype.numpy)
        for op in (CumSum(exclusive, reverse), CumProd(exclusive, reverse)):
            check_scan(data, op, isa, dynamic=exclusive)


@pytest.mark.parametrize("isa", ISAS)
def test_chains_without_elements(isa: str) -> None:
    for shape in ((3, 0, 40), (0, 8, 40), (3, 8, 0)):
        check_scan(np.zeros(shape, np.float32), CumSum(False, False), isa, dynamic=True)
