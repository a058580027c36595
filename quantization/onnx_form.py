"""Make an ONNX model of a plan: QuantizeLinear and DequantizeLinear around the plan's layers.

Weights of matrix products in groups are DequantizeLinear with `block_size` (operator set 21).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.dtype import DType
from ..ir.errors import UnsupportedOperationError
from ..ir.graph import Graph, Value
from ..ir.op import Array
from .graph_form import reciprocal
from .layers import Layer
from .onnx_source import arrays_of, drop_unread, fresh_name
from .plan import ActivationParams, LayerPlan, QuantizationPlan, QuantizedWeight

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_KINDS = ("Conv", "MatMul", "Gemm")
# Operator sets with an axis of scales, and with blocks and four-bit types; file versions with them.
_AXIS_OPSET, _BLOCK_OPSET, _AXIS_IR, _BLOCK_IR = 13, 21, 7, 10
# nf4 has no ONNX type.
_FIX = "write IR instead: -o model.xml"


@dataclass
class _Editor:
    """The model under change. New nodes are put in front of the first node that reads them."""

    model: ModelProto
    tensors: dict[str, Any]
    names: set[str]
    adds: dict[str, NodeProto]  # the Add that reads each value
    new: dict[str, list[NodeProto]] = field(default_factory=dict)
    made: dict[object, str] = field(default_factory=dict)

    def fresh(self, wanted: str) -> str:
        name = fresh_name(wanted, self.names)
        self.names.add(name)
        return name

    def constant(self, array: Array, name: str, kind: int | None = None) -> str:
        """An initializer. kind: its ONNX type, where NumPy's does not say it."""
        from onnx import helper, numpy_helper

        name = self.fresh(name)
        tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
        if kind is not None:
            flat = array.reshape(-1)
            flat = np.append(flat, flat[:0] if flat.size % 2 == 0 else np.zeros(1, flat.dtype))
            packed = (flat[0::2] & 15) | (flat[1::2] << 4)
            raw = packed.astype(np.uint8).tobytes()
            tensor = helper.make_tensor(name, kind, array.shape, raw, raw=True)
        self.model.graph.initializer.append(tensor)
        return name

    def node(
        self, before: NodeProto, op_type: str, inputs: list[str], name: str, **attributes: Any
    ) -> str:
        """A node with one output, which is returned."""
        from onnx import helper

        name = self.fresh(name)
        made = helper.make_node(op_type, inputs, [name], name=name, **attributes)
        self.new.setdefault(before.name, []).append(made)
        return name


def apply_to_onnx(
    model: ModelProto, graph: Graph, layers: list[Layer], plan: QuantizationPlan
) -> tuple[ModelProto, list[str]]:
    """A copy of a prepared model in which the plan's layers are quantized, and the names of layers
    that have no node of their own in the model, which stay float. `graph` is what irc read of it.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy = _raise_opset(copy, plan)
    makers = {name: node for node in copy.graph.node for name in node.output}
    used = {n for node in copy.graph.node for n in (*node.input, *node.output, node.name)}
    adds = {name: n for n in copy.graph.node if n.op_type == "Add" for name in n.input}
    edit = _Editor(copy, arrays_of(copy.graph), used | set(arrays_of(copy.graph)), adds)
    left: list[str] = []
    for layer in layers:
        how = plan.layers.get(layer.name)
        if how is None:
            continue
        node = _node_of(graph, layer, makers)
        if node is None or node.input[1] not in edit.tensors:
            left.append(layer.name)
            continue
        _quantize_node(edit, graph, layer, how, node, makers)
    ordered = [n for old in copy.graph.node for n in (*edit.new.get(old.name, ()), old)]
    ordered = _sort_nodes(ordered)
    del copy.graph.node[:]
    copy.graph.node.extend(ordered)
    drop_unread(copy.graph)
    return copy, left


def _sort_nodes(nodes: list[NodeProto]) -> list[NodeProto]:
    """Each node behind those that it reads; new ones come before their first reader in the
    order of layers, which may not be the file's."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output}
    done: set[int] = set()
    order: list[NodeProto] = []
    for start in range(len(nodes)):
        stack = [start]
        while stack:
            at = stack[-1]
            waits = [m for n in nodes[at].input if (m := makers.get(n)) is not None]
            waits = [m for m in waits if m not in done and m not in stack]
            if waits:
                stack.append(waits[0])
                continue
            stack.pop()
            if at not in done:
                done.add(at)
                order.append(nodes[at])
    return order


def _raise_opset(model: ModelProto, plan: QuantizationPlan) -> ModelProto:
    """The model in an operator set that has what the plan needs."""
    from onnx import version_converter

    kinds = {how.weight.dtype for how in plan.layers.values()}
    if DType.nf4 in kinds:
        raise UnsupportedOperationError(
            "ONNX has no element type nf4", got="--weights nf4", expected="int8 or int4", fix=_FIX
        )
    blocks = any(how.weight.group for how in plan.layers.values())
    least, version = (_BLOCK_OPSET, _BLOCK_IR) if blocks else (_AXIS_OPSET, _AXIS_IR)
    current = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if current < least:
        try:
            model = version_converter.convert_version(model, least)
        except Exception as error:
            raise UnsupportedOperationError(
                "the onnx package cannot convert the model to a newer operator set",
                got=f"operator set {current} ({str(error).strip()[:120]})",
                expected=f"operator set {least} or newer",
                fix=f"export the model anew with operator set {least}, or {_FIX}",
            ) from error
    model.ir_version = max(model.ir_version, version)
    return model


def _node_of(graph: Graph, layer: Layer, makers: Mapping[str, NodeProto]) -> NodeProto | None:
    """The ONNX node of a layer: that makes its result, or its result with the bias."""
    value = Value(layer.node)
    names = set(graph.node(layer.node).names[0])
    reader = graph.only_reader(value)
    if not names and reader is not None and graph.op(reader).kind == "Add":
        names = set(graph.node(reader).names[0])
    found = [makers[n] for n in sorted(names) if n in makers]
    return next((n for n in found if n.op_type in _KINDS), None)


def _quantize_node(
    edit: _Editor,
    graph: Graph,
    layer: Layer,
    how: LayerPlan,
    node: NodeProto,
    makers: Mapping[str, NodeProto],
) -> None:
    from onnx import numpy_helper

    target, port = node, 0
    if how.input_scale is not None:
        node.input[0] = _divide(edit, layer, how.input_scale, node)
    else:
        target, port = _find_quantized_input(graph, layer, node, makers)
    if how.activation is not None:
        target.input[port] = _fake_quantize(edit, target, target.input[port], how.activation)
    weight = node.input[1]
    node.input[1] = _dequantize(edit, node, layer, how.weight, edit.tensors[weight])
    bias = node.input[2] if len(node.input) > 2 else ""
    if how.activation is not None and bias in edit.tensors:
        stored = numpy_helper.to_array(edit.tensors[bias])
        values = stored if how.bias is None else how.bias.reshape(stored.shape)
        node.input[2] = _bias(edit, node, values, how.activation, how.weight) or bias
    elif how.bias is not None:
        _replace_added_bias(edit, node, how.bias)


def _find_quantized_input(
    graph: Graph, layer: Layer, node: NodeProto, makers: Mapping[str, NodeProto]
) -> tuple[NodeProto, int]:
    """The node and port whose input is quantized: above nodes that move elements, as the layer's
    `use` is."""
    source = graph.input(*layer.use)
    names = graph.node(source.node).names[source.port]
    target = node
    while target.input[0] not in names and target.input[0] in makers:
        target = makers[target.input[0]]
    return (target, 0) if target.input[0] in names else (node, 0)


def _divide(edit: _Editor, layer: Layer, factors: Array, node: NodeProto) -> str:
    name = node.input[0]
    key = ("divide", name, factors.tobytes())
    if key not in edit.made:
        tail = 0 if layer.is_matrix_product else layer.weight.ndim - len(layer.outputs) - 1
        inverse = reciprocal(factors).reshape(-1, *[1] * tail)
        inputs = [name, edit.constant(inverse, f"{name}_smooth_factor")]
        edit.made[key] = edit.node(node, "Mul", inputs, f"{name}_smooth")
    return edit.made[key]


def _fake_quantize(edit: _Editor, node: NodeProto, name: str, params: ActivationParams) -> str:
    key = (name, params)
    if key not in edit.made:
        dtype = np.int8 if params.dtype is DType.i8 else np.uint8
        scale = edit.constant(np.array(params.scale, np.float32), f"{name}_scale")
        zero = edit.constant(np.array(params.zero, dtype), f"{name}_zero_point")
        codes = edit.node(node, "QuantizeLinear", [name, scale, zero], f"{name}_quantized")
        inputs = [codes, scale, zero]
        edit.made[key] = edit.node(node, "DequantizeLinear", inputs, f"{name}_dequantized")
    return edit.made[key]


def _dequantize(
    edit: _Editor, node: NodeProto, layer: Layer, weight: QuantizedWeight, stored: Any
) -> str:
    """The weight of a node: codes and DequantizeLinear."""
    from onnx import TensorProto

    name, shape = node.input[1], tuple(stored.dims)
    if weight.group:
        kind = TensorProto.UINT4 if weight.dtype is DType.u4 else None
        inputs = [
            edit.constant(weight.codes, f"{name}_quantized", kind),
            edit.constant(weight.scale, f"{name}_scale"),
        ]
        if weight.zero is not None:
            inputs.append(edit.constant(weight.zero, f"{name}_zero_point", kind))
        blocks = {"axis": weight.axis, "block_size": weight.group}
        return edit.node(node, "DequantizeLinear", inputs, f"{name}_dequantized", **blocks)
    codes = edit.constant(weight.codes.reshape(shape), f"{name}_quantized")
    scale = edit.constant(weight.scale.reshape(-1), f"{name}_scale")
    zero = edit.constant(np.zeros(weight.scale.size, np.int8), f"{name}_zero_point")
    axis = layer.outputs[0] if layer.is_matrix_product else 0
    inputs = [codes, scale, zero]
    return edit.node(node, "DequantizeLinear", inputs, f"{name}_dequantized", axis=axis)


def _replace_added_bias(edit: _Editor, node: NodeProto, bias: Array) -> None:
    """Give the Add behind a node a constant of its own, if it has one in the file itself."""
    add = edit.adds.get(node.output[0])
    if add is None:
        return
    for port, name in enumerate(add.input):
        if name in edit.tensors:
            shape = tuple(edit.tensors[name].dims)
            add.input[port] = edit.constant(bias.reshape(shape), f"{name}_corrected")


def _bias(
    edit: _Editor, node: NodeProto, bias: Array, params: ActivationParams, weight: QuantizedWeight
) -> str | None:
    """A node's bias as 32-bit codes of the product's scale; None where it is not a vector of
    channels."""
    name = node.input[2]
    factors = {a.name: a.f for a in node.attribute if a.name == "beta"}
    if bias.shape != (weight.scale.size,) or factors.get("beta", 1.0) != 1.0:
        return None
    scale = (weight.scale.reshape(-1) * np.float32(params.scale)).astype(np.float32)
    codes = np.rint(bias.astype(np.float64) / scale).astype(np.int32)
    inputs = [
        edit.constant(codes, f"{name}_quantized"),
        edit.constant(scale, f"{name}_scale"),
        edit.constant(np.zeros(scale.size, np.int32), f"{name}_zero_point"),
    ]
    return edit.node(node, "DequantizeLinear", inputs, f"{name}_dequantized", axis=0)


def write_onnx(model: ModelProto, path: Any) -> None:
    """Write a model as one file, whole or not at all. UnsupportedOperationError above 2 GiB."""
    from pathlib import Path

    from ..compiler.export.files import replace_files

    try:
        data = model.SerializeToString()
    except ValueError as error:
        raise UnsupportedOperationError(
            "the quantized model is too large for one ONNX file",
            expected="less than 2 GiB",
            fix=_FIX,
        ) from error
    with replace_files(Path(path)) as (stream,):
        stream.write(data)
