"""Classical models of ai.onnx.ml: tables of labels and maps."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.ops import LabelEncoder, ZipMap
from ..context import ExportContext, Exported, ExportFunction

_ML = "ai.onnx.ml"


def _label_encoder(n: ExportContext) -> Exported:
    """Keys, values and the default as tensors (version 4 and later)."""
    n.cast_op(LabelEncoder)
    found: dict[str, Any] = {}
    for port, key in ((1, "keys_tensor"), (2, "values_tensor"), (3, "default_tensor")):
        if n.optional(port) is None:
            continue
        data = n.constant_data(port)
        if data is None:
            raise n.error("a table that is not constant")
        tensor = n.writer.model.tensors.tensor("", data.reshape(-1), n.dtype(port), n.where)
        found[key] = tensor
    return n.add("LabelEncoder", n.input(0), domain=_ML, **found)


def _zip_map(n: ExportContext) -> Exported:
    n.cast_op(ZipMap)
    labels = n.constant_data(1)
    if labels is None:
        raise n.error("labels that are not constant")
    if n.dtype(1) is DType.string:
        texts = [str(v) for v in labels.reshape(-1)]
        return n.add("ZipMap", n.input(0), domain=_ML, classlabels_strings=texts)
    numbers = [int(v) for v in labels.reshape(-1)]
    return n.add("ZipMap", n.input(0), domain=_ML, classlabels_int64s=numbers)


EXPORTERS: dict[str, ExportFunction] = {"LabelEncoder": _label_encoder, "ZipMap": _zip_map}
