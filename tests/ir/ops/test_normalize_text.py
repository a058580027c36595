"""StringNormalizer against onnxruntime: stop words and cases."""

from __future__ import annotations

import locale
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.ir.ops.normalize_text import Normalizing, normalize_text
from onnx import TensorProto, helper

TEXTS = ["Monday", "tuesday", "MONDAY", "Été", "", "monday"]


def make_model(shape: list[Any], attributes: dict[str, Any]) -> bytes:
    node = helper.make_node("StringNormalizer", ["x"], ["y"], locale="C", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("y", TensorProto.STRING, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("stops", [[], ["monday"], ["Monday", "été", ""], TEXTS], ids=len)
def test_texts_are_those_of_onnxruntime(stops: list[str], case: str, sensitive: int) -> None:
    # In the locale C onnxruntime leaves letters beyond ASCII as they are.
    ascii_texts = [t for t in TEXTS if t.isascii()]
    attributes: dict[str, Any] = {"case_change_action": case, "is_case_sensitive": sensitive}
    if stops:
        attributes["stopwords"] = stops
    for data in (np.array(ascii_texts, object), np.array([ascii_texts], object)):
        model = make_model([*data.shape[:-1], "c"], attributes)
        want: Any = onnxruntime.InferenceSession(model).run(None, {"x": data})[0]
        assert irc.compile_model(model)({"x": data})[0].tolist() == want.tolist()


def test_cases_are_those_of_unicode_and_the_locale_stays() -> None:
    before = locale.setlocale(locale.LC_ALL)
    net = irc.compile_model(make_model(["c"], {"case_change_action": "UPPER"}))
    assert net({"x": np.array(["été", "ß"], object)})[0].tolist() == ["ÉTÉ", "SS"]
    assert locale.setlocale(locale.LC_ALL) == before


def test_what_it_does_not_take() -> None:
    with pytest.raises(ExecutionError, match=r"takes \[C\] or \[1, C\]"):
        normalize_text(np.array([["a"], ["b"]], object), Normalizing("NONE"))
    with pytest.raises(ExecutionError, match="no such case"):
        normalize_text(["a"], Normalizing("TITLE"))
