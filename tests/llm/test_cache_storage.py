"""Caches of f16 and bf16: values are rounded once, attention reads them, rows are appended."""

from __future__ import annotations

from functools import cache
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import UnsupportedOperationError
from irc_compiler.llm.cache_storage import KVCache, store_cache
from irc_compiler.llm.llm import LLM
from support.models.tiny_decoder import decoder_model, tiny_language_model

FORMS: tuple[KVCache, ...] = ("f16", "bf16")
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@cache
def net(form: KVCache) -> Any:
    return irc.compile_model(store_cache(decoder_model(), form), num_threads=1)


@cache
def llm(form: KVCache) -> LLM:
    return LLM(tiny_language_model(), num_threads=1, kv_cache=form)


def run(request: Any, tokens: list[int], past: int = 0) -> np.ndarray[Any, Any]:
    count = len(tokens)
    return request(
        input_ids=np.array([tokens], np.int64),
        attention_mask=np.ones((1, past + count), np.int64),
        position_ids=np.arange(past, past + count)[None],
        beam_idx=np.zeros(1, np.int32),
    )["logits"][0]


def as_f32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """f16 and bf16 (as integers or ml_dtypes) widened."""
    return values if values.dtype == np.float32 else values.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_keys_and_values_are_rounded_once(form: KVCache) -> None:
    wide, narrow = net("f32").create_infer_request(), net(form).create_infer_request()
    for request in (wide, narrow):
        run(request, TOKENS)
    assert narrow.state_nbytes() * 2 == wide.state_nbytes()
    # Those of the first layer depend on no attention: they are those of f32, rounded.
    for number in (0, 1):
        whole, found = (r.query_state()[number].state for r in (wide, narrow))
        wanted = whole.astype(DType(form).numpy).astype(np.float32)
        np.testing.assert_array_equal(as_f32(found), wanted)
    # A request of f32 with the rounded values computes the same.
    for mine, others in zip(wide.query_state(), narrow.query_state(), strict=True):
        mine.state = as_f32(others.state)
    past = len(TOKENS)
    run_wide, run_narrow = run(wide, [7], past), run(narrow, [7], past)
    largest = np.abs(run_wide).max()
    # The new token's own key and value are rounded in one of them.
    np.testing.assert_allclose(run_narrow, run_wide, atol=largest * 2e-2)
    assert not np.array_equal(run_narrow, run_wide)


@pytest.mark.parametrize("form", FORMS)
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


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_texts_sessions_beams_and_batches_use_the_form(form: KVCache) -> None:
    model, prompts = llm(form), ["hello world", "a", "one two"]
    alone = [model.generate(p, max_tokens=20, ignore_eos=True) for p in prompts]
    for row in alone:
        stats = row.stats
        columns = stats.prompt_tokens + 19
        assert (stats.kv_cache, stats.cache_bytes) == (form, columns * 2 * 2 * 2 * 8 * 2)
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


def test_a_decoder_without_a_cache_is_refused() -> None:
    x = ops.parameter("x", ["B", "S", 4])
    model = ops.model({"logits": ops.matmul(x, np.ones((4, 4), np.float32))})
    assert store_cache(model, "f32") is model
    with pytest.raises(UnsupportedOperationError, match="no cache whose form can be chosen"):
        store_cache(model, "f16")


def test_what_else_reads_a_cache_is_refused() -> None:
    from irc_compiler.ir import ops as o
    from irc_compiler.llm.cache_storage import require_cache_reads

    x = ops.parameter("x", ["B", "S", 4])
    empty = np.zeros((1, 0, 4), np.float32)
    read = ops.apply(o.ReadValue("v", DType.f32, "?,?,4"), empty)
    grown = ops.apply(o.Assign("v"), ops.concat([read, x], 1))
    model = store_cache(ops.model({"logits": grown * 2.0}), "f16")
    found = irc.compile_model(model, num_threads=1)
    with pytest.raises(UnsupportedOperationError, match="does not read a cache of this form"):
        require_cache_reads(found, "f16")
