"""Which values are in memory in a narrower type than the graph says, or with gaps between their
rows, decided once for the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.ops import Concat, Interpolate
from ....ir.ops.nn.interpolate import Interpolate4
from ....ir.types import TensorType, Type
from ....plan.packing.panel_params import cell_depth, dot_factor_dtype, has_tiles
from ....plan.target import Target
from ...legality import is_elementwise, rounds_factors
from ...options import Options
from ...strided_view import are_equal
from ..build.scalar_programs import node_program
from .fusion import Fusion

# Attention of so many queries may multiply what it reads without rounding it.
_MAX_FEW_QUERIES = 8
# A cache line.
LINE_BITS = 512
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_ON_TILES = _PRODUCTS | {"MatMulInteger"}
_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
# Operations whose results are values of their first input, or the largest of them.
_MOVES = frozenset(
    "Identity Reshape Squeeze Unsqueeze Transpose Slice StridedSlice Split VariadicSplit Concat "
    "Tile Broadcast DepthToSpace SpaceToDepth ShuffleChannels Pad MaxPool".split()
)
# What can store its result in another type than it computes.
_WRITERS = (
    _CONVOLUTIONS
    | _MOVES
    | frozenset("MatMul Gemm LayerNorm RMSNorm MVN GroupNormalization".split())
    | frozenset("Attention Interpolate AvgPool AdaptiveAvgPool".split())
)
# What writes rows with any stride between them.
_ROW_WRITERS = _ON_TILES | frozenset("LayerNorm RMSNorm MVN Attention".split())
# Rows of two cache lines take 1.01 of the time with another one.
_MIN_ALIASING_LINES = 4
# Rows a multiple of a quarter of a way apart: a way of L1 is 4096 bytes.
_CROWDING_BITS = 8 * 1024
# What a sum of a residual stream consists of: the sum, and activations that cut it off.
_SUM = frozenset("input const cast add sub max min clip".split())


def rounded_values(
    graph: Graph,
    native: Mapping[int, bool],
    fusion: Fusion,
    options: Options,
    winograd_tiles: Mapping[int, int],
) -> frozenset[Value]:
    """f32 values that are stored as bf16 (numerics.md, Precision). Every reader is a product that
    rounds them anyway, or a movement or the largest of a window that only such products read, so
    that no bit of a result changes (but for few rows by compressed weights and attention of few
    queries, which round nothing themselves); or the sum behind a convolution, which is what a
    residual stream is made of. A layer hands the next one its factors in half the memory, and
    nothing is left to convert or to pack."""
    if options.precision != "bf16":
        return frozenset()
    summed = _sums(graph, fusion)
    found: set[Value] = set()

    def narrows(use: Use) -> bool:
        if not native.get(use.node, False):
            return False
        moved = _moves(graph, use) and found.issuperset(_read_values(graph, use.node))
        return moved or use in summed or _rounds(graph, use, winograd_tiles)

    # Readers first.
    for value in reversed(list(_values_written(graph, native, fusion, _WRITERS))):
        type_ = graph.type(value)
        f32 = isinstance(type_, TensorType) and type_.dtype is DType.f32
        if f32 and all(map(narrows, graph.uses(value))):
            found.add(value)
    return frozenset(found)


def _values_written(
    graph: Graph, native: Mapping[int, bool], fusion: Fusion, kinds: frozenset[str]
) -> Iterator[Value]:
    """Values that are read and that native operations of these kinds, or elementwise ones, write,
    in order."""
    for node in native:
        writer = fusion.anchor_of.get(node, node)
        writes = graph.op(writer).kind in kinds or is_elementwise(graph, writer)
        if native[node] and writes and node not in fusion.absorbed:
            yield from _read_values(graph, node)


def _read_values(graph: Graph, node: int) -> Iterator[Value]:
    return (v for v in graph.values(node) if graph.use_count(v))


def _moves(graph: Graph, use: Use) -> bool:
    """Whether the results of a node are values that come in at a port."""
    op = graph.op(use.node)
    if isinstance(op, Interpolate | Interpolate4):
        return use.port == 0 and op.mode.lower() == "nearest"
    return op.kind in _MOVES and (use.port == 0 or isinstance(op, Concat))


def spaced_values(
    graph: Graph,
    native: Mapping[int, bool],
    fusion: Fusion,
    target: Target,
    options: Options,
    rounded: frozenset[Value],
    channels_last: frozenset[Value],
) -> frozenset[Value]:
    """Values whose rows, or pixels of channels, share few sets of a cache. A line between them
    spreads them over more: left factors of products (docs/dev/tuning/amx-row-pitch.md), and f32
    images that vector units read (docs/dev/tuning/row-pitch.md)."""
    tiles = _has_bf16_tiles(target)
    vectors = not tiles and options.precision == "f32"

    def is_crowded(value: Value) -> bool:
        type_ = graph.type(value)
        if vectors and isinstance(type_, TensorType) and type_.dtype is DType.f32:
            return _crowds_l1(type_, 1 if value in channels_last else -1)
        return value not in channels_last and _is_even(type_, value in rounded, target)

    def reads(use: Use) -> bool:
        op = graph.op(use.node)
        left = use.port == 0 and op.kind in _ON_TILES and not getattr(op, "transpose_a", True)
        return left and native.get(use.node, False)

    factors = (
        value
        for value in _values_written(graph, native, fusion, _ROW_WRITERS)
        if value not in channels_last and all(map(reads, graph.uses(value)))
    )
    images = (value for value in channels_last if graph.use_count(value))
    return frozenset(filter(is_crowded, (*factors, *images)))


def _has_bf16_tiles(target: Target) -> bool:
    """Whether tiles of AMX multiply f32, as three numbers of bf16 each."""
    return has_tiles(target, DType.bf16, cell_depth(target, DType.bf16))


def _crowds_l1(type_: TensorType, axis: int) -> bool:
    """Whether rows along an axis begin in a quarter of the sets of L1, or in fewer."""
    if type_.shape is None or len(type_.shape) < 2:
        return False
    size = type_.shape[axis]
    return isinstance(size, int) and size > 0 and size * type_.dtype.bits % _CROWDING_BITS == 0


def _is_even(type_: Type, rounded: bool, target: Target) -> bool:
    """Whether rows of a value of this type are factors of tiles, and an even number of lines."""
    if not isinstance(type_, TensorType) or type_.shape is None or len(type_.shape) < 2:
        return False
    dtype, k = DType.bf16 if rounded else type_.dtype, type_.shape[-1]
    factors = dot_factor_dtype(dtype, dtype)
    if not isinstance(k, int) or not has_tiles(target, factors, cell_depth(target, factors)):
        return False
    lines, rest = divmod(k * dtype.bits, LINE_BITS)
    return rest == 0 and lines % 2 == 0 and lines >= _MIN_ALIASING_LINES


def _sums(graph: Graph, fusion: Fusion) -> frozenset[Use]:
    """What is added to a convolution's result, whatever function of that, as it is stored."""
    return frozenset(
        Use(node, port)
        for anchor, chain in fusion.epilogues.items()
        if graph.op(anchor).kind in _CONVOLUTIONS
        for node in chain
        for port in _added_ports(graph, node)
    )


def _added_ports(graph: Graph, node: int) -> Iterator[int]:
    """The ports of an elementwise node from which a value reaches the result by sums alone."""
    program = node_program(graph, node)
    ports = [port for port, value in enumerate(graph.inputs(node)) if value is not None]
    for operand, port in enumerate(ports):
        reached = set[int]()
        for index, instr in enumerate(program.instrs):
            if instr.op == "input":
                reads = instr.args == (operand,)
            else:
                reads = not reached.isdisjoint(instr.args)
            if reads and instr.op not in _SUM:
                break
            if reads:
                reached.add(index)
        else:
            yield port


def _rounds(graph: Graph, use: Use, winograd_tiles: Mapping[int, int]) -> bool:
    """Whether a node rounds what comes in at a port: as a left factor, as a convolution's data
    (Winograd's transform does not), or as queries, keys and values (a decoder's few queries, which
    meet the keys of all tokens before, are not)."""
    kind = graph.op(use.node).kind
    if kind == "Attention":
        queries, keys = (graph.shape(graph.input(use.node, port))[-2] for port in (0, 1))
        many = isinstance(queries, int) and queries > _MAX_FEW_QUERIES
        return use.port < 3 and (many or not isinstance(queries, int) and are_equal(queries, keys))
    if use.port != 0 or kind not in _PRODUCTS | _CONVOLUTIONS:
        return False
    return use.node not in winograd_tiles and rounds_factors(graph, use.node)
