"""Which function imports which ONNX operator: one table per family, joined here.

A table maps an operator to its importers by the version of the operator set since which each
holds. Operators of other domains are called "domain::Name".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from . import (
    activation,
    arithmetic,
    constant,
    indexing,
    logic,
    matrix,
    padding,
    quantization,
    random_values,
    ranking,
    reduction,
    reference,
    reshaping,
    slicing,
)
from .ai_onnx_ml import features as ml_features
from .ai_onnx_ml import linear as ml_linear
from .ai_onnx_ml import maps as ml_maps
from .ai_onnx_ml import trees as ml_trees
from .com_microsoft import attention as contrib_attention
from .com_microsoft import causal_convolution as contrib_causal
from .com_microsoft import channels_last as contrib_channels
from .com_microsoft import decoder_attention as contrib_decoder
from .com_microsoft import elementary as contrib
from .com_microsoft import former_operators as contrib_former
from .com_microsoft import gather_block_quantized as contrib_gather
from .com_microsoft import group_query_attention as contrib_grouped
from .com_microsoft import hyper_connections as contrib_hyper
from .com_microsoft import images_and_windows as contrib_windows
from .com_microsoft import linear_attention as contrib_linear
from .com_microsoft import matmul_bnb4 as contrib_bnb4
from .com_microsoft import matmul_nbits as contrib_nbits
from .com_microsoft import mixture_of_experts as contrib_experts
from .com_microsoft import quantized as contrib_quantized
from .com_microsoft import rotary as contrib_rotary
from .com_microsoft import sparse_attention as contrib_sparse
from .com_microsoft import token_matching as contrib_tokens
from .control_flow import conditional as control
from .control_flow import scan, sequences
from .nn import attention, convolution, normalization, pooling, recurrent, sampling, signals

if TYPE_CHECKING:
    from ..import_context import ImportFunction

Table: TypeAlias = "Mapping[str, Mapping[int, ImportFunction]]"

_FAMILIES: tuple[Table, ...] = (
    activation.IMPORTERS,
    arithmetic.IMPORTERS,
    attention.IMPORTERS,
    constant.IMPORTERS,
    control.IMPORTERS,
    contrib.IMPORTERS,
    contrib_attention.IMPORTERS,
    contrib_bnb4.IMPORTERS,
    contrib_causal.IMPORTERS,
    contrib_channels.IMPORTERS,
    contrib_decoder.IMPORTERS,
    contrib_experts.IMPORTERS,
    contrib_former.IMPORTERS,
    contrib_gather.IMPORTERS,
    contrib_grouped.IMPORTERS,
    contrib_hyper.IMPORTERS,
    contrib_linear.IMPORTERS,
    contrib_nbits.IMPORTERS,
    contrib_quantized.IMPORTERS,
    contrib_rotary.IMPORTERS,
    contrib_sparse.IMPORTERS,
    contrib_tokens.IMPORTERS,
    contrib_windows.IMPORTERS,
    convolution.IMPORTERS,
    indexing.IMPORTERS,
    logic.IMPORTERS,
    matrix.IMPORTERS,
    ml_features.IMPORTERS,
    ml_linear.IMPORTERS,
    ml_maps.IMPORTERS,
    ml_trees.IMPORTERS,
    normalization.IMPORTERS,
    padding.IMPORTERS,
    pooling.IMPORTERS,
    quantization.IMPORTERS,
    random_values.IMPORTERS,
    ranking.IMPORTERS,
    recurrent.IMPORTERS,
    reduction.IMPORTERS,
    reference.IMPORTERS,
    reshaping.IMPORTERS,
    sampling.IMPORTERS,
    scan.IMPORTERS,
    sequences.IMPORTERS,
    signals.IMPORTERS,
    slicing.IMPORTERS,
)
IMPORTERS: dict[str, Mapping[int, ImportFunction]] = {
    op_type: versions for family in _FAMILIES for op_type, versions in family.items()
}


def find_importer(op_type: str, domain: str, version: int) -> ImportFunction | None:
    """The importer of an operator in a version of its operator set, or None."""
    versions = IMPORTERS.get(f"{domain}::{op_type}" if domain else op_type)
    if versions is None:
        return None
    since = max((v for v in versions if v <= version), default=None)
    return None if since is None else versions[since]
