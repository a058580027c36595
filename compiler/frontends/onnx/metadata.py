"""Metadata of an ONNX model as sections of `Graph.rt_info` (compiler/metadata.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...metadata import CUSTOM, DESCRIPTION

if TYPE_CHECKING:
    from onnx import ModelProto


def read_metadata(model: ModelProto) -> dict[str, dict[str, str]]:
    """Sections that are not empty. The last of two values with one key counts."""
    described = {
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "domain": model.domain,
        "description": model.doc_string,
        "graph_description": model.graph.doc_string,
        "version": str(model.model_version) if model.HasField("model_version") else "",
    }
    sections = {
        CUSTOM: {_text(entry.key): _text(entry.value) for entry in model.metadata_props},
        DESCRIPTION: {key: _text(value) for key, value in described.items() if value},
    }
    return {name: pairs for name, pairs in sections.items() if pairs}


def _text(value: Any) -> str:
    """Protobuf returns bytes for a string that is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
