"""Find the layers that can be quantized: products and convolutions with a constant weight.

Everything else stays float: softmax, normalization, elementwise operations, products of two
activations (attention), recurrent layers, bodies of loops and branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ir.dtype import DType
from ..ir.graph import Graph, Use, Value
from ..ir.op import Array
from ..ir.ops import Add, Constant, Convert, Convolution, Gemm, GroupConvolution, MatMul
from ..ir.scalar.builder import cast_array
from ..ir.types import TensorType

# The largest magnitudes of an activation minus its zero point, and of a weight.
_MAX_ACTIVATION, _MAX_WEIGHT = 255, 127
_INT32_SUM_LIMIT = 1 << 31
# Operations that move or choose elements: quantization before them equals quantization behind.
_MOVERS = frozenset(("MaxPool", "Reshape", "Squeeze", "Unsqueeze", "Transpose"))


@dataclass(frozen=True, eq=False)
class Layer:
    """A product with a constant weight.

    name: unique in the graph. data: the activation that it reads; `use` is where an activation is
    quantized, at that port or above operations that only move elements. weight: float32, as the
    operation reads it. outputs: the axes of the weight that the product keeps. depth: the axis of
    the weight along which a matrix product sums, None of a convolution.
    """

    name: str
    node: int
    kind: str
    data: Value
    use: Use
    weight: Array
    outputs: tuple[int, ...]
    depth: int | None

    @property
    def is_matrix_product(self) -> bool:
        """Whether this is a MatMul or Gemm of a two-dimensional weight."""
        return self.depth is not None

    @property
    def sum_length(self) -> int:
        """How many products one sum has."""
        output_sizes = [self.weight.shape[axis] for axis in self.outputs]
        return self.weight.size // max(1, int(np.prod(output_sizes)))

    @property
    def is_depthwise(self) -> bool:
        """Whether this is a convolution of groups of one channel each."""
        return self.kind == "GroupConvolution" and self.weight.shape[2] == 1


def find_layers(graph: Graph) -> list[Layer]:
    """The layers of a graph in execution order."""
    found: list[Layer] = []
    taken: set[str] = set()
    for node in graph.order():
        layer = _layer(graph, node, taken)
        if layer is not None:
            taken.add(layer.name)
            found.append(layer)
    return found


def _layer(graph: Graph, node: int, taken: set[str]) -> Layer | None:
    op = graph.op(node)
    if not isinstance(op, MatMul | Gemm | Convolution | GroupConvolution):
        return None
    if _dtype(graph, Value(node)) is not DType.f32:
        return None
    weight = constant_array(graph, graph.input(node, 1))
    if weight is None or not weight.size or not np.isfinite(weight).all():
        return None
    data, depth = graph.input(node, 0), None
    if constant_array(graph, data) is not None:
        return None
    if isinstance(op, MatMul | Gemm):
        if weight.ndim != 2 or op.transpose_a:
            return None
        if isinstance(op, Gemm) and op.activation != "identity":
            return None
        depth = 1 if op.transpose_b else 0
        outputs: tuple[int, ...] = (1 - depth,)
    else:
        outputs = (0, 1) if isinstance(op, GroupConvolution) else (0,)
    made = Layer(
        _name(graph, node, taken), node, op.kind, data, _use(graph, node), weight, outputs, depth
    )
    reach = made.sum_length * _MAX_ACTIVATION * _MAX_WEIGHT
    return made if reach < _INT32_SUM_LIMIT else None


def _dtype(graph: Graph, value: Value) -> DType | None:
    type_ = graph.type(value)
    return type_.dtype if isinstance(type_, TensorType) else None


def _name(graph: Graph, node: int, taken: set[str]) -> str:
    """The node's name, that of the bias behind it, or one made up."""
    name = graph.node(node).name
    reader = graph.only_reader(Value(node))
    if not name and reader is not None:
        name = graph.node(reader).name
    name = name or f"{graph.op(node).kind}_{node}"
    return name if name not in taken else f"{name}_{node}"


def _use(graph: Graph, node: int) -> Use:
    """The input port where the activation is quantized: above operations that move elements and
    have no other reader."""
    use = Use(node, 0)
    while True:
        value = graph.input(use.node, 0)
        above = graph.op(value.node)
        if above.kind not in _MOVERS or value.port or graph.use_count(value) != 1:
            return use
        source = graph.input(value.node, 0)
        if not graph.node(source.node).names[source.port]:  # files know it by no name
            return use
        use = Use(value.node, 0)


def find_bias(graph: Graph, layer: Layer) -> tuple[Use, Array] | None:
    """Where the constant is read that is added per output channel, and its data."""
    op, use = graph.op(layer.node), None
    if isinstance(op, Gemm):
        inputs = graph.inputs(layer.node)
        use = Use(layer.node, 2) if len(inputs) > 2 and inputs[2] is not None else None
    else:
        reader = graph.only_reader(Value(layer.node))
        if reader is not None and isinstance(graph.op(reader), Add):
            ports = [p for p in (0, 1) if graph.input(reader, p).node != layer.node]
            use = Use(reader, ports[0]) if ports else None
    found = None if use is None else constant_array(graph, graph.input(*use))
    channels = int(np.prod([layer.weight.shape[axis] for axis in layer.outputs]))
    if use is None or found is None or found.size != channels:
        return None
    return use, found


def find_last_layers(graph: Graph, layers: Sequence[Layer]) -> frozenset[str]:
    """Names of the layers whose products reach outputs of the graph through no other layer, unless
    all layers do: their errors are those of the outputs."""
    nodes = {layer.node: layer.name for layer in layers}
    found: set[str] = set()
    pending, seen = [graph.input(result, 0).node for result in graph.results], set[int]()
    while pending:
        node = pending.pop()
        if node in nodes:
            found.add(nodes[node])
        elif node not in seen:
            seen.add(node)
            pending += [value.node for value in graph.inputs(node) if value is not None]
    return frozenset(found) if len(found) < len(nodes) else frozenset()


def constant_array(graph: Graph, value: Value) -> Array | None:
    """The float32 data of a constant, also of one that is stored in a smaller float type."""
    op = graph.op(value.node)
    if isinstance(op, Convert):
        if op.destination_type is not DType.f32:
            return None
        op = graph.op(graph.input(value.node, 0).node)
    if not isinstance(op, Constant) or op.dtype not in (DType.f32, DType.f16, DType.bf16):
        return None
    return op.data if op.dtype is DType.f32 else cast_array(op.data, DType.f32)
