"""Which counts of words become one operation."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from support.models.text_models import make_counting_model

LOWER = {"case_change_action": "LOWER"}
TEXTS = np.array([["The cat"], ["a dog"]], object)


def kinds(model: bytes) -> tuple[irc.CompiledModel, list[str]]:
    net = irc.compile_model(model)
    found = [getattr(n.op, "op_type", n.op.kind) for n in map(net.graph.node, net.graph.order())]
    return net, [k for k in found if k not in ("Parameter", "Constant", "Result")]


@pytest.mark.parametrize(
    "given, want",
    [
        ({"normalizer": LOWER}, ["CountTextNgrams"]),
        ({}, ["CountTextNgrams"]),
        # Each of these values is an output of the model, too.
        ({"normalizer": LOWER, "more_outputs": ["texts"]}, ["Reshape", "CountTextNgrams"]),
        (
            {"normalizer": LOWER, "more_outputs": ["normalized"]},
            ["Reshape", "StringNormalizer", "CountTextNgrams"],
        ),
        (
            {"normalizer": LOWER, "more_outputs": ["words"]},
            ["Reshape", "StringNormalizer", "Tokenizer", "TfIdfVectorizer"],
        ),
    ],
)
def test_what_is_one_operation(given: dict[str, Any], want: list[str]) -> None:
    model = make_counting_model(**given)
    net, found = kinds(model)
    assert sorted(found) == sorted(want)
    expected: Any = onnxruntime.InferenceSession(model).run(None, {"x": TEXTS})
    for mine, theirs in zip(net({"x": TEXTS}), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_reshape_has_to_flatten() -> None:
    import onnx

    model = onnx.load_from_string(make_counting_model())
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([2]), "target"))
    net, found = kinds(model.SerializeToString())
    assert found == ["Reshape", "CountTextNgrams"]
    with pytest.raises(irc.Error):
        net({"x": TEXTS[:1]})
