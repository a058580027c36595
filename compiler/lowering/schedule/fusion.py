"""What is computed together with what, decided before steps are made.

- An *anchor* (matrix product, normalisation, reduction) takes the elementwise chain that alone
  reads its result into its epilogue; the step is where the chain ends, so that everything
  the chain reads is there.
- A softmax, normalisation or reduction takes elementwise producers that it alone reads into its
  prologue ("absorbed").
- Conversions that only matrix products read, also reshaped or transposed, are made as these pack
  their operands ("absorbed" too). So are those of keys and values that only attention reads, and
  their rows of codes are dequantized there.

Residual additions, casts and masks so never touch memory of their own. The graph is not changed:
this is the plan's business, not the model's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ....ir.dims import eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import Constant, DequantizeRows
from ....ir.types import TensorType
from ....plan.packing.panel_params import CONVERTIBLE
from ...legality import EPILOGUE_ANCHORS, MOVES, NATIVE, is_elementwise
from ..build.scalar_programs import node_program

# What converts an operand as it packs it.
PRODUCTS = frozenset({"MatMul", "Gemm"})
# Types of keys and values that attention converts as it copies a block of them.
ATTENTION_TYPES = frozenset({DType.f16, DType.bf16})
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


@dataclass(frozen=True)
class Fusion:
    """The decisions: chains by anchor, the anchor by the chain's last node, nodes in between, and
    nodes absorbed into a prologue."""

    epilogues: Mapping[int, tuple[int, ...]]
    anchor_of: Mapping[int, int]
    skipped: frozenset[int]
    absorbed: frozenset[int]


@dataclass
class _Chains:
    """The decisions so far, as in Fusion."""

    epilogues: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    anchor_of: dict[int, int] = field(default_factory=dict[int, int])
    skipped: set[int] = field(default_factory=set[int])
    absorbed: set[int] = field(default_factory=set[int])


def decide_fusion(graph: Graph, native: Mapping[int, bool], home: Mapping[int, int]) -> Fusion:
    """Choose fusions among nodes that run natively (`native` by node) in one region (`home`)."""
    fusion = _Chains()
    for node in graph.order():
        if not native.get(node, False):
            continue
        kind = graph.op(node).kind
        anchors = kind in EPILOGUE_ANCHORS or kind in NUMBER_ANCHORS
        if anchors and not is_size(graph, node):
            _take_chain(graph, node, native, home, fusion)
    for node in graph.order():
        kind = graph.op(node).kind
        if native.get(node, False) and kind in PROLOGUE_CONSUMERS:
            once = kind in NUMBER_ANCHORS
            _absorb(graph, graph.input(node, 0), native, home, fusion, depth=4, once=once)
        elif native.get(node, False) and kind == "Convert":
            _absorb_conversion(graph, node, native, home, fusion)
        elif native.get(node, False) and kind == "DequantizeRows":
            _absorb_rows(graph, node, native, home, fusion)
    skipped, absorbed = frozenset(fusion.skipped), frozenset(fusion.absorbed)
    return Fusion(fusion.epilogues, fusion.anchor_of, skipped, absorbed)


def _take_chain(
    graph: Graph, anchor: int, native: Mapping[int, bool], home: Mapping[int, int], fusion: _Chains
) -> None:
    value, chain = Value(anchor), list[int]()
    numbers_only = graph.op(anchor).kind in NUMBER_ANCHORS
    while (consumer := graph.only_reader(value)) is not None:
        if not native.get(consumer, False) or not is_elementwise(graph, consumer):
            break
        if home[consumer] != home[anchor]:
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
    home: Mapping[int, int],
    fusion: _Chains,
    depth: int,
    *,
    once: bool,
) -> None:
    node = value.node
    use = graph.only_use(value)
    if depth == 0 or not native.get(node, False) or use is None or home[node] != home[use.node]:
        return
    taken = node in fusion.anchor_of or node in fusion.skipped
    if taken or not is_elementwise(graph, node) or not (once or is_cheap(graph, node)):
        return
    if divides_integers(graph, node) or is_size(graph, node):
        return
    fusion.absorbed.add(node)
    for inner in graph.inputs(node):
        if inner is not None:
            _absorb(graph, inner, native, home, fusion, depth - 1, once=once)


def _absorb_conversion(
    graph: Graph, node: int, native: Mapping[int, bool], home: Mapping[int, int], fusion: _Chains
) -> None:
    """Leave a conversion to the products that read it, if nothing else does. Each of them packs
    its left operand in any case, or reads less where it would not have. A right operand is packed
    once per row of a batch: there one reader is enough."""
    source, uses = graph.type(graph.input(node, 0)), _readers(graph, node, native, home)
    if node in fusion.anchor_of or node in fusion.skipped or not uses or is_size(graph, node):
        return
    if not isinstance(source, TensorType) or source.dtype not in CONVERTIBLE:
        return
    made = graph.type(Value(node))
    if not isinstance(made, TensorType) or not made.dtype.is_float:
        return
    if all(graph.op(use.node).kind == "Attention" and use.port in (1, 2) for use in uses):
        here = all(native.get(u.node, False) and home[u.node] == home[node] for u in uses)
        if here and source.dtype in ATTENTION_TYPES and made.dtype is DType.f32:
            fusion.absorbed.add(node)
        return
    if len({use.port for use in uses}) > 1 or (uses[0].port == 1 and len(uses) > 1):
        return
    readers = [use.node for use in uses]
    products = all(native.get(r, False) and graph.op(r).kind in PRODUCTS for r in readers)
    if products and uses[0].port < 2 and all(home[r] == home[node] for r in readers):
        fusion.absorbed.add(node)


def _absorb_rows(
    graph: Graph, node: int, native: Mapping[int, bool], home: Mapping[int, int], fusion: _Chains
) -> None:
    """Leave rows of codes to attention, if nothing else reads them, and it reads both of its
    operands as codes of the same bits."""
    for use in graph.uses(Value(node)):
        if not native.get(use.node, False) or home[use.node] != home[node]:
            return
        if graph.op(use.node).kind != "Attention" or use.port not in (1, 2):
            return
        if row_bits(graph, use.node) == 0:
            return
    fusion.absorbed.add(node)


def row_bits(graph: Graph, attention: int) -> int:
    """The bits of the codes that make both keys and values of an attention, or 0."""
    found = [graph.op(graph.input(attention, port).node) for port in (1, 2)]
    bits = {op.bits if isinstance(op, DequantizeRows) else 0 for op in found}
    return bits.pop() if len(bits) == 1 else 0


def _readers(
    graph: Graph, node: int, native: Mapping[int, bool], home: Mapping[int, int]
) -> list[Use]:
    """What reads a value, as it is or moved in the same region."""
    found, pending = list[Use](), [*graph.uses(Value(node))]
    while pending:
        use = pending.pop()
        moves = graph.op(use.node).kind in MOVES and use.port == 0
        if moves and native.get(use.node, False) and home[use.node] == home[node]:
            pending += graph.uses(Value(use.node))
        else:
            found.append(use)
    return found


def conversion_of(graph: Graph, fusion: Fusion, value: Value) -> int | None:
    """The conversion that products make where they read `value`, which may have been moved."""
    node = value.node
    while graph.op(node).kind in MOVES:
        node = graph.input(node, 0).node
    return node if node in fusion.absorbed else None


def is_size(graph: Graph, node: int) -> bool:
    """Whether a node's value is sizes, which are written as they are known: no kernel with
    more elements, nor one with computed inputs."""
    return graph.known_value(Value(node)) is not None


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
