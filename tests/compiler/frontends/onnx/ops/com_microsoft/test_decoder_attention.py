"""Attention of one new token against onnxruntime, and of packed tokens against padded ones."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS, NAME = "com.microsoft", "DecoderMaskedMultiHeadAttention"
B, N, H, P = 2, 3, 16, 6
D = N * H
_R = np.random.default_rng(8)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


USED = np.array([4], np.int32)
MASK = np.array([[1, 1, 1, 0, 1, 1, 1], [1] * 7], np.int32)
PAST = [f(B, N, P, H), f(B, N, P, H)]
FRESH = [f(B, 1, D), f(B, 1, D), f(B, 1, D)]
OUT = ["y", "k", "v"]
BUFFER = {"past_present_share_buffer": 1}
CASES: dict[str, tuple[list[Any], list[str], dict[str, Any]]] = {
    "buffer": ([*FRESH, None, None, *PAST, USED], OUT, BUFFER),
    "buffer, masked": ([*FRESH, MASK[:, :5], None, *PAST, USED], OUT, {**BUFFER, "scale": 0.2}),
    "buffer, scores": ([*FRESH, None, f(1, N, 1, 5), *PAST, USED], OUT, BUFFER),
    "buffer, bias": (
        [*FRESH, None, None, *PAST, USED, None, None, f(3 * D)], OUT, BUFFER),
    "encoder": ([FRESH[0], *PAST], ["y"], {}),
    "encoder, masked": ([FRESH[0], *PAST, MASK[:, :P]], ["y"], {"scale": 0.3}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_new_token(name: str) -> None:
    inputs, outputs, attributes = CASES[name]
    model = one_node(NAME, inputs, outputs, domain=MS, num_heads=N, **attributes)
    compare(*model, rtol=1e-5, atol=1e-5)


GROWING: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (None, None, {}),
    "masked": (MASK, None, {"scale": 0.2}),
    "scores": (None, f(1, N, 1, P + 1), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_a_cache_that_grows_is_that_of_multi_head_attention(name: str) -> None:
    """onnxruntime's CPU kernel has buffers only."""
    mask, scores, how = GROWING[name]
    how = {**how, "num_heads": N}
    model, feeds = one_node(NAME, [*FRESH, mask, scores, *PAST], OUT, domain=MS, **how)
    inputs = [*FRESH, None, mask, scores, *PAST]
    compare(*one_node("MultiHeadAttention", inputs, OUT, domain=MS, **how), rtol=1e-5, atol=1e-5)
    other, given = one_node("MultiHeadAttention", inputs, OUT, domain=MS, **how)
    wanted = irc.compile_model(other)(given)
    for got, want in zip(irc.compile_model(model)(feeds), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_packed_inputs_are_inputs_side_by_side() -> None:
    rest = [None, None, *PAST, USED]
    packed = run(NAME, [np.concatenate(FRESH, 2), None, None, *rest], **BUFFER)
    np.testing.assert_allclose(packed, run(NAME, [*FRESH, *rest], **BUFFER), rtol=1e-6)


LENGTHS = [2, 4, 1]
OFFSETS = np.array([[0, 1, 4, 5], [6, 7, 8, 2], [3, 9, 10, 11]], np.int32)
ENDS = np.array([0, 2, 6, 7], np.int32)


def run(op_type: str, inputs: list[Any], **attributes: Any) -> Any:
    model, feeds = one_node(op_type, inputs, ["y"], domain=MS, num_heads=N, **attributes)
    return irc.compile_model(model)(feeds)[0]


def padded(tokens: Any) -> Any:
    found = np.zeros((3, 4, tokens.shape[-1]), np.float32)
    for b, length in enumerate(LENGTHS):
        found[b, :length] = tokens[ENDS[b] : ENDS[b + 1]]
    return found


def rows(batch: Any) -> Any:
    return np.concatenate([batch[b, :length] for b, length in enumerate(LENGTHS)])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["apart", "packed"])
@pytest.mark.parametrize("extra", [False, True])
def test_tokens_without_padding(form: str, extra: bool) -> None:
    """onnxruntime has CUDA kernels of it only."""
    parts = [f(7, D), f(7, D), f(7, D)]
    bias, scores = f(3 * D), f(1, N, 4, 4) if extra else None
    if form == "packed":
        joined = np.stack([p.reshape(7, N, H) for p in parts], 2)
        given: list[Any] = [joined, None, None]
    else:
        given = [*parts]
    ends = [scores] if extra else []
    got = run("PackedMultiHeadAttention", [*given, bias, OFFSETS, ENDS, *ends])
    mask = np.array(LENGTHS, np.int32)
    want = run("MultiHeadAttention", [*map(padded, parts), bias, mask, *ends])
    np.testing.assert_allclose(got, rows(want), rtol=1e-5, atol=1e-5)


def test_projected_tokens_without_padding() -> None:
    x, weights, bias = f(7, 20), f(20, 3 * D), f(3 * D)
    got = run("PackedAttention", [x, weights, bias, OFFSETS, ENDS])
    want = run("Attention", [padded(x), weights, bias, np.array(LENGTHS, np.int32)])
    np.testing.assert_allclose(got, rows(want), rtol=1e-5, atol=1e-5)


def test_what_is_not_supported_is_named() -> None:
    inputs = [
        *FRESH,
        None,
        None,
        *PAST,
        USED,
        np.array([2], np.int32),
        np.zeros((1, 2, 6), np.int32),
    ]
    with pytest.raises(irc.UnsupportedOperationError, match="indirect cache"):
        run(NAME, inputs, **BUFFER)
