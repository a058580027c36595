"""Logits of the positions that a request names."""

from __future__ import annotations

from collections.abc import Callable

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.builder.tensor import Tensor
from irc_compiler.ir.errors import ModelFormatError
from irc_compiler.llm.cut_logits import cut_logits
from irc_compiler.llm.language_model import HIDDEN, POSITIONS

W = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
HEADS: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: ops.matmul(x, W),
    "turned": lambda x: ops.matmul(x, W.T.copy(), transpose_b=True),
    "capped": lambda x: ops.multiply(ops.tanh(ops.matmul(x, W) / np.float32(30)), np.float32(30)),
    "bias": lambda x: ops.matmul(x, W) + np.arange(6, dtype=np.float32),
    "by position": lambda x: ops.matmul(x, W) * ops.reduce_sum(x, [2], True),
    "across positions": lambda x: ops.softmax(ops.matmul(x, W), 1),
    "no product": lambda x: x + np.float32(1),
}
CUT = {"product", "turned", "capped", "bias"}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
def test_logits_are_those_of_the_whole_model_at_the_positions(name: str) -> None:
    x = ops.parameter("x", ["B", "S", 4])
    model = ops.model({"logits": HEADS[name](x)})
    cut = cut_logits(model)
    given = np.random.default_rng(1).standard_normal((2, 5, 4)).astype(np.float32)
    whole = irc.compile_model(model, num_threads=1)(x=given)["logits"]
    positions = np.array([4, 0, 2])
    found = irc.compile_model(cut, num_threads=1)({"x": given, POSITIONS: positions})
    np.testing.assert_allclose(found["logits"], whole[:, positions], rtol=1e-5, atol=1e-6)
    # Where the last product is recognised, it is computed at these positions only.
    assert (found[HIDDEN].shape == (2, 5, 4) and name != "no product") == (name in CUT)
    assert len(model.outputs) == 1 and len(model.inputs) == 1


@pytest.mark.parametrize(
    "outputs",
    [lambda x: {"y": x}, lambda x: {"logits": ops.reduce_sum(x, [2])}],
    ids=["another name", "two axes"],
)
def test_what_is_not_a_decoder_is_refused(outputs: Callable[[Tensor], dict[str, Tensor]]) -> None:
    x = ops.parameter("x", ["B", "S", 4])
    with pytest.raises(ModelFormatError, match="not a decoder"):
        cut_logits(ops.model(outputs(x)))
