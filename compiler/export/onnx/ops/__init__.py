"""Which function writes which operation as ONNX: one table per family, joined here.

A table's function returns the names of the outputs, or None where the operation is decomposed
(../fallback.py). Families are those of the importer (compiler/frontends/onnx/ops/).
"""

from __future__ import annotations

from collections.abc import Mapping

from .....ir.extensions import is_extension
from .....ir.op import Op
from ..context import ExportFunction
from . import (
    activation,
    arithmetic,
    convolution,
    indexing,
    logic,
    matrix,
    normalization,
    pooling,
    quantization,
    random_values,
    ranking,
    recurrent,
    reduction,
    reference,
    reshaping,
    sampling,
    signals,
    slicing,
)
from .ai_onnx_ml import models
from .control_flow import bodies, sequences

_FAMILIES: tuple[Mapping[str, ExportFunction], ...] = (
    activation.EXPORTERS,
    arithmetic.EXPORTERS,
    models.EXPORTERS,
    bodies.EXPORTERS,
    convolution.EXPORTERS,
    indexing.EXPORTERS,
    logic.EXPORTERS,
    matrix.EXPORTERS,
    normalization.EXPORTERS,
    pooling.EXPORTERS,
    quantization.EXPORTERS,
    random_values.EXPORTERS,
    ranking.EXPORTERS,
    recurrent.EXPORTERS,
    reduction.EXPORTERS,
    reference.EXPORTERS,
    reshaping.EXPORTERS,
    sampling.EXPORTERS,
    sequences.EXPORTERS,
    signals.EXPORTERS,
    slicing.EXPORTERS,
)
EXPORTERS: dict[str, ExportFunction] = {
    kind: function for family in _FAMILIES for kind, function in family.items()
}


def find_exporter(op: Op) -> ExportFunction | None:
    """The function that writes an operation, or None."""
    return reference.write_extension if is_extension(op) else EXPORTERS.get(op.kind)
