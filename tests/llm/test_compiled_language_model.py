"""A compiled language model as a .irc: what it generates, and files that are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import irc_compiler as irc
import pytest

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.ir.errors import ArtifactError, Error, ModelFormatError, UsageError
from irc_compiler.llm.compiled_language_model import ATTACHMENT
from irc_compiler.llm.llm import LLM
from support.fixtures import ModelLookups
from support.models.tiny_language_models import write_folder

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("source") / "qwen2", "qwen2")


@pytest.fixture(scope="module")
def artifact(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "model.irc"
    LLM(folder, num_threads=1).export(path)
    return path


def test_the_file_alone_generates_what_the_folder_does(folder: Path, artifact: Path) -> None:
    source, loaded = LLM(folder, num_threads=1), LLM(artifact, num_threads=1)
    assert loaded.config == source.config and loaded.weight_forms == source.weight_forms
    assert loaded.encode("hello world") == source.encode("hello world")
    found, wanted = (m.generate("hello", max_tokens=12) for m in (loaded, source))
    assert (found.tokens, found.text) == (wanted.tokens, wanted.text)
    assert loaded.chat_template is not None and source.chat_template is not None
    assert loaded.chat_template.render(MESSAGES) == source.chat_template.render(MESSAGES)


def test_a_loaded_model_is_exported_again(artifact: Path, tmp_path: Path) -> None:
    loaded, wanted = LLM(artifact, num_threads=1), LLM(artifact).generate("a", max_tokens=6)
    for code in (False, True):
        again = tmp_path / f"again{code}.irc"
        loaded.export(again, code=code)
        assert LLM(again, num_threads=1).generate("a", max_tokens=6).tokens == wanted.tokens


@pytest.mark.slow
@pytest.mark.parametrize("form", ["f16", "u8"])
def test_options_are_those_it_was_compiled_with(tmp_path: Path, form: Any) -> None:
    folder = write_folder(tmp_path / "phi3", "phi3")
    compiled = LLM(folder, num_threads=1, kv_cache=form, precision="bf16")
    compiled.export(tmp_path / "model.irc")
    loaded = LLM(tmp_path / "model.irc", num_threads=1)
    assert loaded.decoder.net.plan.precision == "bf16"
    found, wanted = (m.generate("hello world", max_tokens=9) for m in (loaded, compiled))
    assert found.tokens == wanted.tokens
    assert found.stats.kv_cache == wanted.stats.kv_cache == form
    LLM(tmp_path / "model.irc", kv_cache=form)
    with pytest.raises(UsageError, match="another kv_cache"):
        LLM(tmp_path / "model.irc", kv_cache="f32")
    again = LLM(tmp_path / "model.irc", num_threads=1, precision="f32")
    assert again.decoder.net.plan.precision == "f32"
    plain = LLM(folder, num_threads=1, kv_cache=form)
    found, wanted = (m.generate("hello", max_tokens=5) for m in (again, plain))
    assert found.tokens == wanted.tokens


def test_weights_stay_as_they_were_compiled(artifact: Path) -> None:
    with pytest.raises(UsageError, match="weights as they were compiled"):
        LLM(artifact, weights="f32")


def test_another_model_is_no_language_model(tmp_path: Path) -> None:
    x = irc.ops.parameter("x", [2, 3])
    irc.compile_model(irc.ops.model({"y": x + 1.0})).export(tmp_path / "m.irc")
    with pytest.raises(ArtifactError, match="not a language model"):
        LLM(tmp_path / "m.irc")


def _change(content: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    changed = json.loads(json.dumps(content))
    for path, value in change.items():
        *inner, last = path.split(".")
        target = changed
        for key in inner:
            target = target[key]
        target[last] = value
    return changed


HOSTILE: list[dict[str, Any]] = [
    {"kv_cache": "u3"},
    {"kv_cache": None},
    {"tokenizer": "{}"},
    {"tokenizer": 3},
    {"tokenizer.definition": "{}"},
    {"tokenizer.definition": '{"model": {"type": "BPE", "dropout": "all"}}'},
    {"tokenizer.tokens": "[1]"},
    {"tokenizer.tokens": "["},
    {"tokenizer.merges": '[["a"], []]'},
    {"tokenizer.merges": '[["a"], ["nothing"]]'},
    {"tokenizer.added": '[{"id": 3}]'},
    {"tokenizer.added": '[{"id": 3, "content": 5}]'},
    {"vocabulary": "many"},
    {"template": "x" * (2 << 20)},
    {"template_tokens": [["a"]]},
    {"config.layers": 0},
    {"config.context_length": -1},
    {"config.head_size": 1 << 70},
    {"config.eos_token_ids": [0.5]},
    {"config.cache_window": 0},
    {"config": {}},
    {"more": 1},
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda c: "-".join(c)[:30])
def test_hostile_attachments_are_refused(
    artifact: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    net = irc.CompiledModel.load(artifact, num_threads=1)
    content = json.loads(net.read_attachments()[ATTACHMENT])
    data = json.dumps(_change(content, change)).encode()
    net.export(tmp_path / "m.irc", attachments={ATTACHMENT: data})
    with pytest.raises(Error):
        LLM(tmp_path / "m.irc")


def test_a_tokenizer_in_the_form_of_its_library_is_read(artifact: Path, tmp_path: Path) -> None:
    """As earlier versions wrote it."""
    net = irc.CompiledModel.load(artifact, num_threads=1)
    content = json.loads(net.read_attachments()[ATTACHMENT])
    assert content["tokenizer"]["tokens"]
    whole = LLM(artifact).tokenizer.library.to_str()
    data = json.dumps(_change(content, {"tokenizer": whole})).encode()
    net.export(tmp_path / "m.irc", attachments={ATTACHMENT: data})
    assert LLM(tmp_path / "m.irc").tokenizer.library.to_str() == whole


def test_a_template_that_is_not_jinja_is_refused_where_it_is_rendered(
    artifact: Path, tmp_path: Path
) -> None:
    net = irc.CompiledModel.load(artifact, num_threads=1)
    content = json.loads(net.read_attachments()[ATTACHMENT])
    data = json.dumps(_change(content, {"template": "{% for %}"})).encode()
    net.export(tmp_path / "m.irc", attachments={ATTACHMENT: data})
    llm = LLM(tmp_path / "m.irc")
    assert len(llm.generate("ab", max_tokens=2).tokens) <= 2
    with pytest.raises(ModelFormatError, match="the chat template is broken"):
        llm.generate([{"role": "user", "content": "ab"}], max_tokens=2)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_an_attachment_that_is_no_json_is_refused(
    artifact: Path, tmp_path: Path, data: bytes
) -> None:
    net = irc.CompiledModel.load(artifact, num_threads=1)
    net.export(tmp_path / "m.irc", attachments={ATTACHMENT: data})
    with pytest.raises(ArtifactError, match="language model is broken"):
        LLM(tmp_path / "m.irc")


def test_a_folder_that_was_compiled_before_is_found(
    lookups: ModelLookups, folder: Path, tmp_path: Path
) -> None:
    llms = [LLM(folder, num_threads=1) for _ in range(3)]
    assert lookups.found[-1] is True
    assert lookups.found[0] is False
    first, last = llms[0], llms[-1]
    assert last.config == first.config
    assert last.weight_forms == first.weight_forms
    assert last.encode("hello world") == first.encode("hello world")
    for prompt in ("hello", MESSAGES):
        found, wanted = (m.generate(prompt, max_tokens=8) for m in (last, first))
        assert (found.tokens, found.text) == (wanted.tokens, wanted.text)
    assert len(last.decoder.net.graph) == len(first.decoder.net.graph)
    assert last.decoder.net.read_attachments() == first.decoder.net.read_attachments() == {}
    last.export(tmp_path / "model.irc")
    wanted = first.generate("hello", max_tokens=8).tokens
    assert (
        LLM(tmp_path / "model.irc", num_threads=1).generate("hello", max_tokens=8).tokens == wanted
    )


def test_another_cache_or_another_file_is_compiled(
    lookups: ModelLookups, folder: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    for _ in range(3):
        LLM(model, num_threads=1)
    assert lookups.found[-1] is True
    assert LLM(model, num_threads=1, kv_cache="f16").compiled.kv_cache == "f16"
    assert lookups.found[-1] is False
    (model / "added.txt").write_text("a file more", encoding="utf-8")
    LLM(model, num_threads=1)
    assert lookups.found[-1] is False
