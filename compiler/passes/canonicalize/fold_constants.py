"""Replace what is known at compile time by a Constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.errors import Error
from ....ir.graph import Graph, Use, Value
from ....ir.limits.memory_budget import active_budget
from ....ir.op import Array, Effects
from ....ir.ops import Constant
from ....ir.types import TensorType, coerce_to_dtype
from ...compressed_weights import is_read_compressed
from ...legality import CONVOLUTIONS, RECURRENT, is_elementwise
from ...options import Options
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..layout.cancel_transposes import order_of
from ..layout.fold_transposes import swaps_last_two
from .folding_budget import UNKNOWN_WORK, folding_work, most_elements, reads_text

# A conversion that widens a large weight (fp16-compressed models) is left to the weight's reader:
# it converts while packing, and the model stays as small as it was stored. A transpose of a large
# weight becomes a product's flag. Values below this are folded whatever they are.
LARGE_WEIGHT_BYTES = 64 * 2**10
_STRUCTURAL = frozenset({"Constant", "Parameter", "Result", "TypedParameter"})
_PRODUCTS = frozenset({"MatMul", "Gemm"})
# What reads bytes of dequantised weights, what may be in between, and how often.
_READERS = _PRODUCTS | {"Convolution", "GroupConvolution", "Gather"}
_ON_THE_WAY = frozenset({"Convert", "Reshape", "Transpose", "Unsqueeze", "Squeeze"})
_MAX_UNUSED_DEPTH = 4
# Uses of a constant that are looked at.
_MAX_USES = 64
# What puts gates into another order, and how many of these one after the other.
_GATE_MOVES = _ON_THE_WAY | {"Split", "VariadicSplit", "Slice", "StridedSlice", "Gather", "Concat"}
_MAX_GATE_MOVES = 8
# How much evaluation may take (folding_budget.py says in what unit): so much for each byte by which
# the constants may grow, a second in all, and for each byte of those that are there, so that large
# models are folded too.
_WORK_PER_GROWTH_BYTE = 4
_WORK_PER_CONSTANT_BYTE = 8


def make_rules(options: Options, *, keep_bytes: bool = False) -> Sequence[Rule]:
    """The rule, with the memory it may still spend. `keep_bytes`: quantised weights stay as they
    are, because a product may yet multiply their bytes."""
    left = [min(options.fold_limit, active_budget().limit)]
    work_left: list[int] = []

    def fold(graph: Graph, node: int) -> Patch | MatchFailure | None:
        record = graph.node(node)
        op = record.op
        if op.kind in _STRUCTURAL or op.effects is not Effects.NONE or op.bodies():
            return None
        known = [k for k in record.known if k is not None and k.dtype != object]
        if known and len(known) == op.output_count():
            return _constants(graph, node, known)
        inputs = [v for v in graph.inputs(node) if v is not None]
        if op.kind in _ON_THE_WAY and (patch := _move_conversion(graph, node)) is not None:
            return patch
        if not inputs or not all(isinstance(graph.op(v.node), Constant) for v in inputs):
            return None
        if keep_bytes and _is_weight(graph, node, _MAX_UNUSED_DEPTH):
            return MatchFailure("a product may read the bytes")
        size = sum(_most_bytes(t) for t in record.types)
        failure = _kept_by_reader(graph, node, size)
        if failure is not None:
            return failure
        # Convolutions pack their filters as f32 in any case, so that this costs no more memory.
        widens = op.kind == "Convert" and _is_half_filter(graph, node)
        growth = 0 if widens else max(0, size - _freed_bytes(graph, node, inputs))
        if growth > left[0]:
            amount = "an unknown number of" if size == UNKNOWN_WORK else str(growth)
            return MatchFailure(f"folding adds {amount} bytes where {left[0]} are left")
        if reads_text(graph, node):
            return MatchFailure("how long a fold of strings takes is not known")
        if not work_left:
            work_left.append(_allowed_work(graph, options))
        work = folding_work(graph, node)
        if work > work_left[0]:
            return MatchFailure(f"folding takes {work} units of work where {work_left[0]} are left")
        work_left[0] -= work
        try:
            arrays = op.evaluate(*op.slots([_constant_data(graph, v) for v in graph.inputs(node)]))
        except Error as error:
            return MatchFailure(f"evaluation fails: {error.what}")
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            return MatchFailure(f"evaluation fails: {str(error)[:200]}")
        left[0] -= growth
        return _constants(graph, node, list(arrays))

    return (Rule("fold", (), fold),)


def _move_conversion(graph: Graph, node: int) -> Patch | None:
    """Reshape(Convert(weight)) = Convert(Reshape(weight)): products read weights that are converted
    last, and reshapes of constants are folded."""
    op, inputs = graph.op(node), graph.inputs(node)
    converted = producer(graph, inputs[0], "Convert")
    if converted is None or op.kind == "Convert" or not has_one_use(graph, Value(converted)):
        return None
    constants = [graph.input(converted, 0), *(v for v in inputs[1:] if v is not None)]
    if not all(isinstance(graph.op(v.node), Constant) for v in constants):
        return None
    order = order_of(graph, node) if op.kind == "Transpose" else None
    if order is not None and swaps_last_two(order):
        return None  # a flag of the product
    patch = Patch()
    moved = patch.add(op, constants[0], *inputs[1:])
    return patch.replace(Value(node), patch.add(graph.op(converted), moved))


_DEQUANTIZING = ("Dequantize", "AffineDequantize")


def _is_weight(graph: Graph, node: int, depth: int) -> bool:
    """Whether a dequantised constant goes to a product, moved or converted on its way."""
    kind = graph.op(node).kind
    if depth == 0 or not (
        kind in _ON_THE_WAY if depth < _MAX_UNUSED_DEPTH else kind in _DEQUANTIZING
    ):
        return False
    readers = graph.consumers(node)
    return any(graph.op(r).kind in _READERS or _is_weight(graph, r, depth - 1) for r in readers)


def _is_recurrent_weight(graph: Graph, node: int, depth: int) -> bool:
    """Whether a constant goes to a recurrent layer, its gates put into another order on the way."""
    for reader in graph.consumers(node):
        kind = graph.op(reader).kind
        if kind in RECURRENT:
            return True
        if depth and kind in _GATE_MOVES and _is_recurrent_weight(graph, reader, depth - 1):
            return True
    return False


def _is_half_filter(graph: Graph, node: int) -> bool:
    """Whether a conversion widens constants of 16 bits that convolutions read as filters, as
    OpenVINO saves models."""
    source = graph.type(graph.input(node, 0))
    if not isinstance(source, TensorType) or source.dtype not in (DType.f16, DType.bf16):
        return False
    return any(graph.op(u.node).kind in CONVOLUTIONS for u in _uses_behind_moves(graph, node))


def _uses_behind_moves(graph: Graph, node: int) -> list[Use]:
    """What reads a value, as it is or moved; of very many uses some."""
    found: list[Use] = []
    pending = [node]
    while pending and len(found) < _MAX_USES:
        for use in graph.uses(Value(pending.pop())):
            if graph.op(use.node).kind in _ON_THE_WAY:
                pending.append(use.node)
            else:
                found.append(use)
    return found


def _constant_data(graph: Graph, value: Value | None) -> Array | None:
    op = None if value is None else graph.op(value.node)
    return op.data if isinstance(op, Constant) else None


def _kept_by_reader(graph: Graph, node: int, size: int) -> MatchFailure | None:
    """Why a large constant is better left to its readers, if it is."""
    op = graph.op(node)
    if size <= LARGE_WEIGHT_BYTES:
        return None
    if op.kind in (*_DEQUANTIZING, "Convert") and is_read_compressed(graph, node):
        return MatchFailure("a compressed weight is expanded by the products that read it")
    grows = op.kind == "Convert" and size > _freed_bytes(graph, node, [graph.input(node, 0)])
    if grows and (
        _is_recurrent_weight(graph, node, _MAX_GATE_MOVES) or _is_half_filter(graph, node)
    ):
        return None  # these kernels pack constants of their own type only
    if grows and _feeds_constants(graph, node):
        return None
    if grows and not _is_scaled(graph, node):
        return MatchFailure("a large weight is converted by its reader")
    order = order_of(graph, node) if op.kind == "Transpose" else None
    if order is not None and swaps_last_two(order):
        readers = graph.consumers(node)
        if readers and all(graph.op(r).kind in _PRODUCTS for r in readers):
            return MatchFailure("a large weight is transposed by the product that reads it")
    return None


def _is_scaled(graph: Graph, node: int) -> bool:
    """Whether only arithmetic with other constants reads a conversion: codes of a type that no
    product expands, on the way to their scale. Left alone it would run in every call."""
    readers = graph.consumers(node)
    others = {v.node for r in readers for v in graph.inputs(r) if v is not None} - {node}
    constant = all(isinstance(graph.op(n), Constant) for n in others)
    return bool(others) and constant and all(is_elementwise(graph, r) for r in readers)


def _feeds_constants(graph: Graph, node: int) -> bool:
    """Whether a conversion is read with other constants only, so that folding goes on behind it."""
    uses = _uses_behind_moves(graph, node)
    others = [
        v
        for use in uses
        for port, v in enumerate(graph.inputs(use.node))
        if v is not None and port != use.port
    ]
    folded = all(graph.op(use.node).kind not in _STRUCTURAL for use in uses)
    return bool(uses) and folded and all(_is_moved_constant(graph, v) for v in others)


def _is_moved_constant(graph: Graph, value: Value) -> bool:
    """Whether a value is a constant, converted and moved or not."""
    while graph.op(value.node).kind in _ON_THE_WAY:
        value = graph.input(value.node, 0)
    return isinstance(graph.op(value.node), Constant)


def _allowed_work(graph: Graph, options: Options) -> int:
    ops = (graph.op(n) for n in graph.ids())
    stored = sum(op.nbytes for op in ops if isinstance(op, Constant))
    return _WORK_PER_GROWTH_BYTE * options.fold_limit + _WORK_PER_CONSTANT_BYTE * stored


def _most_bytes(type_: object) -> int:
    """The most bytes that a value of this type takes."""
    count = most_elements(type_)
    if count == UNKNOWN_WORK or not isinstance(type_, TensorType) or not type_.dtype.bits:
        return UNKNOWN_WORK
    return type_.dtype.nbytes(count)


def _freed_bytes(graph: Graph, node: int, inputs: Sequence[Value]) -> int:
    """Bytes of the constants that have no uses once `node` is folded."""
    freed = 0
    for value in dict.fromkeys(inputs):
        op = graph.op(value.node)
        if isinstance(op, Constant) and graph.consumers(value.node) == [node]:
            freed += op.nbytes
    return freed


def _constants(graph: Graph, node: int, arrays: Sequence[Array]) -> Patch:
    patch = Patch()
    for port, array in enumerate(arrays):
        type_ = graph.type(Value(node, port))
        assert isinstance(type_, TensorType)
        # A broadcast view would keep little memory but break those who read it as a block.
        block = np.ascontiguousarray(array).reshape(np.shape(array))
        data = coerce_to_dtype(block, type_.dtype, saturates=graph.op(node).saturates)
        name = graph.node(node).name
        patch.replace(Value(node, port), patch.add(Constant.of(data, type_.dtype), name=name))
    return patch


fold_constants = Pass("fold_constants", make_rules)
fold_constants_but_quantized = Pass(
    "fold_constants_but_quantized", lambda options: make_rules(options, keep_bytes=True)
)
