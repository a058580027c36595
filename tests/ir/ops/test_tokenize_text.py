"""onnxruntime's Tokenizer: words of texts by patterns, separators and characters."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.ops.tokenize_text import Tokenizing, tokenize
from onnx import TensorProto, helper

TEXTS = np.array([["a fine day, is it", "one"], ["", "x--y;z \u00e9t\u00e9 ab"]], object)
FORMS: dict[str, dict[str, Any]] = {
    "pattern": {"tokenexp": "[a-z]+", "mincharnum": 1},
    "long words": {"tokenexp": "[a-z]+", "mincharnum": 2},
    "marks": {"tokenexp": "[a-z]+", "mincharnum": 1, "mark": 1},
    "characters": {"separators": [""], "mincharnum": 1},
    "separators": {"separators": [" ", "[,;]", "-"], "mincharnum": 1},
}


def make_model(**attributes: Any) -> bytes:
    given = {"mark": 0, "pad_value": "#", **attributes}
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", "c"])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, ["n", "c", "d"])],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()


@pytest.mark.parametrize("form", FORMS)
def test_words_are_those_of_onnxruntime(form: str) -> None:
    model = make_model(**FORMS[form])
    want = onnxruntime.InferenceSession(model).run(None, {"x": TEXTS})[0]
    np.testing.assert_array_equal(irc.compile_model(model)(TEXTS)[0], want)


def test_no_texts_and_no_words() -> None:
    assert tokenize(np.zeros((0,), object), Tokenizing("#", pattern="a")).shape == (0, 0)
    assert tokenize(np.array(["b", "c"], object), Tokenizing("#", pattern="a")).shape == (2, 0)


def test_a_pattern_that_is_not_one_is_refused() -> None:
    with pytest.raises(irc.ExecutionError, match="regular expression"):
        tokenize(np.array(["a" * 2000], object), Tokenizing("#", pattern="(a*)*(a*)*b("))
