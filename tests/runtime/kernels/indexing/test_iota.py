"""Numbers that follow from sizes, against numpy.arange."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.iota import IotaSpec
from support.kernels.harness import ISAS, run, same_bits


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [DType.i64, DType.i32, DType.f32], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_counts(isa: str, dtype: DType, dynamic: bool) -> None:
    for count in (0, 1, 7, 33):
        sizes: tuple[Size, ...] = (count, -5, 3)
        if dynamic:
            sizes = tuple(RuntimeDim(i) for i in range(3))
        spec = IotaSpec(*sizes, Operand(dtype, (1,)))
        want = (-5 + 3 * np.arange(count)).astype(dtype.numpy)
        for workers in (1, 2, 3):
            found = run(spec, [], [(count,)], isa=isa, dims=(count, -5, 3), workers=workers)
            assert same_bits(found.outs[0], want)


@pytest.mark.parametrize("isa", ISAS)
def test_strided_output(isa: str) -> None:
    spec = IotaSpec(4, 2, -1, Operand(DType.i32, (3,), 1))
    found = run(spec, [], [(12,)], isa=isa).outs[0]
    assert found[1::3].tolist() == [2, 1, 0, -1]
    assert (found[0::3] == found[2]).all()
