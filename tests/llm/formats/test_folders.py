"""Folders of safetensors and of optimum-intel: forms of weights, and hostile files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.llm import read_language_model
from irc_compiler.llm.formats.safetensors_file import SafetensorsFile
from support.models.tiny_language_models import CONFIGS, PROMPT, make_weights, write_folder


def feed(model: Any) -> Any:
    """Logits of the prompt, as `evaluate` computes them."""
    count = len(PROMPT)
    given = {
        "input_ids": np.array([PROMPT], np.int64),
        "attention_mask": np.ones((1, count), np.int64),
        "position_ids": np.arange(count, dtype=np.int64)[None],
        "beam_idx": np.zeros(1, np.int32),
    }
    return interpret(model.graph, given)[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_narrow_floats(dtype: str, tmp_path: Path) -> None:
    """Stored as they are, or widened; shards are one model."""
    place = write_folder(tmp_path, "qwen3", dtype)
    stored = read_language_model(place)
    wide = read_language_model(place, weights="f32")
    assert stored.weight_forms == {dtype: 23} and wide.weight_forms == {f"{dtype} as f32": 23}
    np.testing.assert_array_equal(feed(stored.model), feed(wide.model))


def test_shards(tmp_path: Path) -> None:
    from support.models.tiny_language_models import write_safetensors

    whole = write_folder(tmp_path / "one", "llama")
    place = write_folder(tmp_path / "two", "llama")
    (place / "model.safetensors").unlink()
    tensors = list(make_weights(CONFIGS["llama"]).items())
    write_safetensors(place / "model-00001-of-00002.safetensors", dict(tensors[:9]))
    write_safetensors(place / "model-00002-of-00002.safetensors", dict(tensors[9:]))
    models = [read_language_model(p).model for p in (whole, place)]
    np.testing.assert_array_equal(feed(models[0]), feed(models[1]))
    write_safetensors(place / "again.safetensors", dict(tensors[:1]))
    with pytest.raises(irc.Error, match="two files have one tensor"):
        read_language_model(place)


def test_a_model_is_read_again(tmp_path: Path) -> None:
    """A compiled model may drop weights and read them from their files, unless these changed."""
    model = read_language_model(write_folder(tmp_path, "qwen2")).model
    assert model.origin is not None and len(model.origin.files) == 1
    np.testing.assert_array_equal(feed(model.origin.reload()), feed(model))
    write_folder(tmp_path, "qwen2")
    with pytest.raises(irc.Error, match="not what it was"):
        model.origin.reload()


@pytest.mark.slow
def test_a_folder_of_stateful_ir(tmp_path: Path) -> None:
    """As optimum-intel writes it: openvino_model.xml next to config and tokenizer."""
    source = read_language_model(write_folder(tmp_path / "source", "qwen2"))
    place = write_folder(tmp_path / "ir", "qwen2")
    (place / "model.safetensors").unlink()
    irc.save_model(source.model, place / "openvino_model.xml")
    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 1]}))
    found = read_language_model(place)
    assert np.abs(feed(found.model) - feed(source.model)).max() < 1e-5
    assert found.config.eos_token_ids == (2, 1) and found.config.kv_heads == 2
    assert found.chat_template is not None and found.tokenizer.encode("the") == [92]


def test_an_ir_that_is_no_decoder(tmp_path: Path) -> None:
    place = write_folder(tmp_path, "qwen2")
    x = irc.ops.parameter("input_ids", ["N"], "i64")
    irc.save_model(irc.ops.model({"logits": x}), place / "openvino_model.xml")
    with pytest.raises(irc.Error, match="not the stateful graph of a decoder"):
        read_language_model(place)


def header(text: str, data: int = 16) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(8, "little") + encoded + b"\0" * data


def one(dtype: object = "F32", shape: object = (2, 2), at: object = (0, 16)) -> str:
    return json.dumps({"t": {"dtype": dtype, "shape": shape, "data_offsets": at}})


TWO = json.dumps({n: {"dtype": "F32", "shape": [2], "data_offsets": [a, a + 8]}
                  for n, a in (("a", 0), ("b", 4))})  # fmt: skip
HOSTILE_SAFETENSORS = [
    ("empty", b"", "too short"),
    ("endless header", (1 << 62).to_bytes(8, "little") + b"{}", "longer than the file"),
    ("not JSON", header("{"), "not JSON"),
    ("deep JSON", header("[" * 100000), "not JSON"),
    ("a list", header("[]"), "not an object"),
    ("no offsets", header('{"t": {"dtype": "F32", "shape": []}}'), "not described"),
    ("a number", header('{"t": 3}'), "not described"),
    ("negative shape", header(one(shape=[-1])), "described wrongly"),
    ("fractional shape", header(one(shape=[1.5])), "described wrongly"),
    ("behind the file", header(one(at=[0, 64])), "outside the file"),
    ("backwards", header(one(at=[8, 4])), "outside the file"),
    ("three offsets", header(one(at=[0, 4, 8])), "not described"),
    ("overlap", header(TWO), "overlap"),
    ("other bytes than the shape", header(one(shape=[3, 3])), "not those of its shape"),
    ("a product beyond 64 bits", header(one(shape=[1 << 40] * 4)), "not those of its shape"),
    ("unknown type", header(one("I8")), "has a type"),
]


@pytest.mark.parametrize(
    ("data", "message"),
    [h[1:] for h in HOSTILE_SAFETENSORS],
    ids=[h[0] for h in HOSTILE_SAFETENSORS],
)
def test_hostile_safetensors(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(irc.Error) as caught:
        file = SafetensorsFile(path)
        file.read("t")
    assert message in str(caught.value) and "x.safetensors" in str(caught.value)


def change(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda config: config.__setitem__(key, value)


HOSTILE_CONFIGS = [
    ("unknown model", change("model_type", "mamba"), "not supported"),
    ("quantized", change("quantization_config", {"bits": 4}), "not supported"),
    ("0 heads", change("num_attention_heads", 0), "num_attention_heads"),
    ("3 heads for 2", change("num_attention_heads", 3), "multiple of 2"),
    ("heads are text", change("num_attention_heads", "4"), "an integer"),
    ("endless layers", change("num_hidden_layers", 1 << 40), "num_hidden_layers"),
    ("more layers than tensors", change("num_hidden_layers", 9), "lacks a tensor"),
    ("another width", change("hidden_size", 64), "another shape"),
    ("another inner width", change("intermediate_size", 32), "another shape"),
    ("eps is NaN", change("rms_norm_eps", float("nan")), "finite"),
    ("unknown activation", change("hidden_act", "relu"), "hidden_act"),
    ("yarn", change("rope_scaling", {"rope_type": "yarn"}), "scaling of rotary"),
    ("rope is a list", change("rope_scaling", []), "an object"),
    ("odd rotation", change("partial_rotary_factor", 0.2), "even number"),
    ("no logits", change("tie_word_embeddings", False), "matrix of the logits"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "message"), [h[1:] for h in HOSTILE_CONFIGS], ids=[h[0] for h in HOSTILE_CONFIGS]
)
def test_hostile_configs(
    edit: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    place = write_folder(tmp_path, "smollm")
    config = json.loads((place / "config.json").read_text())
    edit(config)
    (place / "config.json").write_text(json.dumps(config))
    with pytest.raises(irc.Error) as caught:
        read_language_model(place)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "not JSON"),
        ("config.json", "[]", "not an object"),
        ("tokenizer.json", "{}", "tokenizer is broken"),
        ("tokenizer.json", "\udcff", "not UTF-8"),
        ("tokenizer_config.json", '{"chat_template": 3}', "a string"),
        ("chat_template.jinja", "{% for", "template is broken"),
    ],
)
def test_broken_files(name: str, text: str, message: str, tmp_path: Path) -> None:
    place = write_folder(tmp_path, "smollm")
    (place / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(irc.Error, match=message):
        read_language_model(place)


def test_what_is_no_model(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.gguf", tmp_path / "x.bin"):
        if path.suffix == ".bin":
            path.write_bytes(b"x")
        with pytest.raises(irc.Error):
            read_language_model(path)
    (write_folder(tmp_path / "m", "smollm") / "tokenizer.json").unlink()
    with pytest.raises(irc.Error, match="cannot open the tokenizer"):
        read_language_model(tmp_path / "m")
    with pytest.raises(irc.Error, match="unknown form of weights"):
        read_language_model(tmp_path / "m", weights="int3")  # type: ignore[arg-type]
