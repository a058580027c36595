"""Convolutions and their transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Concat,
    Convolution,
    ConvolutionBackpropData,
    GroupConvolution,
    GroupConvolutionBackpropData,
    Multiply,
    Reshape,
    Slice,
)
from ..elementary import reshaped_constant, sizes_of, unsqueeze_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction

AUTO_PADS = {
    "NOTSET": "explicit",
    "SAME_UPPER": "same_upper",
    "SAME_LOWER": "same_lower",
    "VALID": "valid",
}


def spatial_attributes(n: ImportContext) -> dict[str, Any]:
    """strides, dilations, paddings and auto_pad as our operations take them."""
    mode = n.text("auto_pad", "NOTSET")
    if mode not in AUTO_PADS:
        raise n.error("unknown auto_pad", got=mode, expected=", ".join(AUTO_PADS))
    pads = n.integers("pads", [])
    if len(pads) % 2:
        raise n.error(
            "pads lists a begin and an end for each axis", got=pads, expected="an even number"
        )
    if mode != "NOTSET":
        pads = []
    half = len(pads) // 2
    return {
        "strides": tuple(n.integers("strides", [])),
        "dilations": tuple(n.integers("dilations", [])),
        "pads_begin": tuple(pads[:half]),
        "pads_end": tuple(pads[half:]),
        "auto_pad": AUTO_PADS[mode],
    }


def check_filters(n: ImportContext, filters: Value) -> None:
    """Refuse filters of unknown rank, or other sizes than `kernel_shape` has."""
    declared, shape = n.optional_integers("kernel_shape"), n.shape(filters)
    if shape is None:
        raise n.unsupported_error("filters of unknown rank")
    if declared is not None and any(
        isinstance(d, int) and d != k for d, k in zip(shape[2:], declared, strict=False)
    ):
        raise n.type_error("kernel_shape contradicts the filters", got=declared, expected=shape[2:])


def split_groups(n: ImportContext, filters: Value, groups: int) -> Value:
    """[G * first, second, kernel...] as [G, first, second, kernel...]."""
    shape = n.shape(filters)
    assert shape is not None
    first = shape[0]
    if groups < 1 or (isinstance(first, int) and first % groups):
        raise n.type_error(
            "the filters do not split into groups", got=f"{first} in {groups} groups"
        )
    if not isinstance(first, int) or not all(isinstance(d, int) for d in shape):
        bounds = n.ints_value([1]), n.ints_value([len(shape)]), n.ints_value([1])
        rest = n.add(Slice(), sizes_of(n, filters), *bounds)
        target = n.add(Concat(axis=0), n.ints_value([groups, -1]), rest)
        return n.add(Reshape(), filters, target)
    sizes = [groups, first // groups, *(d for d in shape[1:] if isinstance(d, int))]
    if n.builder.graph.op(filters.node).kind == "Constant":
        return reshaped_constant(n, filters, sizes)
    return n.add(Reshape(), filters, n.ints_value(sizes))


def _add_bias(n: ImportContext, result: Value, bias: Value | None, rank: int) -> Value:
    if bias is None:
        return result
    return n.add(Add(), result, unsqueeze_value(n, bias, [0, *range(2, rank)]))


def add_convolution(n: ImportContext, x: Value, filters: Value) -> Value:
    """The convolution that the node's attributes describe."""
    check_filters(n, filters)
    groups = n.integer("group", 1)
    return add_grouped_convolution(
        n, x, filters if groups == 1 else split_groups(n, filters, groups)
    )


def add_grouped_convolution(n: ImportContext, x: Value, filters: Value) -> Value:
    """The convolution with filters that are grouped already."""
    kind = Convolution if n.integer("group", 1) == 1 else GroupConvolution
    return n.add(kind(**spatial_attributes(n)), x, filters)


def conv(n: ImportContext) -> Value:
    filters = n.input(1)
    return _add_bias(n, add_convolution(n, n.input(0), filters), n.optional(2), n.rank(filters))


def conv_transpose(n: ImportContext) -> Value:
    filters, groups, attributes = n.input(1), n.integer("group", 1), spatial_attributes(n)
    check_filters(n, filters)
    rank = n.rank(filters)
    attributes["output_padding"] = tuple(n.integers("output_padding", []))
    target, shape = n.optional_integers("output_shape"), None
    if target is not None:
        shape = n.ints_value(target[-(rank - 2) :])
    elif attributes["auto_pad"].startswith("same"):
        strides = n.ints_value(attributes["strides"] or (1,) * (rank - 2))
        bounds = n.ints_value([2]), n.ints_value([rank]), n.ints_value([1])
        sizes = n.add(Slice(), sizes_of(n, n.input(0)), *bounds)
        shape = n.add(Multiply(), sizes, strides)
    if shape is not None:
        # The paddings follow from the sizes. ONNX puts the odd element at the end for SAME_UPPER
        # and else at the beginning; OpenVINO names them the other way round.
        upper = attributes["auto_pad"] == "same_upper"
        attributes["auto_pad"] = "same_lower" if upper else "same_upper"
        attributes |= {"pads_begin": (), "pads_end": ()}
    if groups > 1:
        filters = split_groups(n, filters, groups)
    cls = ConvolutionBackpropData if groups == 1 else GroupConvolutionBackpropData
    result = n.add(cls(**attributes), n.input(0), filters, shape)
    return _add_bias(n, result, n.optional(2), rank)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Conv": {1: conv},
    "ConvTranspose": {1: conv_transpose},
}
