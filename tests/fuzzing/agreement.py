"""What has to agree for any graph: its meaning before and after the passes, in native code and in
Python, through XML, in an artefact, for any thread count, with fixed and with symbolic sizes.

Two ways of computing a graph differ in their last bits, and an operation with a step (Floor,
ArgMax, Equal) makes a large difference of a small one. So the oracle is run again with noise of
some units in the last place at every inexact operation: where that changes the answer, the answer
says nothing, and elsewhere the change says how much a difference may be.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import irc
import ml_dtypes
import numpy as np
from irc.compiler.export.xml import to_xml_text
from irc.compiler.frontends.xml.reader import read_xml
from irc.compiler.model import Model
from irc.compiler.options import Options
from irc.compiler.pipeline import optimise
from irc.ir.dim import Expr, bounds, evaluate
from irc.ir.dtype import DType
from irc.ir.errors import Error, ShapeError, UnsupportedOperationError, VerificationError
from irc.ir.graph import Graph, Value
from irc.ir.infer import infer_graph
from irc.ir.interpret import interpret
from irc.ir.op import Effects
from irc.ir.ops.activations import SLOPE_ON_CHANNELS
from irc.ir.require import requirements
from irc.ir.types import TensorType

from .refusals import may_pass

Array = np.ndarray[Any, Any]
# Room for an arena or a tensor of a fuzzed graph.
MEMORY = 1 << 28
NOISY_RUNS = 4
# Units in the last place by which kernels and NumPy may differ after one operation.
_ULPS = 16
# Only moves or compares: exact for every element.
EXACT = frozenset(
    "Parameter TypedParameter Constant Result Reshape Squeeze Unsqueeze Transpose Concat Split "
    "VariadicSplit Slice StridedSlice Gather GatherElements GatherND ScatterElementsUpdate "
    "ScatterNDUpdate ScatterUpdate Pad Reverse ReverseSequence Roll DepthToSpace SpaceToDepth "
    "BatchToSpace SpaceToBatch ShuffleChannels Broadcast Tile TopK Identity Abs Negative Relu "
    "Maximum Minimum Clamp Select ReduceMax ReduceMin MaxPool OneHot BitCast Floor Ceiling "
    "Sign Eye Range Unique".split()
)
# Steps even without a name of it: whole answers of them depend on ties, or on which NaN it is.
_SKIPPED = frozenset({"NonMaxSuppression", "FakeConvert", "BitCast"})


class Disagreement(AssertionError):
    """Two ways of computing one graph differ."""


@dataclass
class Found:
    """What a check came to: `ran` False where no inputs fit the graph."""

    ran: bool = False
    checks: list[str] = field(default_factory=list[str])


def check_graph(graph: Graph, seed: int, given: Sequence[Any] | None = None) -> Found:
    """Disagreement and any other exception is a finding. `given`: inputs that fit."""
    rng = random.Random(seed)
    found = Found()
    kinds = {op.kind for op in every_op(graph)}
    if kinds & _SKIPPED or any(op.effects is not Effects.NONE for op in every_op(graph)):
        return found
    if _slope_is_open(graph):
        return found
    sizes = draw_sizes(graph, rng)
    inputs = list(given) if given is not None else draw_inputs(graph, sizes, rng)
    try:
        want = interpret(graph, inputs)
    except Error as error:
        _native_refuses(graph, inputs, error)
        return found
    found.ran = True
    spread = _spread(graph, inputs, want, rng)
    _compare("passes", _optimised(graph, inputs), want, spread)
    _round_trips(graph, inputs, want, spread, found)
    _native(graph, inputs, want, spread, rng, found)
    return found


def _slope_is_open(graph: Graph) -> bool:
    """Whether a PRelu's slope stands on axis 1 only as that axis' size is not known: where it turns
    out to be another, evaluation reads the slope along the last axis."""
    with requirements() as asked:
        infer_graph(graph.copy())
    return any(r.what == SLOPE_ON_CHANNELS for r in asked)


def every_op(graph: Graph) -> list[Any]:
    """Operations, those of bodies too."""
    listed, pending = [], [graph]
    while pending:
        at = pending.pop()
        for n in at.ids():
            listed.append(at.op(n))
            pending += at.op(n).bodies()
    return listed


def draw_sizes(graph: Graph, rng: random.Random) -> dict[str, int]:
    """A size for each symbol: often 1, 2 or 3, sometimes 0 or larger. A symbol's size goes by its
    name, as a stored graph may have its parameters in another order."""
    sizes: dict[str, int] = {}
    base = rng.getrandbits(32)
    for n in graph.parameters:
        type_ = graph.node(n).types[0]
        shape = type_.shape if isinstance(type_, TensorType) else ()
        for d in shape or ():
            for s in d.symbols() if isinstance(d, Expr) else ():
                low, high = bounds(irc.ir.dim.symbol(s.name, s.lo, s.hi))
                by_name = random.Random(f"{base} {s.name}")
                wanted = by_name.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17])
                wanted = max(wanted, low or 0)
                sizes[s.name] = wanted if high is None else min(wanted, high)
    return sizes


def draw_inputs(graph: Graph, sizes: dict[str, int], rng: random.Random) -> list[Any]:
    """Arrays for the parameters, by their names; ranks that are not known are 2."""
    made: list[Any] = []
    base = rng.getrandbits(32)
    for n in graph.parameters:
        type_ = graph.node(n).types[0]
        if not isinstance(type_, TensorType):
            made.append([])
            continue
        shape = (2, 3) if type_.shape is None else type_.shape
        whole = [d if isinstance(d, int) else evaluate(d, sizes) for d in shape]
        by_name = random.Random(f"{base} {graph.node(n).name}")
        made.append(draw_array(type_.dtype, whole, by_name))
    return made


def draw_array(dtype: DType, shape: Sequence[int], rng: random.Random) -> Array:
    """Mostly small whole numbers and halves; sometimes normal ones, sometimes NaN and infinity."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    if dtype is DType.string:
        return numbers.choice(np.array(["", "a", "Bc", "\u00e9"], object), shape)
    if dtype is DType.boolean:
        return numbers.integers(0, 2, shape).astype(bool)
    if dtype.is_complex:
        return (numbers.integers(-4, 5, shape) * (1 + 0.5j)).astype(dtype.numpy)
    how = rng.random()
    if not dtype.is_float:
        low = 0 if not dtype.is_signed else -3
        return numbers.integers(low, 4, shape).astype(dtype.numpy)
    values = numbers.integers(-8, 9, shape) / 2 if how < 0.5 else numbers.standard_normal(shape)
    made = np.asarray(values).astype(dtype.numpy)
    if how > 0.93 and made.size:
        special = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(dtype.numpy)
        made.reshape(-1)[:: rng.randint(2, 5)] = rng.choice(list(special))
    return made


# The oracle's own uncertainty -----------------------------------------------------------------


def _spread(
    graph: Graph, inputs: Sequence[Any], want: Sequence[Any], rng: random.Random
) -> list[Any]:
    """Per output: how far each element moves under noise (infinity: it may be anything), or None
    where even its shape moves."""
    out: list[Any] = [np.zeros(w.shape) if isinstance(w, np.ndarray) else None for w in want]
    for _ in range(NOISY_RUNS):
        try:
            noisy = _interpret_with_noise(
                graph, inputs, np.random.default_rng(rng.randrange(1 << 30))
            )
        except Error:
            return [None] * len(want)
        for n, (a, b) in enumerate(zip(want, noisy, strict=True)):
            if out[n] is not None:
                moved = _moved(a, b)
                out[n] = None if moved is None else np.maximum(out[n], moved)
    return [None if s is None or _stepped(s, w) else s for s, w in zip(out, want, strict=True)]


def _stepped(spread: Any, want: Any) -> bool:
    """Whether noise went through a step: one element that jumps makes every other one doubtful."""
    if not isinstance(want, np.ndarray) or not _is_float(want.dtype):
        return bool(np.any(spread))
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    return bool(np.any(spread > 4096 * _unit(want.dtype) * finite.max(initial=1.0)))


def _interpret_with_noise(graph: Graph, inputs: Sequence[Any], rng: Any) -> list[Any]:
    values: dict[Value, Any] = dict(zip(map(Value, graph.parameters), inputs, strict=True))
    for n in graph.order():
        op = graph.op(n)
        if n in graph.parameters:
            continue
        arrays = [None if v is None else values[v] for v in graph.inputs(n)]
        if op.kind == "FakeQuantize":
            arrays[0] = _doubtful(arrays[0], rng)
        try:
            with np.errstate(all="ignore"):
                outputs = op.evaluate(*op.slots(arrays, running=True))
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
            raise Error("noise made the operation fail", got=str(error)[:200]) from error
        for port, array in enumerate(outputs):
            values[Value(n, port)] = array if op.kind in EXACT else _noisy(array, rng)
    return [values[Value(n)] for n in graph.results]


def _doubtful(array: Any, rng: Any) -> Any:
    """What is rounded to steps: run on bytes, it may round otherwise at ties, and makes NaN 0
    (numerics.md)."""
    return np.nan_to_num(_noisy(array, rng), nan=0, posinf=np.inf, neginf=-np.inf)


def _noisy(array: Any, rng: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.dtype == object or not _is_float(array.dtype):
        return array
    unit = _unit(array.dtype) * _ULPS
    factor = 1 + unit * rng.uniform(-1.0, 1.0, array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(np.float64) * factor).astype(array.dtype)


def _is_float(dtype: Any) -> bool:
    return dtype.kind == "f" or "float" in dtype.name or dtype.name == "bfloat16"


def _unit(dtype: Any) -> float:
    """The spacing of numbers at 1."""
    # What is computed in f64 calls functions that are exact to some bits less.
    return 2.0**-46 if dtype.name == "float64" else float(ml_dtypes.finfo(dtype).eps)


def _moved(a: Any, b: Any) -> Any:
    """Per element how far b is from a; None where shapes differ."""
    if not isinstance(a, np.ndarray):
        return None
    if not isinstance(b, np.ndarray) or a.shape != b.shape:
        return None
    if a.dtype == object or a.dtype.kind in "bc":
        return np.where(a == b, 0.0, np.inf) if a.dtype.kind != "c" else np.abs(a - b)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        far = np.nan_to_num(np.abs(x - y), nan=np.inf)
        return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, far)


def _compare(what: str, got: Sequence[Any], want: Sequence[Any], spread: Sequence[Any]) -> None:
    if len(got) != len(want):
        raise Disagreement(f"{what}: {len(got)} outputs, not {len(want)}")
    for n, (a, b, s) in enumerate(zip(got, want, spread, strict=True)):
        if not isinstance(b, np.ndarray) or s is None:
            continue
        where = f"{what}: output {n}"
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Disagreement(f"{where} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        far = _moved(a, b)
        allowed = 4 * s
        if a.dtype.kind == "c" or _is_float(a.dtype):
            unit = _unit(a.dtype) * 4 * _ULPS
            with np.errstate(all="ignore"):
                size = np.abs(b.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
                finite = size[np.isfinite(size)]
                # Sums cancel: what is left is as exact as the largest part, not as itself.
                allowed = allowed + unit * (
                    np.nan_to_num(size, nan=0, posinf=0) + finite.max(initial=1.0) / 16
                )
        bad = ~(far <= allowed) & ~np.isinf(s)
        if bad.any():
            at = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
            count = int(bad.sum())
            raise Disagreement(
                f"{where} {b.dtype}{b.shape} differs in {count} elements; at {list(at)} "
                f"got {a[at]!r}, not {b[at]!r} (allowed {np.asarray(allowed)[at]:.3g})"
            )


def same_bits(what: str, got: Sequence[Any], want: Sequence[Any]) -> None:
    """Equal types, shapes and bits (any NaN for a NaN)."""
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        if not isinstance(b, np.ndarray):
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Disagreement(f"{what}: output {n} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        same = a == b if b.dtype == object else (_bits(a) == _bits(b)) | ((a != a) & (b != b))
        if not np.all(same):
            at = tuple(int(i[0]) for i in np.nonzero(~np.asarray(same)))
            raise Disagreement(f"{what}: output {n} at {list(at)} is {a[at]!r}, not {b[at]!r}")


def _bits(a: Array) -> Array:
    if a.dtype.kind == "c":
        return a
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").reshape(a.shape)


# Ways of computing ----------------------------------------------------------------------------


def _optimised(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    copy = graph.copy()
    optimise(copy, Options(verify=True))
    return interpret(copy, inputs)


def _round_trips(
    graph: Graph, inputs: Sequence[Any], want: Sequence[Any], spread: Sequence[Any], found: Found
) -> None:
    for dialect in (True, False):
        try:
            text, weights = to_xml_text(graph, dialect=dialect)
        except UnsupportedOperationError:
            if dialect and all(n.op.kind != "OnnxNode" for n in map(graph.node, graph.ids())):
                raise
            continue
        again = interpret(read_xml(text.encode(), weights), inputs)
        if dialect:
            same_bits("XML in irc's dialect", again, want)
        else:
            _compare("XML in standard sets", again, want, spread)
        found.checks.append("dialect" if dialect else "standard")


def _native(
    graph: Graph,
    inputs: Sequence[Any],
    want: Sequence[Any],
    spread: Sequence[Any],
    rng: random.Random,
    found: Found,
) -> None:
    model = Model(graph)
    net = irc.CompiledModel(model, Options(verify=True), 1, max_memory=MEMORY)
    try:
        one = list(net(list(inputs)))
    except VerificationError as error:
        if error.what != "a buffer has a negative size":
            raise
        return  # NumPy cuts what shapes say can't be cut
    _compare("native code", one, want, spread)
    same_bits("a second call", list(net(list(inputs))), one)
    same_bits("a bound call", list(net.bind(list(inputs))()), one)
    two = irc.CompiledModel(model, Options(), 2, max_memory=MEMORY)
    same_bits("two threads", list(two(list(inputs))), one)
    found.checks.append("native")
    if rng.random() < 0.5:
        stream = io.BytesIO()
        net._write(stream)
        stored = irc.CompiledModel.load(stream.getvalue(), max_memory=MEMORY)
        same_bits("the artefact", list(stored(list(inputs))), one)
        found.checks.append("artefact")
    shapes = _fixed_shapes(net, inputs)
    if shapes and rng.random() < 0.5:
        try:
            fixed = irc.CompiledModel(model, Options(), 1, shapes=shapes, max_memory=MEMORY)
        except ShapeError:
            return  # sizes that inference can see to contradict each other only now
        got = list(fixed(list(inputs)))
        if net.plan.host_steps() or _steps(net) != _steps(fixed):
            # Known sizes let more be fused, and leave less to Python: other last bits.
            _compare("fixed sizes", got, one, spread)
        else:
            same_bits("fixed sizes", got, one)
        found.checks.append("fixed")


def _steps(net: irc.CompiledModel) -> list[tuple[Any, ...]]:
    """Each step's family and programs: an addend taken into a product is rounded no more."""
    parts = ("prologue", "program", "epilogue")
    specs = [step.spec for step in net.plan.kernel_steps()]
    return [(s.family, *(getattr(s, part, None) for part in parts)) for s in specs]


def _fixed_shapes(net: irc.CompiledModel, inputs: Sequence[Any]) -> dict[str, list[int]]:
    """Shapes of the inputs that are symbolic, by name; none where names are not one each."""
    names = [p.name for p in net.model.inputs]
    if len(set(names)) != len(names) or "" in names:
        return {}
    open_ = [p.shape is not None and any(isinstance(d, str) for d in p.shape) for p in net.inputs]
    pairs = zip(names, inputs, open_, strict=True)
    return {n: [int(d) for d in x.shape] for n, x, is_open in pairs if is_open}


def _native_refuses(graph: Graph, inputs: Sequence[Any], why: Error) -> None:
    """Inputs that the graph refuses are refused by native code, too."""
    try:
        given = irc.CompiledModel(Model(graph), Options(), 1, max_memory=MEMORY)(list(inputs))
    except Error:
        return
    if not may_pass(graph, (*inputs, *given), why):
        raise Disagreement(f"native code accepts what evaluation refuses: {why}") from why
