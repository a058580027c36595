"""GatherTree against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import pytest
from irc_compiler.ir.errors import ShapeError
from irc_compiler.ir.ops import GatherTree
from support.openvino_operations import check, k


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_gather_tree(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    ids = rng.integers(0, 9, (6, 2, 3)).astype(dtype)
    parents = rng.integers(0, 3, (6, 2, 3)).astype(dtype)
    lengths = np.array([6, 4], dtype)
    check(lambda *x: o1.gather_tree(*x), [ids, parents, lengths, k(3, dtype)])


def test_a_parent_out_of_range() -> None:
    ids = np.zeros((2, 1, 2), np.int32)
    with pytest.raises(ShapeError, match="out of range"):
        GatherTree().evaluate(ids, ids + 5, np.array([2], np.int32), np.array(1, np.int32))
