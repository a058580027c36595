"""Caches of f16, bf16 and codes: values are rounded once, attention reads them, rows are
appended."""

from __future__ import annotations

from functools import cache
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import UnsupportedOperationError
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.ops.quantization.row_codes import dequantize_rows, quantize_rows
from irc_compiler.ir.row_codes import RowCodes
from irc_compiler.llm.cache_storage import store_cache
from irc_compiler.llm.language_model import KVCache
from irc_compiler.llm.llm import LLM
from irc_compiler.plan.specs.attention import AttentionSpec
from irc_compiler.plan.specs.row_codes import RowCodesSpec
from support.models.tiny_decoder import decoder_model, tiny_language_model

HALVES: tuple[KVCache, ...] = ("f16", "bf16")
CODES: dict[KVCache, int] = {"u8": 8, "u4": 4}
FORMS: tuple[KVCache, ...] = (*HALVES, *CODES)
# Codes are for rows of a multiple of 32 values.
HEAD_SIZE = 32
# Bytes of a row of one token and head.
ROW_BYTES = {"f32": 128, "f16": 64, "bf16": 64, "u8": 36, "u4": 20}
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@cache
def net(form: KVCache) -> Any:
    return irc.compile_model(store_cache(decoder_model(head_size=HEAD_SIZE), form), num_threads=1)


@cache
def llm(form: KVCache) -> LLM:
    return LLM(tiny_language_model(head_size=HEAD_SIZE), num_threads=1, kv_cache=form)


def run(request: Any, tokens: list[int], past: int = 0) -> np.ndarray[Any, Any]:
    count = len(tokens)
    return request(
        input_ids=np.array([tokens], np.int64),
        attention_mask=np.ones((1, past + count), np.int64),
        position_ids=np.arange(past, past + count)[None],
        beam_idx=np.zeros(1, np.int32),
    )["logits"][0]


def as_f32(values: np.ndarray[Any, Any], form: KVCache = "f32") -> np.ndarray[Any, Any]:
    """f16, bf16 (as integers or ml_dtypes) and codes widened."""
    if form in CODES:
        return dequantize_rows(values, RowCodes(HEAD_SIZE, CODES[form]))
    return values if values.dtype == np.float32 else values.astype(np.float32)


def store(values: np.ndarray[Any, Any], form: KVCache) -> np.ndarray[Any, Any]:
    """f32 as a variable of this form holds it, by NumPy."""
    if form in CODES:
        return quantize_rows(values, RowCodes(HEAD_SIZE, CODES[form]))
    return values.astype(DType(form).numpy)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_keys_and_values_are_rounded_once(form: KVCache) -> None:
    wide, narrow = net("f32").create_infer_request(), net(form).create_infer_request()
    for request in (wide, narrow):
        run(request, TOKENS)
    assert narrow.state_nbytes() * 128 == wide.state_nbytes() * ROW_BYTES[form]
    # Those of the first layer depend on no attention: they are those of f32, rounded.
    for number in (0, 1):
        whole, found = (r.query_state()[number].state for r in (wide, narrow))
        np.testing.assert_array_equal(as_f32(found, form), as_f32(store(whole, form), form))
    # A request of f32 with the rounded values computes the same.
    for mine, others in zip(wide.query_state(), narrow.query_state(), strict=True):
        mine.state = as_f32(others.state, form)
    past = len(TOKENS)
    run_wide, run_narrow = run(wide, [7], past), run(narrow, [7], past)
    largest = np.abs(run_wide).max()
    np.testing.assert_allclose(run_narrow, run_wide, atol=largest * (0.1 if form == "u4" else 2e-2))
    assert not np.array_equal(run_narrow, run_wide)


@pytest.mark.parametrize("form", HALVES)
def test_attention_reads_the_form_and_appends_to_it(form: KVCache) -> None:
    plan = net(form).plan
    dtype, steps = DType(form), plan.kernel_steps()
    read = [s.spec.operands()[1:3] for s in steps if s.spec.family == "attention"]
    assert [[o.dtype for o in pair] for pair in read] == [[dtype, dtype]] * 2
    assert all(plan.slots[v.slot].dtype is dtype and v.axes for v in plan.variables)
    chains = [[o.dtype for o in s.spec.operands()] for s in steps if s.spec.family == "elementwise"]
    assert dtype in {found[-1] for found in chains}
    assert not [found for found in chains if dtype in found[:-1] and found[-1] is not dtype]
    assert form in str(net(form).report())


@pytest.mark.parametrize("form", CODES)
def test_attention_reads_codes(form: KVCache) -> None:
    plan, bits = net(form).plan, CODES[form]
    steps = plan.kernel_steps()
    specs = [s.spec for s in steps if isinstance(s.spec, AttentionSpec)]
    assert [s.row_bits for s in specs] == [bits] * 2
    made = [s.spec for s in steps if isinstance(s.spec, RowCodesSpec)]
    # Two variables per layer, of which each run quantizes the new rows; initial values are empty.
    assert {(s.bits, s.dequantize) for s in made} == {(bits, False)} and len(made) >= 4
    assert all(plan.slots[v.slot].dtype is DType.u8 and v.axes for v in plan.variables)
    assert f"u{bits} in 4 reads" in str(net(form).report())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_texts_sessions_beams_and_batches_use_the_form(form: KVCache) -> None:
    model, prompts = llm(form), ["hello world", "a", "one two"]
    alone = [model.generate(p, max_tokens=20, ignore_eos=True) for p in prompts]
    for row in alone:
        stats = row.stats
        columns = stats.prompt_tokens + 19
        assert (stats.kv_cache, stats.cache_bytes) == (form, columns * 2 * 2 * 2 * ROW_BYTES[form])
    batch = model.generate(prompts, max_tokens=20, ignore_eos=True)
    assert [g.tokens for g in batch] == [g.tokens for g in alone]
    looked = [model.generate(p, max_tokens=20, ignore_eos=True, lookup=3) for p in prompts]
    assert [g.tokens for g in looked] == [g.tokens for g in alone]
    assert model.generate("hello", num_beams=3, max_tokens=9).text
    with model.engine(max_rows=2) as engine:
        tasks = [engine.submit(p, max_tokens=20, ignore_eos=True) for p in [*prompts, prompts[0]]]
        found = [task.result().tokens for task in tasks]
    assert found == [g.tokens for g in [*alone, alone[0]]]
    session, fresh = model.session(), model.session()
    session.send("hello", max_tokens=8)
    fresh.messages = list(session.messages)
    assert session.send("b", max_tokens=8).tokens == fresh.send("b", max_tokens=8).tokens


@pytest.mark.slow
@pytest.mark.parametrize("form", ["f32", *CODES])
def test_threads_and_chunks_change_no_token(form: KVCache) -> None:
    found: list[list[int]] = []
    for threads, chunk in ((1, 512), (2, 512), (2, 3)):
        source = tiny_language_model(head_size=HEAD_SIZE)
        model = LLM(source, num_threads=threads, kv_cache=form, chunk=chunk)
        found.append(model.generate("hello world", max_tokens=30, ignore_eos=True).tokens)
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize("form", CODES)
def test_a_batch_has_the_logits_of_its_rows(form: KVCache) -> None:
    """Bit for bit, in a prompt and behind it."""
    rows = [TOKENS, TOKENS[::-1]]
    both = llm(form).decoder.start(2)
    wanted = [both.read(np.array(rows)), both.read(np.array([[1], [2]]))]
    for n, row in enumerate(rows):
        alone = llm(form).decoder.start()
        for given, want in zip(([row], [[n + 1]]), wanted, strict=True):
            np.testing.assert_array_equal(alone.read(np.array(given))[0], want[n])


@pytest.mark.slow
@pytest.mark.parametrize("form", CODES)
def test_an_engine_shares_beginnings(form: KVCache) -> None:
    """Pages of the prefix cache hold codes, which other requests continue."""
    prompts = ["a careful assistant answers in one short sentence, " * 2 + end for end in "xyz"]
    with llm(form).engine(prefill_chunk=32, max_rows=3) as engine:
        options = {"max_tokens": 10, "ignore_eos": True}
        found = [engine.generate(prompt, **options) for prompt in prompts]
        assert [g.stats.cached_tokens >= 64 for g in found] == [False, True, True]
        for prompt, each in zip(prompts, found, strict=True):
            assert each.tokens == llm(form).generate(prompt, **options).tokens


@pytest.mark.slow
@pytest.mark.parametrize("form", CODES)
def test_evaluation_agrees(form: KVCache) -> None:
    """The graph evaluated in Python quantizes the same way."""
    model = store_cache(decoder_model(head_size=HEAD_SIZE), form)
    feeds = {
        "input_ids": np.array([TOKENS], np.int64),
        "attention_mask": np.ones((1, len(TOKENS)), np.int64),
        "position_ids": np.arange(len(TOKENS))[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    (wanted,) = interpret(model.graph, [feeds[p.name] for p in model.inputs])
    np.testing.assert_allclose(net(form)(feeds)["logits"], wanted, rtol=1e-3, atol=1e-3)


def test_heads_without_codes_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="heads of a size that 32 divides"):
        store_cache(decoder_model(head_size=16), "u4")
    with pytest.raises(UnsupportedOperationError, match="heads of a size that 16 divides"):
        store_cache(decoder_model(head_size=8), "u8")


def test_a_decoder_without_a_cache_is_refused() -> None:
    x = ops.parameter("x", ["B", "S", 4])
    model = ops.model({"logits": ops.matmul(x, np.ones((4, 4), np.float32))})
    assert store_cache(model, "f32") is model
    for form in FORMS:
        with pytest.raises(UnsupportedOperationError, match="no cache whose form can be chosen"):
            store_cache(model, form)


def test_what_else_reads_a_cache_is_refused() -> None:
    from irc_compiler.ir import ops as o
    from irc_compiler.llm.cache_storage import require_cache_reads

    x = ops.parameter("x", ["B", "S", 32])
    empty = np.zeros((1, 0, 32), np.float32)
    read = ops.apply(o.ReadValue("v", DType.f32, "?,?,32"), empty)
    grown = ops.apply(o.Assign("v"), ops.concat([read, x], 1))
    source = ops.model({"logits": grown * 2.0})
    for form in FORMS:
        found = irc.compile_model(store_cache(source, form), num_threads=1)
        with pytest.raises(UnsupportedOperationError, match="does not read a cache of this form"):
            require_cache_reads(found, form)
