"""The cache of tokens: chunks, trimming, rows that are chosen, models that are no decoders."""

from __future__ import annotations

import tempfile
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.errors import InputError, ModelFormatError
from irc_compiler.ir.ops import Constant
from irc_compiler.llm import read_language_model
from irc_compiler.llm.decoder import Decoder, compile_decoder
from support.models.reference_generation import all_logits, tiny_llm
from support.models.tiny_decoder import decoder_model
from support.models.tiny_language_models import write_folder

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [512, 4, 1])
def test_every_logit_is_that_of_a_run_without_a_cache(chunk: int) -> None:
    cache = tiny_llm(chunk=chunk).decoder.start()
    found = cache.read(np.array([TOKENS]), every=True)
    np.testing.assert_allclose(found[0], all_logits(TOKENS), atol=1e-4)
    assert cache.columns == len(TOKENS)


def test_a_trimmed_cache_continues_what_is_left() -> None:
    cache = tiny_llm().decoder.start()
    cache.read(np.array([[*TOKENS, 7, 7, 7]]))
    full = cache.nbytes
    cache.trim(len(TOKENS))
    assert cache.nbytes == full * len(TOKENS) // (len(TOKENS) + 3)
    found = cache.read(np.array([[8, 2]]))[0, -1]
    np.testing.assert_allclose(found, all_logits([*TOKENS, 8, 2])[-1], atol=1e-4)
    cache.trim(0)
    assert cache.columns == cache.nbytes == 0
    found = cache.read(np.array([TOKENS]))[0, -1]
    np.testing.assert_allclose(found, all_logits(TOKENS)[-1], atol=1e-4)


def test_rows_continue_the_rows_that_are_chosen() -> None:
    cache = tiny_llm().decoder.start(2)
    cache.read(np.array([[1, 2, 3], [4, 5, 6]]))
    cache.select([1, 0, 1])
    found = cache.read(np.array([[7], [8], [9]]))[:, -1]
    for row, tokens in zip(found, ([4, 5, 6, 7], [1, 2, 3, 8], [4, 5, 6, 9]), strict=True):
        np.testing.assert_allclose(row, all_logits(tokens)[-1], atol=1e-4)
    cache.select([2])
    cache.select([0])
    found = cache.read(np.array([[3]]))[0, -1]
    np.testing.assert_allclose(found, all_logits([4, 5, 6, 9, 3])[-1], atol=1e-4)


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(InputError, match="no token to read"):
        tiny_llm().decoder.start().read(np.zeros((1, 0), np.int64))


def test_other_inputs_are_refused() -> None:
    x = ops.parameter("x", ["B", "S", 4])
    with pytest.raises(ModelFormatError, match="not the inputs of a decoder"):
        compile_decoder(ops.model({"logits": ops.matmul(x, np.ones((4, 4), np.float32))}))


@pytest.mark.slow
def test_weights_of_a_model_that_can_be_read_again_are_held_once() -> None:
    model = decoder_model(seed=5)
    weights = [
        weakref.ref(op.data)
        for n in model.graph.ids()
        if isinstance(op := model.graph.op(n), Constant) and op.data.ndim == 2
    ]
    net = compile_decoder(model, read_again=lambda: decoder_model(seed=5), num_threads=1)
    decoder = Decoder(net)
    alive = [found.shape for each in weights if (found := each()) is not None]
    assert len(weights) > 8 and len(alive) <= 1, "the table of embeddings is read as it is"
    assert {p.name for p in decoder.net.model.outputs} == {"logits", "hidden_states"}
    kept = Decoder(compile_decoder(decoder_model(seed=5), num_threads=1))
    found, wanted = (d.start().read(np.array([TOKENS])) for d in (decoder, kept))
    np.testing.assert_array_equal(found, wanted)


@cache
def window_decoders(form: Any = "f32") -> tuple[Decoder, Decoder]:
    """A decoder whose layers see 7 keys (9, where rows of heads are to have codes), with a cache of
    all positions and one of the window."""
    case, window = ("phi3", 9) if form == "u8" else ("mistral", 7)
    with tempfile.TemporaryDirectory() as folder:
        path = write_folder(Path(folder) / case, case)
        found = [read_language_model(path) for _ in range(2)]
    assert found[0].config.cache_window == window
    plain, narrow = (compile_decoder(f.model, num_threads=1, kv_cache=form) for f in found)
    return Decoder(plain), Decoder(narrow, window=window)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["f32", "f16", "u8"])
def test_a_cache_keeps_the_window_only_and_the_same_logits(form: Any) -> None:
    tokens = np.random.default_rng(0).integers(0, 90, (2, 420))
    valid = np.ones_like(tokens)
    valid[1, :50] = 0
    whole, short = (d.start(2) for d in window_decoders(form))
    for part in (slice(0, 140), slice(140, 141), slice(141, 280), slice(280, 400)):
        found, wanted = (c.read(tokens[:, part], valid[:, part]) for c in (short, whole))
        np.testing.assert_array_equal(found, wanted)
    assert short.columns == whole.columns == 400
    assert short.state_views()[0].shape[2] == 144, "blocks of 128 of the 400 are gone"
    for each in (short, whole):
        assert each.trim(336 + 6) == 342
        each.select([1, 0])
    for at in range(342, 420):
        found, wanted = (c.read(tokens[:, at : at + 1]) for c in (short, whole))
        np.testing.assert_array_equal(found, wanted)
    assert short.nbytes < whole.nbytes / 2


@pytest.mark.slow
def test_a_window_that_was_dropped_is_read_again() -> None:
    tokens = np.random.default_rng(0).integers(0, 90, (1, 300))
    whole, short = (d.start() for d in window_decoders())
    whole.read(tokens[:, :100])
    wanted = whole.read(tokens[:, 100:101])
    short.read(tokens)
    assert short.state_views()[0].shape[2] == 300 - 128
    assert short.trim(134) == 134 and short.trim(133) == 0 and short.columns == 0
    assert short.trim(9) == 0
    short.read(tokens[:, :100])
    np.testing.assert_array_equal(short.read(tokens[:, 100:101]), wanted)
    kept = window_decoders()[1].start(whole=True)
    kept.read(tokens)
    assert kept.state_views()[0].shape[2] == 300
