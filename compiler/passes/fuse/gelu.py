"""Recognise gated activations written in primitive operations: Gelu (with erf, tanh or sigmoid),
Swish, Mish.

Exporters associate x * 0.5 * (1 + erf(x / sqrt 2)) in every possible way. So shapes of trees are
not compared: starting at the gate g (the Erf, Tanh or Sigmoid) and climbing towards the root, each
value is expanded into a polynomial in x and g, which for Gelu must be 0.5 x + 0.5 x g.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Gelu, Mish, Swish
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.polynomial import Poly, expand
from ..match.values import SMOOTH, dtype_of, same_shape

# How many operations at most are between the gate and the root.
_MAX_GATE_DEPTH = 6
_CLIMBED = frozenset({"Multiply", "Divide", "Add", "Subtract", "Negative"})
_CUBIC_COEFFICIENT = 0.044715
_SQRT_2_PI = math.sqrt(2 / math.pi)

# What a gate is part of: given x and the argument's polynomial, the replacement or a refusal.
Build = Callable[[Graph, Patch, Value], Value]
# Constants were rounded to the model's type, perhaps more than once on their way.
_TOLERANCE = {DType.f64: 2.0**-49, DType.f32: 2.0**-21, DType.f16: 2.0**-8, DType.bf16: 2.0**-5}


def is_near(found: float, wanted: float, dtype: DType) -> bool:
    """Whether a constant is the wanted one as rounded to the type."""
    return abs(found - wanted) <= _TOLERANCE.get(dtype, 0.0) * abs(wanted)


def _gate(
    graph: Graph, node: int, read: Callable[..., Build | MatchFailure | None]
) -> Patch | MatchFailure | None:
    """Climb from the gate to the first root for which `read(g, argument, root polynomial, dtype)`
    finds a function."""
    gate = Value(node)
    dtype = dtype_of(graph, gate)
    if dtype not in SMOOTH:
        return None
    value, refused = gate, None
    for _ in range(_MAX_GATE_DEPTH):
        use = graph.only_use(value)
        if use is None:
            return refused or (
                MatchFailure("the gate has other readers") if value != gate else None
            )
        root = use.node
        if graph.op(root).kind not in _CLIMBED:
            return refused
        value = Value(root)
        for through in (False, True):
            root_poly = expand(graph, value, gate, through=through)
            argument = expand(graph, graph.input(node, 0), gate, through=through)
            if root_poly is None or argument is None:
                continue
            found = read(graph, gate, argument, root_poly, dtype)
            if isinstance(found, MatchFailure):
                refused = found
            elif found is not None:
                x = _only_atom(argument)
                assert x is not None
                if not same_shape(graph, x, value) or dtype_of(graph, x) is not dtype:
                    return MatchFailure("the shape changes on the way")
                patch = Patch()
                return patch.replace(value, found(graph, patch, x))
    return refused


def _only_atom(poly: Poly) -> Value | None:
    """The one value that a polynomial is of."""
    atoms = {atom for monomial in poly for atom in monomial}
    return next(iter(atoms)) if len(atoms) == 1 else None


def _split_gate(
    argument: Poly, root_poly: Poly, gate: Value
) -> tuple[Value, dict[int, float], Poly] | None:
    """x, the argument's coefficients by degree, and the root's polynomial, with the sign of an odd
    gate's argument moved into the root."""
    x = _only_atom(argument)
    if x is None or x == gate:
        return None
    by_degree = {len(monomial): c for monomial, c in argument.items()}
    if by_degree.get(1, 0.0) < 0:
        by_degree = {d: -c for d, c in by_degree.items()}
        root_poly = {m: -c if m.count(gate) % 2 else c for m, c in root_poly.items()}
    return x, by_degree, root_poly


_NOT_GELU = MatchFailure("the constants are not Gelu's")


def _read_gelu(
    graph: Graph, gate: Value, argument: Poly, root_poly: Poly, dtype: DType
) -> Build | MatchFailure | None:
    """0.5 x + 0.5 x g with g = erf(x / sqrt 2) or tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    found = _split_gate(argument, root_poly, gate)
    if found is None:
        return None
    x, by_degree, root_poly = found
    if set(root_poly) != {(x,), tuple(sorted((x, gate)))}:
        return None
    erf = graph.op(gate.node).kind == "Erf"
    if set(by_degree) != ({1} if erf else {1, 3}):
        return None
    right = all(is_near(c, 0.5, dtype) for c in root_poly.values())
    if erf:
        right = right and is_near(by_degree[1], math.sqrt(0.5), dtype)
    else:
        right = right and is_near(by_degree[1], _SQRT_2_PI, dtype)
        right = right and is_near(by_degree[3], _SQRT_2_PI * _CUBIC_COEFFICIENT, dtype)
    mode = "ERF" if erf else "TANH"
    return (lambda graph, patch, x: patch.add(Gelu(mode), x)) if right else _NOT_GELU


def _read_swish(
    graph: Graph, gate: Value, argument: Poly, root_poly: Poly, dtype: DType
) -> Build | MatchFailure | None:
    """x g with g = sigmoid(beta x), or Gelu's tanh form written with a sigmoid."""
    x = _only_atom(argument)
    if x is None or set(root_poly) != {tuple(sorted((x, gate)))}:
        return None
    by_degree = {len(monomial): c for monomial, c in argument.items()}
    if any(c != 1 for c in root_poly.values()):
        return MatchFailure("the product with the gate is scaled")
    if set(by_degree) == {1}:
        beta = by_degree[1]
        if beta == 1:
            return lambda graph, patch, x: patch.add(Swish(), x, None)
        return lambda graph, patch, x: patch.add(Swish(), x, patch.constant(beta, dtype))
    if set(by_degree) != {1, 3}:
        return None
    right = is_near(by_degree[1], 2 * _SQRT_2_PI, dtype)
    right = right and is_near(by_degree[3], 2 * _SQRT_2_PI * _CUBIC_COEFFICIENT, dtype)
    return (lambda graph, patch, x: patch.add(Gelu("TANH"), x)) if right else _NOT_GELU


def fuse_gelu_gate(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Gelu from its Erf or Tanh."""
    return _gate(graph, node, _read_gelu)


def fuse_swish_gate(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Swish (and Gelu in disguise) from its Sigmoid."""
    return _gate(graph, node, _read_swish)


def fuse_mish(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """x * tanh(softplus(x))."""
    inner = producer(graph, graph.input(node, 0), "SoftPlus")
    gate = Value(node)
    if inner is None or dtype_of(graph, gate) not in SMOOTH:
        return None
    x = graph.input(inner, 0)
    use = graph.only_use(gate)
    if use is None:
        return MatchFailure("the gate has other readers")
    root = use.node
    if graph.op(root).kind != "Multiply" or set(graph.inputs(root)) != {x, gate}:
        return None
    patch = Patch()
    return patch.replace(Value(root), patch.add(Mish(), x))


_RULES = (
    Rule("fuse_gelu_gate", ("Erf", "Tanh"), fuse_gelu_gate),
    Rule("fuse_swish_gate", ("Sigmoid",), fuse_swish_gate),
    Rule("fuse_mish", ("Tanh",), fuse_mish),
)

fuse_gelu = Pass("fuse_gelu", lambda options: _RULES)
