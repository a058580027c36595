"""Control flow that OpenVINO wrote: its IR of every ONNX model of models/control_flow.py, read
here, gives what onnxruntime gives for the model."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnxruntime
import openvino as ov
import pytest
from irc_compiler.ir.interpret import interpret
from onnx import parser
from support.models.control_flow import INPUTS, TEXTS, control_flow

# Two values out of each branch, in another order than they were made, from inputs of both and of
# one alone.
BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
net (bool c, float[2] x, float[2] y, float[2] z) => (float[2] p, float[2] q, float[2] r) {
    p, q, r = If (c) <
        then_branch = a () => (float[2] a1, float[2] a2, float[2] a3)
            { a3 = Sub (y, x) a2 = Neg (z) a1 = Add (x, y) },
        else_branch = b () => (float[2] b1, float[2] b2, float[2] b3)
            { b2 = Abs (z) b3 = Mul (y, y) b1 = Identity (y) }>
}"""
# Three values change places in a loop, besides one that stays and two that are kept.
PLACES = """<ir_version: 8, opset_import: ["" : 17]>
net (int64 count, float[2] a, float[2] b, float[2] c, float[2] w)
    => (float[2] x, float[2] y, float[2] z, float[M, 2] s, float[M, 2] t) {
    yes = Constant <value = bool {1}> ()
    x, y, z, s, t = Loop (count, yes, a, b, c) <body = step (int64 i, bool go, float[2] d,
        float[2] e, float[2] f) => (bool more, float[2] g, float[2] h, float[2] k, float[2] m,
        float[2] n) {
        more = Identity (go)
        n = Sub (d, f)
        m = Mul (e, w)
        k = Identity (d)
        g = Add (e, w)
        h = Neg (f)
    }>
}"""
KINDS = {"scan": "TensorIterator", "branch": "If", "branches": "If"}


def ir_of(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "m.onnx")
    path = folder / "m.xml"
    ov.save_model(ov.convert_model(folder / "m.onnx"), path, compress_to_fp16=False)
    return path


def agree(model: onnx.ModelProto, path: Path, kind: str, many: list[dict[str, Any]]) -> None:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    graph = irc.read_model(path).graph
    assert Counter(graph.op(n).kind for n in graph.ids())[kind] == 1
    net = irc.compile_model(path)
    for inputs in many:
        for found in (net(inputs), interpret(graph, inputs)):
            for got, want in zip(found, session.run(None, inputs), strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(TEXTS.keys() - {"nested"})
)  # which OpenVINO does not convert
def test_control_flow(name: str, tmp_path: Path) -> None:
    model = control_flow(name)
    many = [make() for make in INPUTS[name]]
    agree(model, ir_of(model, tmp_path), KINDS.get(name, "Loop"), many)


def numbers(*names: str) -> dict[str, Any]:
    r = np.random.default_rng(len(names))
    return {name: r.integers(-9, 9, 2).astype(np.float32) for name in names}


def turned(text: str, pattern: str) -> str:
    """The text with its three numbers at a pattern each in the place of the one before."""
    found = [m.group(1) for m in re.finditer(pattern, text)]
    after = iter([*found[1:], found[0]])
    assert len(set(found)) == len(found) == 3
    return re.sub(
        pattern, lambda m: m.group(0).replace(f'"{m.group(1)}"', f'"{next(after)}"'), text
    )


@pytest.mark.slow
def test_branches_of_several_outputs(tmp_path: Path) -> None:
    model = parser.parse_model(BRANCHES)
    many = [{"c": np.array(c), **numbers(*"xyz")} for c in (True, False)]
    path = ir_of(model, tmp_path)
    agree(model, path, "If", many)
    # The same results at the ports after their own, in both port maps.
    wanted = [list(irc.compile_model(path)(inputs)) for inputs in many]
    text = path.read_text()
    for branch in ("then", "else"):
        whole = text[text.index(f"<{branch}_port_map>") : text.index(f"</{branch}_port_map>")]
        text = text.replace(whole, turned(whole, r'<output external_port_id="(\d+)"'))
    path.write_text(text)
    net = irc.compile_model(path)
    for inputs, (p, q, r) in zip(many, wanted, strict=True):
        np.testing.assert_array_equal(list(net(inputs)), [r, p, q])


@pytest.mark.slow
def test_carried_values_are_swapped(tmp_path: Path) -> None:
    model = parser.parse_model(PLACES)
    many = [{"count": np.array(n), **numbers(*"abcw")} for n in (1, 2, 5)]
    path = ir_of(model, tmp_path)
    agree(model, path, "Loop", many)
    # Each state becomes what the next one became.
    text = path.read_text()
    whole = text[text.index("<back_edges>") : text.index("</back_edges>")]
    path.write_text(text.replace(whole, turned(whole, r'from-layer="(\d+)"')))
    net = irc.compile_model(path)
    for inputs in many:
        d, e, f, w = (inputs[name] for name in "abcw")
        for _ in range(int(inputs["count"])):
            g, h, k = e + w, -f, d
            d, e, f = h, k, g
        np.testing.assert_array_equal(list(net(inputs))[:3], [g, h, k])
