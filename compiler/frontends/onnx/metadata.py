"""Metadata of an ONNX model as sections of `Graph.rt_info` (compiler/metadata.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...metadata import CUSTOM, DESCRIPTION, PATH_PREFIX, store_path

if TYPE_CHECKING:
    from onnx import ModelProto


def read_metadata(model: ModelProto) -> dict[str, Any]:
    """Sections that are not empty. The last of two values with one key counts."""
    described = {
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "domain": model.domain,
        "description": model.doc_string,
        "graph_description": model.graph.doc_string,
        "version": str(model.model_version) if model.HasField("model_version") else "",
    }
    sections: dict[str, Any] = {}
    custom: dict[str, str] = {}
    for entry in model.metadata_props:
        key, value = _text(entry.key), _text(entry.value)
        path = key.removeprefix(PATH_PREFIX)
        if path == key or not store_path(sections, path, value):
            custom[key] = value
    sections[CUSTOM] = custom
    sections[DESCRIPTION] = {key: _text(value) for key, value in described.items() if value}
    return {name: pairs for name, pairs in sections.items() if pairs}


def _text(value: Any) -> str:
    """Protobuf returns bytes for a string that is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
