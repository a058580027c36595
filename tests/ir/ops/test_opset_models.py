"""OpenVINO's own operations in f16, and with attributes that no file should hold."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler.ir.interpret import interpret
from support.openvino_operations import check, k, model_of
from support.opset_models import node_cases

HALF, SINGLE = node_cases(np.float16), node_cases(np.float32)
BAD = ("-1", "0", "999999999999", "9223372036854775807", "abc", "", "1e30", "nan", "true", "-5, -5")
MEMORY = 1 << 28


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in HALF if not n.startswith("prior")])
def test_half_precision(name: str) -> None:
    build, inputs = HALF[name]
    check(build, inputs, tolerance=4e-3)


def texts_of(build: Any, inputs: list[Any]) -> tuple[list[tuple[str, str]], bytes]:
    """The model's text with one attribute of the node after another replaced by a bad value."""
    model = model_of(build, inputs)
    kind = next(n for n in model.get_ops() if n.get_type_name() not in ("Parameter", "Constant"))
    with tempfile.TemporaryDirectory() as folder:
        ov.serialize(model, Path(folder) / "m.xml")
        text = (Path(folder) / "m.xml").read_text()
        weights = (Path(folder) / "m.bin").read_bytes()
    layer = text.index(f'type="{kind.get_type_name()}"')
    start = text.find("<data ", layer)
    if not layer < start < text.index("</layer>", layer):
        return [], weights
    end = text.index("/>", start)
    data = text[start:end]
    return [
        (f"{name}={bad}", text[:start] + data.replace(whole, f'{name}="{bad}"') + text[end:])
        for whole, name in re.findall(r'((\w+)="[^"]*")', data)
        for bad in BAD
    ], weights


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
def test_bad_attributes_end_in_an_error_or_an_answer(name: str) -> None:
    """No other exception, no long loop, no allocation beyond the limit."""
    build, inputs = SINGLE[name]
    given = [x for x in inputs if not isinstance(x, k)]
    refused, (texts, weights) = 0, texts_of(build, inputs)
    for changed, text in texts:
        try:
            read = irc.read_model(text.encode(), weights, declared_shapes="ignore")
            with np.errstate(all="ignore"):
                interpret(read.graph, given, max_memory=MEMORY)
        except irc.Error as error:
            assert error.what, changed
            refused += 1
    assert refused or not texts
