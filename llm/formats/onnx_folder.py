"""Folders of ONNX: optimum's (model.onnx, config.json) and onnxruntime-genai's (genai_config.json).

Their cache is inputs (`past_key_values.N.key`) and outputs (`present.N.key`); it becomes variables
here, as llm/language_model.py has them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from ...compiler.model import Model, Origin, read_model
from ...ir.dtype import DType
from ...ir.errors import ModelFormatError, UnsupportedOperationError
from ...ir.graph import Graph, Value
from ...ir.infer import infer_graph
from ...ir.ops import (
    Assign,
    Broadcast,
    Concat,
    Constant,
    Gather,
    Parameter,
    ReadValue,
    ShapeOf,
)
from ...ir.types import TensorType
from ..language_model import LanguageModel, ModelConfig
from .folder_files import read_chat_template, read_eos_tokens, read_folder_config, read_tokenizer
from .json_files import JsonObject

_PAST, _PRESENT = "past_key_values.%d.{kind}", "present.%d.{kind}"
_INPUTS = frozenset(("input_ids", "attention_mask", "position_ids"))


def find_onnx_model(folder: Path) -> Path | None:
    """The model file of a folder, None where it has none."""
    if (folder / "genai_config.json").exists():
        return folder / _decoder_config(folder).text("filename", "model.onnx")
    return next((p for n in ("model.onnx", "decoder_model_merged.onnx")
                 if (p := folder / n).exists()), None)  # fmt: skip


def read_onnx_folder(folder: Path, *, max_memory: int | None = None) -> LanguageModel:
    """A language model of a folder with ONNX. UnsupportedOperationError for a graph with other
    inputs than tokens, a mask, positions and the cache."""
    path = find_onnx_model(folder)
    assert path is not None
    if path.parent.resolve() != folder.resolve():
        raise ModelFormatError(
            "the model lies outside its folder", where=repr(str(folder)), got=str(path)[:200],
            expected="a file next to genai_config.json",
        )  # fmt: skip
    is_genai = (folder / "genai_config.json").exists()
    decoder = _decoder_config(folder) if is_genai else JsonObject({}, repr(str(folder)))

    def build() -> Model:
        model = read_model(path, max_memory=max_memory)
        make_stateful(model.graph, decoder, repr(str(path)))
        return Model(model.graph, model.origin)

    model = build()
    assert model.origin is not None
    model.origin = Origin(build, model.origin.files)
    config = _genai_model_config(folder, decoder) if is_genai else _read_config(folder)
    # GroupQueryAttention counts a row's tokens and takes them for the first ones.
    config = replace(config, left_padding=False)
    tokenizer = read_tokenizer(folder, config.vocabulary)
    return LanguageModel(model, tokenizer, read_chat_template(folder), config)


def _decoder_config(folder: Path) -> JsonObject:
    decoder_file = JsonObject.read(folder / "genai_config.json", "genai_config.json")
    model = decoder_file.read_object("model") or decoder_file
    return model.read_object("decoder") or model


def make_stateful(graph: Graph, decoder: JsonObject, where: str) -> None:
    """Cache inputs become variables read by `beam_idx`, cache outputs what they are assigned.

    decoder: genai's names of inputs and outputs, empty for optimum's.
    """
    inputs, outputs = decoder.read_object("inputs"), decoder.read_object("outputs")
    pasts = _match_names(inputs, "past_{kind}_names", _PAST)
    presents = _match_names(outputs, "present_{kind}_names", _PRESENT)
    others: list[str] = []
    found: dict[tuple[str, int], int] = {}
    for node in graph.parameters:
        names = _names(graph, node)
        hit = next((h for n in names for k, p in pasts.items() if (h := _number(p, n, k))), None)
        if hit is not None:
            found[hit] = node
        elif not names & _INPUTS:
            others.append(graph.node(node).name)
    results = {
        hit: node
        for node in graph.results
        for name in _names(graph, node)
        for kind, pattern in presents.items()
        if (hit := _number(pattern, name, kind))
    }
    if others or not found or found.keys() != results.keys():
        raise UnsupportedOperationError(
            "this is not the graph of a decoder with a cache",
            where=where,
            got=f"other inputs: {', '.join(others)[:200] or 'none'}; {len(found)} inputs and"
            f" {len(results)} outputs of the cache",
            expected="input_ids, attention_mask, position_ids, past keys and values",
        )
    given = (decoder.count("num_key_value_heads", 0), decoder.count("head_size", 0))
    _replace_cache(graph, found, results, given, where)


def _names(graph: Graph, node: int) -> set[str]:
    record = graph.node(node)
    return {record.name, *(record.names[0] if record.names else ())}


def _match_names(names: JsonObject | None, key: str, default: str) -> dict[str, re.Pattern[str]]:
    """A pattern with the layer's number, for keys and for values."""
    found: dict[str, re.Pattern[str]] = {}
    for kind in ("key", "value"):
        text = default.format(kind=kind)
        if names is not None:
            text = names.text(key.format(kind=kind), text)
        found[kind] = re.compile(re.escape(text[:200]).replace("%d", r"(\d{1,6})"))
    return found


def _number(pattern: re.Pattern[str], name: str, kind: str) -> tuple[str, int] | None:
    found = pattern.fullmatch(name)
    return None if found is None or not found.groups() else (kind, int(found.group(1)))


def _replace_cache(
    graph: Graph, pasts: dict[tuple[str, int], int], presents: dict[tuple[str, int], int],
    given: tuple[int, int], where: str,
) -> None:  # fmt: skip
    """given: heads and head size of genai_config.json, 0 where it has none; they count where the
    graph has symbols."""
    tokens = next((n for n in graph.parameters if "input_ids" in _names(graph, n)), None)
    type_ = None if tokens is None else graph.type(Value(tokens))
    if not isinstance(type_, TensorType) or type_.shape is None or len(type_.shape) != 2:
        raise ModelFormatError("input_ids is not a matrix", where=where, expected="[batch, tokens]")
    batch = type_.shape[0]
    beams = graph.add(Parameter(DType.i32, (batch,)), name="beam_idx",
                      names=[frozenset(["beam_idx"])])  # fmt: skip
    if not any("position_ids" in _names(graph, n) for n in graph.parameters):
        graph.add(Parameter(DType.i64, type_.shape), name="position_ids",
                  names=[frozenset(["position_ids"])])  # fmt: skip
    rows = Value(graph.add(ShapeOf(DType.i64), [Value(beams)]))
    axis = Value(graph.add(_constant(np.int64(0))))
    for (kind, layer), node in sorted(pasts.items()):
        record = graph.node(node)
        known = record.types[0]
        shape = known.shape if isinstance(known, TensorType) else None
        four = shape if shape is not None and len(shape) == 4 else ("?",) * 4
        heads, size = (
            s if isinstance(s, int) else g for s, g in zip((four[1], four[3]), given, strict=True)
        )
        if not heads or not size:
            expected = "[batch, heads, past, size] with known heads and size"
            raise ModelFormatError(
                "the cache has another shape", where=f"{where}, {record.name}", got=str(known),
                expected=expected,
            )  # fmt: skip
        dtype = cast("TensorType", known).dtype
        name = f"past_key_values.{layer}.{kind}.present.{layer}.{kind}"
        tail = Value(graph.add(_constant(np.array([heads, 0, size], np.int64))))
        sizes = Value(graph.add(Concat(0), [rows, tail]))
        nothing = Value(graph.add(_constant(np.zeros((), dtype.numpy))))
        empty = Value(graph.add(Broadcast("numpy"), [nothing, sizes]))
        read = ReadValue(name, dtype, f"?,{heads},?,{size}")
        state = Value(graph.add(read, [empty], name=name))
        past = Value(graph.add(Gather(), [state, Value(beams), axis]))
        for use in graph.uses(Value(node)):
            graph.connect(past, use)
        graph.remove(node)
        result = presents[kind, layer]
        graph.add(Assign(name), [graph.input(result, 0)], name=f"{name}/assign")
        graph.remove(result)
    infer_graph(graph)


def _constant(array: np.generic | np.ndarray) -> Constant:  # type: ignore[type-arg]
    data = np.asarray(array)
    return Constant.of(data, DType.from_numpy(data.dtype))


def _genai_model_config(folder: Path, decoder: JsonObject) -> ModelConfig:
    """Sizes of genai_config.json."""
    genai_config = JsonObject.read(folder / "genai_config.json", "genai_config.json")
    model = genai_config.read_object("model") or genai_config
    heads = decoder.count("num_attention_heads")
    begin = model.get("bos_token_id")
    return ModelConfig(
        name=folder.resolve().name,
        architecture=model.text("type", "decoder"),
        context_length=model.count("context_length"),
        vocabulary=model.count("vocab_size"),
        layers=decoder.count("num_hidden_layers"),
        heads=heads,
        kv_heads=decoder.count("num_key_value_heads", heads),
        head_size=decoder.count("head_size"),
        eos_token_ids=read_eos_tokens(folder, model),
        bos_token_id=begin if type(begin) is int else None,
    )


def _read_config(folder: Path) -> ModelConfig:
    """Sizes of config.json."""
    from .openvino_folder import read_ir_config

    return read_ir_config(folder, read_folder_config(folder))
