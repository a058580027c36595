"""An activation that alone reads a product becomes the product's own. Behind a reshape it moves in
front of it first: next to a product, or a convolution whose epilogue takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic

from ....ir import ops
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Op
from ....ir.ops import ACTIVATIONS
from ...legality import EPILOGUE_ANCHORS, RESHAPES, is_elementwise
from ...rewrite.engine import OpT, Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import constant_scalar, dtype_of, same_shape
from .matmul_add import as_gemm

# The name of a Gemm's activation and its parameters.
Named = tuple[str, tuple[float, ...]]

# The longest chain of elementwise operations that is followed back to its product.
_MAX_CHAIN = 8


def _name_activation(name: str, *parameters: float) -> Callable[[Graph, int, Op], Named]:
    return lambda graph, node, op: (name, parameters)


def _with_numbers(
    name: str, absent: tuple[float, ...] = ()
) -> Callable[[Graph, int, Op], Named | None]:
    """Parameters are the inputs after the first; `absent` where there are none."""

    def read(graph: Graph, node: int, op: Op) -> Named | None:
        given = graph.inputs(node)[1:]
        if not given:
            return name, absent
        found = [constant_scalar(graph, v) for v in given]
        known = [float(v) for v in found if v is not None]
        return (name, tuple(known)) if len(known) == len(found) else None

    return read


def _clamp(graph: Graph, node: int, op: ops.Clamp) -> Named:
    return "clip", (op.min, op.max)


def _elu(graph: Graph, node: int, op: ops.Elu) -> Named:
    return "elu", (op.alpha,)


def _gelu(graph: Graph, node: int, op: ops.Gelu) -> Named:
    return ("gelu_tanh" if op.approximation_mode.upper() == "TANH" else "gelu"), ()


def _activation(graph: Graph, node: int, op: ops.Activation) -> Named:
    return op.function, op.parameters


@dataclass(frozen=True)
class _Activation(Generic[OpT]):
    """How an operation is called, by itself and its inputs."""

    op: type[OpT]
    read: Callable[[Graph, int, OpT], Named | None]


# One line per operation: how it is called in a Gemm (the same formula,
# ir/ops/math/activation_table.py).
_ENTRIES = (
    _Activation(ops.Relu, _name_activation("relu")),
    _Activation(ops.PRelu, _with_numbers("leaky_relu")),
    _Activation(ops.Clamp, _clamp),
    _Activation(ops.Elu, _elu),
    _Activation(ops.Selu, _with_numbers("scaled_elu")),
    _Activation(ops.Sigmoid, _name_activation("sigmoid")),
    _Activation(ops.HardSigmoid, _with_numbers("hard_sigmoid")),
    _Activation(ops.HSigmoid, _name_activation("hard_sigmoid", 1 / 6, 0.5)),
    _Activation(ops.Tanh, _name_activation("tanh")),
    _Activation(ops.SoftPlus, _name_activation("softplus")),
    _Activation(ops.SoftSign, _name_activation("softsign")),
    _Activation(ops.Mish, _name_activation("mish")),
    _Activation(ops.HSwish, _name_activation("hard_swish", 1 / 6, 0.5)),
    _Activation(ops.Swish, _with_numbers("swish", (1.0,))),
    _Activation(ops.Gelu2, _name_activation("gelu")),
    _Activation(ops.Gelu, _gelu),
    _Activation(ops.Activation, _activation),
)
NAMES: dict[type[Op], Callable[[Graph, int, Any], Named | None]] = {e.op: e.read for e in _ENTRIES}


def move_before_reshape(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """f(Reshape(x)) = Reshape(f(x)), where an epilogue may compute f: x is a product's result, or a
    chain of elementwise operations on it."""
    moved, *others = graph.inputs(node)
    if moved is None or graph.op(moved.node).kind not in RESHAPES:
        return None
    source, *sizes = graph.inputs(moved.node)
    if source is None or not _ends_at_anchor(graph, source):
        return None
    if any(v is not None and constant_scalar(graph, v) is None for v in others):
        return MatchFailure("a parameter of the activation is not a constant number")
    if not has_one_use(graph, moved) or not same_shape(graph, moved, Value(node)):
        return MatchFailure("the reshaped value has other readers")
    patch = Patch()
    computed = patch.add(graph.op(node), source, *others)
    return patch.replace(Value(node), patch.add(graph.op(moved.node), computed, *sizes))


def _ends_at_anchor(graph: Graph, value: Value) -> bool:
    """Whether a value that one operation reads is computed by an epilogue."""
    for _ in range(_MAX_CHAIN):
        if not has_one_use(graph, value):
            return False
        if graph.op(value.node).kind in EPILOGUE_ANCHORS:
            return True
        if not is_elementwise(graph, value.node):
            return False
        inputs = [v for v in graph.inputs(value.node) if v is not None]
        same = [v for v in inputs if same_shape(graph, v, value)]
        if len(same) != 1:
            return False
        (value,) = same
    return False


def take_activation(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """An activation operation on a product."""
    named = NAMES.get(type(graph.op(node)))
    if named is None:
        return None
    source = graph.input(node, 0)
    gemm = as_gemm(graph, source)
    if gemm is None or isinstance(gemm, MatchFailure):
        return gemm
    if gemm.activation != "identity":
        return MatchFailure("the product has an activation already")
    found = named(graph, node, graph.op(node))
    if found is None:
        return MatchFailure("a parameter of the activation is not a constant number")
    name, parameters = found
    dtype = dtype_of(graph, source)
    if dtype.is_int and not ACTIVATIONS[name].on_integers:
        return MatchFailure("the activation of integers is rounded")
    if not same_shape(graph, source, Value(node)):
        return MatchFailure("a parameter has a higher rank than the product")
    patch = Patch()
    fused = replace(gemm, activation=name, activation_params=parameters)
    return patch.replace(Value(node), patch.add(fused, *graph.inputs(source.node)))


_KINDS = tuple(dict.fromkeys(cls.kind for cls in NAMES))
_RULES = (
    Rule("move_before_reshape", _KINDS, move_before_reshape),
    Rule("take_activation", _KINDS, take_activation),
)

fuse_activations = Pass("fuse_activations", lambda options: _RULES)
