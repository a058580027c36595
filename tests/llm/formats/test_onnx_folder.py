"""Folders of ONNX: a cache of inputs and outputs becomes variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.llm import read_language_model
from support.models.tiny_language_models import CONFIGS, VOCABULARY, write_folder

HEADS, SHARED, SIZE = 4, 2, 8
WIDTH = HEADS * SIZE


def write_onnx(path: Path, past: str = "past_key_values.%d.{}", present: str = "present.%d.{}",
               extra: str = "", size: int | str = SIZE) -> None:  # fmt: skip
    """A layer as onnxruntime-genai's builder writes it: GroupQueryAttention with rotation. size:
    that of a head in the cache's shape."""
    rng = np.random.default_rng(3)

    def array(name: str, data: np.ndarray) -> onnx.TensorProto:
        return numpy_helper.from_array(data, name)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return array(name, (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))

    angles = np.arange(64)[:, None] * 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
    weights = [
        weight("table", VOCABULARY, WIDTH), weight("head", WIDTH, VOCABULARY),
        weight("wq", WIDTH, WIDTH), weight("wk", WIDTH, SHARED * SIZE),
        weight("wv", WIDTH, SHARED * SIZE),
        array("cos", np.cos(angles).astype(np.float32)),
        array("sin", np.sin(angles).astype(np.float32)),
        array("one", np.array([1], np.int64)), array("axis", np.array(1, np.int64)),
    ]  # fmt: skip
    keys = [past.replace("%d", "0").format(k) for k in ("key", "value")]
    news = [present.replace("%d", "0").format(k) for k in ("key", "value")]
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["x"]),
        *(node("MatMul", ["x", f"w{c}"], [c]) for c in "qkv"),
        node("ReduceSum", ["attention_mask", "one"], ["count"], keepdims=0),
        node("Sub", ["count", "one"], ["last64"]),
        node("Cast", ["last64"], ["last"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["sizes"]),
        node("Gather", ["sizes", "axis"], ["total64"]),
        node("Cast", ["total64"], ["total"], to=TensorProto.INT32),
        node("GroupQueryAttention", ["q", "k", "v", *keys, "last", "total", "cos", "sin"],
             ["found", *news], domain="com.microsoft", num_heads=HEADS, kv_num_heads=SHARED,
             do_rotary=1),
        node("Add", ["x", "found"], ["y"]),
        node("MatMul", ["y", "head"], ["logits"]),
    ]  # fmt: skip

    def value(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [value(n, TensorProto.INT64, "B", s)
              for n, s in (("input_ids", "S"), ("attention_mask", "T"))]  # fmt: skip
    inputs += [value(n, TensorProto.FLOAT, "B", SHARED, "P", size) for n in keys]
    inputs += [value(extra, TensorProto.FLOAT, 1)] if extra else []
    outputs = [value("logits", TensorProto.FLOAT, "B", "S", VOCABULARY)]
    outputs += [value(n, TensorProto.FLOAT, "B", SHARED, "T", size) for n in news]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def folder(tmp_path: Path) -> Path:
    place = write_folder(tmp_path, "qwen2")
    (place / "model.safetensors").unlink()
    return place


def write_genai(place: Path, **decoder: Any) -> None:
    sizes = {
        "filename": "decoder.onnx", "head_size": SIZE, "num_attention_heads": HEADS,
        "num_hidden_layers": 1, "num_key_value_heads": SHARED,
        "inputs": {"past_key_names": "kin_%d_key", "past_value_names": "kin_%d_value"},
        "outputs": {"present_key_names": "out.%d.key", "present_value_names": "out.%d.value"},
        **decoder,
    }  # fmt: skip
    model = {"type": "qwen2", "context_length": 64, "vocab_size": VOCABULARY, "bos_token_id": 1,
             "eos_token_id": [2], "decoder": sizes}  # fmt: skip
    (place / "genai_config.json").write_text(json.dumps({"model": model}))


def check(place: Path, path: Path) -> None:
    """A prompt and later tokens: the stateful model has the logits of the file's own graph."""
    model = read_language_model(place)
    assert not model.config.left_padding and model.config.layers == 1
    request = irc.compile_model(model.model).create_infer_request()
    plain = irc.compile_model(path)
    names = [p.name for p in plain.inputs if p.name not in ("input_ids", "attention_mask")]
    cache = [np.zeros((1, SHARED, 0, SIZE), np.float32) for _ in names]
    past = 0
    for ids in ([5, 9, 7, 3], [11], [4, 8]):
        given: dict[str, Any] = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, past + len(ids)), np.int64),
        }
        wanted, *cache = plain(given | dict(zip(names, cache, strict=True)))
        given["position_ids"] = np.arange(past, past + len(ids), dtype=np.int64)[None]
        found = request(given | {"beam_idx": np.zeros(1, np.int32)})["logits"]
        assert np.abs(found - wanted).max() < 1e-5
        past += len(ids)


@pytest.mark.slow
@pytest.mark.parametrize("size", [SIZE, "kv_cache_dim"])
def test_a_folder_of_genai(tmp_path: Path, size: int | str) -> None:
    """Names of inputs and outputs are those of genai_config.json, and so is the size of a head
    where the graph has a symbol (builder 0.18)."""
    place = folder(tmp_path)
    write_onnx(place / "decoder.onnx", "kin_%d_{}", "out.%d.{}", size=size)
    write_genai(place)
    check(place, place / "decoder.onnx")


@pytest.mark.slow
def test_a_folder_of_optimum(tmp_path: Path) -> None:
    place = folder(tmp_path)
    config = {**CONFIGS["qwen2"], "num_hidden_layers": 1}
    (place / "config.json").write_text(json.dumps(config))
    write_onnx(place / "model.onnx")
    check(place, place / "model.onnx")


def test_hostile_folders(tmp_path: Path) -> None:
    """Other inputs, a cache without outputs, a file outside the folder."""
    place = folder(tmp_path / "a")
    write_onnx(place / "model.onnx", extra="pixel_values")
    with pytest.raises(irc.Error, match="pixel_values"):
        read_language_model(place)
    write_onnx(place / "model.onnx", present="other.%d.{}")
    with pytest.raises(irc.Error, match="not the graph of a decoder"):
        read_language_model(place)
    write_genai(place, filename="../b.onnx")
    write_onnx(tmp_path / "b.onnx")
    with pytest.raises(irc.Error, match="outside its folder"):
        read_language_model(place)
    write_onnx(place / "decoder.onnx", "kin_%d_{}", "out.%d.{}", size="kv_cache_dim")
    for wrong in (0, -1, 1 << 40, "8"):
        write_genai(place, head_size=wrong)
        with pytest.raises(irc.Error):
            irc.compile_model(read_language_model(place).model)
    write_genai(place, inputs={"past_key_names": 3})
    with pytest.raises(irc.Error):
        read_language_model(place)
