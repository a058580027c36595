"""GroupQueryAttention against onnxruntime: prompts, later tokens, caches of both kinds, options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime as ort
import pytest
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from onnx import helper

HEADS, SHARED, SIZE = 4, 2, 32
ROTARY = {"do_rotary": 1}


@dataclass(frozen=True)
class Case:
    """`lengths`: the tokens of each sequence after the call; `new`: rows of the query; `past`: rows
    of the past (None: no past), which is a buffer where it is longer than the tokens before."""

    lengths: tuple[int, ...]
    new: int
    past: int | None = 0
    packed: bool = False
    table: int = SIZE // 2
    positions: bool = False
    bias: tuple[int, int] | None = None
    sink: bool = False
    valid: tuple[int, ...] | None = None
    symbolic: bool = False
    dtype: Any = np.float32
    shared: int = SHARED
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def total(self) -> int:
        return max(self.lengths)


CASES = {
    "prompt": Case((5, 5), 5),
    "prompt without a past": Case((5,), 5, None),
    "right-padded prompts": Case((5, 3), 5),
    "next token": Case((8,), 1, 7),
    "next tokens of unequal sequences": Case((8, 4), 1, 7),
    "next token in a buffer": Case((8, 4), 1, 12),
    "prompt in a buffer": Case((5, 3), 5, 12),
    "a later chunk": Case((8,), 3, 5),
    "a later chunk in a buffer": Case((8,), 3, 16),
    "packed": Case((6,), 2, 4, packed=True),
    "packed in a buffer": Case((6, 5), 1, 9, packed=True),
    "one head of keys": Case((6,), 2, 4, shared=1),
    "as many heads of keys": Case((6,), 2, 4, shared=HEADS),
    "rotary prompt": Case((5, 5), 5, attributes=ROTARY),
    "rotary next": Case((8, 4), 1, 7, attributes=ROTARY),
    "rotary in a buffer": Case((8, 4), 1, 12, attributes=ROTARY, packed=True),
    "rotary pairs": Case((8,), 3, 5, attributes={**ROTARY, "rotary_interleaved": 1}),
    "rotary part": Case((8,), 3, 5, attributes=ROTARY, table=8),
    "rotary positions": Case((8,), 3, 5, attributes=ROTARY, positions=True),
    "window": Case((9,), 4, 5, attributes={"local_window_size": 3}),
    "window prompt": Case((6, 4), 6, attributes={"local_window_size": 2}),
    "scale": Case((8,), 1, 7, attributes={"scale": 0.3}),
    "softcap": Case((8,), 2, 6, attributes={"softcap": 1.5}),
    "smooth softmax": Case((8,), 2, 6, attributes={"smooth_softmax": 1}),
    "sink": Case((8,), 2, 6, sink=True),
    "sink and softcap": Case((8, 4), 1, 12, sink=True, attributes={"softcap": 2.0}),
    "bias": Case((8,), 2, 6, bias=(1, 1)),
    "bias per head": Case((8, 6), 1, 7, bias=(2, HEADS)),
    "bias in a buffer": Case((8,), 2, 12, bias=(1, HEADS), attributes=ROTARY),
    "bias, as many heads": Case((8,), 2, 12, bias=(1, HEADS), shared=HEADS),
    "not causal": Case((6, 4), 6, attributes={"causal": 0}),
    "not causal, later": Case((6,), 2, 4, attributes={"causal": 0}),
    "padded chunks": Case((7, 4), 4, 12, valid=(3, 4)),
    "padded chunks, rotary": Case((7, 4), 4, 12, valid=(3, 1), attributes=ROTARY),
}
CASES |= {
    f"{name}, symbolic": replace(CASES[name], symbolic=True)
    for name in ("right-padded prompts", "rotary next", "rotary in a buffer", "bias per head")
}
CASES |= {
    f"{name}, f16": replace(CASES[name], dtype=np.float16)
    for name in ("prompt", "rotary next", "packed", "sink", "softcap")
}


def arrays(case: Case) -> dict[str, Any]:
    """The inputs by name, in the operator's order; absent ones are left out."""
    rng = np.random.default_rng(4)

    def f(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(case.dtype)

    batch, width = len(case.lengths), case.shared * SIZE
    every = (HEADS + 2 * case.shared) * SIZE if case.packed else HEADS * SIZE
    found = {"query": f(batch, case.new, every)}
    if not case.packed:
        found |= {name: f(batch, case.new, width) for name in ("key", "value")}
    if case.past is not None:
        shape = (batch, case.shared, case.past, SIZE)
        found |= {name: f(*shape) for name in ("past_key", "past_value")}
    found["seqlens_k"] = np.array(case.lengths, np.int32) - 1
    found["total"] = np.array(case.total, np.int32)
    if case.attributes.get("do_rotary"):
        angles = rng.uniform(-3, 3, (20, case.table))
        found |= {
            "cos": np.cos(angles).astype(case.dtype),
            "sin": np.sin(angles).astype(case.dtype),
        }
    if case.positions:
        starts = np.array(case.lengths)[:, None] - case.new
        found["positions"] = (starts + np.arange(case.new)).astype(np.int64)
    if case.bias is not None:
        found["bias"] = f(*case.bias, case.new, case.total)
    if case.sink:
        found["sink"] = f(HEADS)
    if case.valid is not None:
        found["valid"] = np.array(case.valid, np.int32)
    return found


PORTS = ("query", "key", "value", "past_key", "past_value", "seqlens_k", "total", "cos", "sin",
         "positions", "bias", "sink", "", "", "q_norm", "k_norm", "valid")  # fmt: skip


def model(case: Case, given: dict[str, Any]) -> Any:
    names = [name if name in given else "" for name in PORTS]
    while not names[-1]:
        names.pop()
    attributes = {"num_heads": HEADS, "kv_num_heads": case.shared, **case.attributes}
    outputs = ["y", "present_key", "present_value"]
    node = helper.make_node(
        "GroupQueryAttention", names, outputs, domain="com.microsoft", **attributes
    )
    element = helper.np_dtype_to_tensor_dtype
    symbolic = ("query", "key", "value", "past_key", "past_value", "seqlens_k")
    ports = []
    for name, value in given.items():
        shape: list[Any] = list(value.shape)
        if case.symbolic and name in symbolic:
            shape[0] = "batch"
            if len(shape) > 1:
                shape[-2] = "past" if name.startswith("past") else "new"
        ports.append(helper.make_tensor_value_info(name, element(value.dtype), shape))
    kind = element(np.dtype(case.dtype))
    ends = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    graph = helper.make_graph([node], "g", ports, ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_onnxruntime(name: str) -> None:
    case = CASES[name]
    given = arrays(case)
    proto = model(case, given)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options)
    wanted = session.run(None, given)
    found = irc.compile_model(proto)(given)
    close = 4e-3 if case.dtype == np.float16 else 1e-5
    fresh = case.valid or tuple(min(case.new, length) for length in case.lengths)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
    for b, length in enumerate(case.lengths):
        # Rows of padding, and of the cache beyond a sequence's length, are unspecified.
        np.testing.assert_allclose(
            found[0][b, : fresh[b]], wanted[0][b, : fresh[b]], rtol=close, atol=close
        )
        for got, want in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(
                got[b, :, :length], want[b, :, :length], rtol=close, atol=close
            )


@pytest.mark.slow
def test_heads_are_normalized_by_their_weights() -> None:
    """onnxruntime's CPU kernel has no such norms."""
    case = Case((6,), 2, 4)
    given = arrays(case)
    weights = {n: np.linspace(0.5, 2, SIZE).astype(np.float32) for n in ("q_norm", "k_norm")}
    normal = dict(given)
    for name, weight in (("query", "q_norm"), ("key", "k_norm")):
        heads = given[name].reshape(1, 2, -1, SIZE)
        root = np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6)
        normal[name] = (heads / root * weights[weight]).reshape(given[name].shape)
    found = irc.compile_model(model(case, given | weights))(given | weights)
    for got, want in zip(found, irc.compile_model(model(case, normal))(normal), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_it_becomes_one_attention() -> None:
    case = CASES["rotary in a buffer"]
    graph = irc.compile_model(model(case, arrays(case))).graph
    kinds = [graph.op(node).kind for node in graph.ids()]
    assert kinds.count("Attention") == 1 and "Softmax" not in kinds


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a quantized cache": ({"k_quant_type": "PER_TENSOR"}, "quantized cache"),
    "a window of a cache": ({"sliding_window_cache": 1, "local_window_size": 4}, "window-sized"),
    "scores": ({"qk_output": 1}, "scores as output"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_named(name: str) -> None:
    attributes, message = REFUSED[name]
    case = Case((6,), 2, 4, attributes=attributes)
    with pytest.raises(irc.UnsupportedOperationError, match=message):
        read_onnx(model(case, arrays(case)))


def test_heads_that_do_not_fit_are_refused() -> None:
    case = Case((6,), 2, 4, shared=3)
    with pytest.raises(irc.Error, match="multiple of kv_num_heads"):
        read_onnx(model(case, arrays(case)))
