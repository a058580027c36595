"""Decoders against transformers: logits of tiny random models that scripts/reference_logits.py
computed in f32."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.llm import LanguageModel, read_language_model
from support.models.tiny_language_models import CONFIGS, PROMPT, write_folder

DATA = Path(__file__).parents[2] / "data" / "llm" / "logits.npz"


@functools.cache
def read_reference(case: str) -> tuple[list[int], np.ndarray, np.ndarray]:
    """(tokens, columns, logits at these columns) of transformers."""
    with np.load(DATA) as arrays:
        names = ("tokens", "columns", "logits")
        tokens, columns, logits = (arrays[f"{case}.{n}"] for n in names)
    return tokens.tolist(), columns, logits


def feed(tokens: list[list[int]], past: int = 0, padding: int = 0) -> dict[str, np.ndarray]:
    """Inputs of a run; the first `padding` tokens of each row are padding."""
    ids = np.array(tokens, np.int64)
    mask = np.ones((len(ids), past + ids.shape[1]), np.int64)
    mask[:, :padding] = 0
    positions = np.maximum(np.arange(past, past + ids.shape[1]) - padding, 0)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": np.broadcast_to(positions, ids.shape).astype(np.int64),
        "beam_idx": np.arange(len(ids), dtype=np.int32),
    }


def run_tokens(model: LanguageModel, tokens: list[int]) -> tuple[Any, np.ndarray]:
    """(compiled model, logits): the prompt at once, then each token."""
    net = irc.compile_model(model.model)
    request = net.create_infer_request()
    found = [request(feed([tokens[: len(PROMPT)]]))["logits"][0]]
    for i in range(len(PROMPT), len(tokens) - 1):
        found.append(request(feed([tokens[i : i + 1]], i))["logits"][0])
    return net, np.concatenate(found)


def check(model: LanguageModel, case: str) -> None:
    tokens, columns, wanted = read_reference(case)
    if case == "phi3":  # its rotation of all tokens changes with the length: one run, no cache
        net = irc.compile_model(model.model)
        found = net(feed([tokens[:-1]]))["logits"][0]
        assert np.abs(found[:, columns] - wanted).max() < 1e-4
        return
    net, found = run_tokens(model, tokens)
    assert np.abs(found[:, columns] - wanted).max() < 1e-4
    assert found[len(PROMPT) - 1 :].argmax(-1).tolist() == tokens[len(PROMPT) :]
    assert ", 0 in Python" in net.report()


@pytest.mark.slow
@pytest.mark.parametrize("case", CONFIGS)
def test_folder_equals_transformers(case: str, tmp_path: Path) -> None:
    """64 greedy tokens, and logits within 1e-4."""
    check(read_language_model(write_folder(tmp_path, case)), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CONFIGS if c != "mistral"])
def test_gguf_equals_transformers(case: str, tmp_path: Path) -> None:
    """The same weights in GGUF. mistral's window has no key there; phi3's is not read."""
    pytest.importorskip("gguf", reason="not run: needs gguf, which writes the file")
    from support.models.tiny_gguf import write_gguf

    model = read_language_model(write_gguf(tmp_path / "tiny.gguf", case))
    if case != "phi3":
        check(model, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CONFIGS if c != "mistral"])
def test_gguf_equals_llama_cpp(case: str, tmp_path: Path) -> None:
    """Logits within 1e-4 (scripts/reference_llama_cpp.py); of gemma within 5e-3, whose Gelu
    llama.cpp takes from a table of f16."""
    pytest.importorskip("gguf", reason="not run: needs gguf, which writes the file")
    from support.models.tiny_gguf import LLAMA_CPP_CHANGES, write_gguf

    path = write_gguf(tmp_path / "tiny.gguf", case, "F32", LLAMA_CPP_CHANGES.get(case))
    tokens = [*PROMPT, *reversed(PROMPT)]
    net = irc.compile_model(read_language_model(path).model)
    assert ", 0 in Python" in net.report()
    found = net(feed([tokens]))["logits"][0]
    with np.load(DATA.with_name("llama_cpp.npz")) as arrays:
        wanted = arrays[f"{case}.logits"]
    difference = np.abs(found[:, :: found.shape[1] // 8] - wanted).max()
    assert difference < (5e-3 if case.startswith("gemma") else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["llama", "gemma3", "phi3"])
def test_native_equals_evaluation(case: str, tmp_path: Path) -> None:
    """A batch of two, one row padded on the left."""
    model = read_language_model(write_folder(tmp_path, case)).model
    tokens = np.random.default_rng(1).integers(3, 90, (2, 11)).tolist()
    given = feed(tokens, padding=3)
    (wanted,) = interpret(model.graph, given)
    found = irc.compile_model(model)(given)["logits"]
    assert np.isfinite(found).all()
    assert np.abs(found - wanted).max() < 1e-4


@pytest.mark.slow
def test_padding_changes_no_text(tmp_path: Path) -> None:
    """A row padded on the left has the logits that it has alone; beams take each other's rows."""
    model = read_language_model(write_folder(tmp_path, "qwen2")).model
    net = irc.compile_model(model)
    alone, padded = net.create_infer_request(), net.create_infer_request()
    tokens = np.random.default_rng(2).integers(3, 90, 9).tolist()
    first = alone(feed([tokens]))["logits"][:, -1]
    again = padded(feed([[0, 0, 0, 0, *tokens]] * 2, padding=4))["logits"][:, -1]
    assert np.abs(again - first).max() < 1e-5
    next_one = alone(feed([[7]], 9))["logits"][0, -1]
    given = feed([[7], [8]], 13, padding=4) | {"beam_idx": np.array([1, 0], np.int32)}
    assert np.abs(padded(given)["logits"][0, -1] - next_one).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_stored_weights_equal_dequantized_ones(kind: str, tmp_path: Path) -> None:
    """Nothing is rounded: compressed products have the logits of the same weights in f32."""
    pytest.importorskip("gguf", reason="not run: needs gguf, which writes the file")
    from support.models.tiny_gguf import write_gguf

    path = write_gguf(tmp_path / "tiny.gguf", "smollm", kind)
    logits = []
    for weights in ("stored", "f32"):
        model = read_language_model(path, weights=weights)
        assert all(kind in form for form in model.weight_forms)
        net = irc.compile_model(model.model)
        assert ", 0 in Python" in net.report()
        logits.append(net(feed([list(PROMPT)]))["logits"])
    assert np.abs(logits[0] - logits[1]).max() < 1e-4


def test_graph_has_the_interface_of_the_runtime(tmp_path: Path) -> None:
    """Inputs, output and variables of llm/language_model.py."""
    model = read_language_model(write_folder(tmp_path, "llama"))
    assert [p.name for p in model.model.inputs] == [
        "input_ids", "attention_mask", "position_ids", "beam_idx"
    ]  # fmt: skip
    (logits,) = model.model.outputs
    assert logits.name == "logits" and logits.shape == ("batch", "sequence", 96)
    ids = {op.variable_id for n in model.model.graph.ids()
           if (op := model.model.graph.op(n)).kind == "ReadValue"}  # fmt: skip
    assert "past_key_values.0.key.present.0.key" in ids and len(ids) == 6
    assert model.config.eos_token_ids == (2,) and model.config.context_length == 256
    template = model.chat_template
    assert template is not None
    assert template.render([{"role": "user", "content": "in"}]) == "<s>user: in</s><s>assistant: "
