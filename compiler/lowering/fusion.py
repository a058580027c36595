"""What is computed together with what, decided before steps are made.

- An *anchor* (matrix product, normalisation, reduction) takes the elementwise chain that alone
  reads its result into its epilogue; the step stands where the chain ends, so that everything
  the chain reads is there.
- A softmax, normalisation or reduction takes elementwise producers that it alone reads into its
  prologue ("absorbed").

Residual additions, casts and masks so never touch memory of their own. The graph is not changed:
this is the plan's business, not the model's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.dim import eq
from ...ir.graph import Graph, Value
from ...ir.ops import Constant
from ...ir.patch import sole_use
from ...ir.types import TensorType
from .programs import NATIVE, is_elementwise, node_program

# Anchors by what their epilogue may read besides the result: anything, or only numbers.
EPILOGUE_ANCHORS = frozenset(
    "MatMul Gemm MatMulInteger LayerNorm RMSNorm MVN Convolution GroupConvolution ConvInteger "
    "GroupConvInteger ConvolutionBackpropData GroupConvolutionBackpropData "
    "GroupNormalization".split()
)
NUMBER_ANCHORS = frozenset(f"Reduce{k}" for k in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2"))
# Consumers with a prologue, and the port that it feeds.
PROLOGUE_CONSUMERS = frozenset(
    {"Softmax", "LogSoftmax", "LayerNorm", "RMSNorm", "MVN", *NUMBER_ANCHORS}
)

# A softmax or normalisation computes its prologue in each of its two or three sweeps over a row:
# cheap instructions only. A reduction sweeps once and takes any.
CHEAP = frozenset(
    "input const cast neg abs sign recip ceil floor trunc round_even round_away not isnan isinf "
    "add sub mul div max min eq ne lt le gt ge and or xor bitand bitor bitxor bitnot shl shr "
    "select fma clip".split()
)


@dataclass
class Fusion:
    """The decisions: chains by anchor, the anchor by the chain's last node, nodes in between, and
    nodes absorbed into a prologue."""

    epilogues: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    anchor_of: dict[int, int] = field(default_factory=dict[int, int])
    skipped: set[int] = field(default_factory=set[int])
    absorbed: set[int] = field(default_factory=set[int])


def decide_fusion(graph: Graph, native: Mapping[int, bool]) -> Fusion:
    """Choose fusions among nodes that run natively (`native` by node)."""
    fusion = Fusion()
    for node in graph.order():
        if not native.get(node, False):
            continue
        kind = graph.op(node).kind
        if kind in EPILOGUE_ANCHORS or kind in NUMBER_ANCHORS:
            _take_chain(graph, node, native, fusion)
    for node in graph.order():
        kind = graph.op(node).kind
        if native.get(node, False) and kind in PROLOGUE_CONSUMERS:
            once = kind in NUMBER_ANCHORS
            _absorb(graph, graph.input(node, 0), native, fusion, depth=4, once=once)
    return fusion


def _take_chain(graph: Graph, anchor: int, native: Mapping[int, bool], fusion: Fusion) -> None:
    value, chain = Value(anchor), list[int]()
    numbers_only = graph.op(anchor).kind in NUMBER_ANCHORS
    while sole_use(graph, value):
        consumer = graph.uses(value)[0].node
        if not native.get(consumer, False) or not is_elementwise(graph, consumer):
            break
        if consumer in fusion.anchor_of or consumer in fusion.skipped:
            break
        if divides_integers(graph, consumer):
            break
        if not same_shape(graph, value, Value(consumer)):
            break
        others = [v for v in graph.inputs(consumer) if v is not None and v != value]
        if numbers_only and not all(is_number(graph, v) for v in others):
            break
        chain.append(consumer)
        value = Value(consumer)
    if chain:
        fusion.epilogues[anchor] = tuple(chain)
        fusion.anchor_of[chain[-1]] = anchor
        fusion.skipped.update((anchor, *chain[:-1]))


def _absorb(
    graph: Graph,
    value: Value,
    native: Mapping[int, bool],
    fusion: Fusion,
    depth: int,
    *,
    once: bool,
) -> None:
    node = value.node
    if depth == 0 or not native.get(node, False) or not sole_use(graph, value):
        return
    taken = node in fusion.anchor_of or node in fusion.skipped
    if taken or not is_elementwise(graph, node) or not (once or is_cheap(graph, node)):
        return
    if divides_integers(graph, node):
        return
    fusion.absorbed.add(node)
    for inner in graph.inputs(node):
        if inner is not None:
            _absorb(graph, inner, native, fusion, depth - 1, once=once)


def divides_integers(graph: Graph, node: int) -> bool:
    """Whether a node can fail on an element (an integer division by zero): what is fused to a row
    kernel can't say which element it was."""
    return any(
        i.op in ("div", "mod", "floormod") and i.dtype.is_int
        for i in node_program(graph, node).instrs
    )


def is_cheap(graph: Graph, node: int) -> bool:
    """Whether an elementwise node is as well computed again as stored and loaded."""
    return all(i.op in CHEAP for i in node_program(graph, node).instrs)


def is_number(graph: Graph, value: Value) -> bool:
    """Whether a value is a constant of one element."""
    op = graph.op(value.node)
    return isinstance(op, Constant) and op.data.size == 1 and op.dtype in NATIVE


def same_shape(graph: Graph, a: Value, b: Value) -> bool:
    """Whether two values have equal shapes for certain."""
    left, right = graph.type(a), graph.type(b)
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return False
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return False
    return all(eq(x, y) is True for x, y in zip(left.shape, right.shape, strict=True))
