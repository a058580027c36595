"""What has to agree for any graph: its meaning before and after the passes, in native code and in
Python, through XML, in an artefact, for any thread count, with fixed and with symbolic sizes.

Two ways of computing a graph differ in their last bits: noise.py says how far they may.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.compiler.model import Model
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.dims import Expr, bounds, evaluate
from irc_compiler.ir.dims.constraints import requirements
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, UnsupportedOperationError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Effects
from irc_compiler.ir.ops.math.activations import SLOPE_ON_CHANNELS
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.specs.base import Spec
from irc_compiler.plan.specs.rows import ReduceSpec
from irc_compiler.runtime.execution.session import Session

from .noise import (
    PART,
    casts_nan,
    is_float,
    moved,
    opens_limits,
    slack,
    spread_of,
    transforms_infinities,
)
from .refusals import may_pass, size_of, sizes_of

Array = np.ndarray[Any, Any]
# Room for an arena or a tensor of a fuzzed graph.
MEMORY = 1 << 28
# Steps even without a name of it: whole answers of them depend on ties.
_SKIPPED = frozenset({"NonMaxSuppression", "FakeConvert"})


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
    sizes = draw_sizes(graph, rng)
    inputs = list(given) if given is not None else draw_inputs(graph, sizes, rng)
    try:
        want = interpret(graph, inputs)
    except Error as error:
        _native_refuses(graph, inputs, error)
        return found
    if any(is_open(graph, inputs) for is_open in _OPEN):
        return found
    found.ran = True
    spread = spread_of(graph, inputs, want, rng)
    _compare("passes", _optimised(graph, inputs), want, spread)
    _round_trips(graph, inputs, want, spread, found)
    _native(graph, inputs, want, spread, rng, found)
    return found


def _slope_is_open(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether a PRelu's slope stands on axis 1 only as that axis' size is not known, and it turns
    out to be another: evaluation then reads the slope along the last axis."""
    with requirements() as asked:
        infer_graph(graph.copy())
    sizes = sizes_of(graph, inputs)
    sides = [[size_of(d, sizes) for d in (r.left, r.right)] for r in asked
             if r.what == SLOPE_ON_CHANNELS]  # fmt: skip
    return any(None in pair or pair[0] != pair[1] for pair in sides)


def _rest_is_open(graph: Graph, inputs: Sequence[Any]) -> bool:
    """Whether a Reshape's -1 stands besides a size of 0, where any number fits: symbols cancel
    before the size is known ([7, n, 16] to [-1, 16 n] has 7 rows), numbers do so after (112)."""
    known, sizes = graph.copy(), sizes_of(graph, inputs)
    infer_graph(known)
    for n in known.ids():
        target = known.known_value(known.input(n, 1)) if known.op(n).kind == "Reshape" else None
        made = known.node(n).types[0] if target is not None else None
        if isinstance(made, TensorType) and made.shape is not None and target is not None:
            pairs = zip(made.shape, target.reshape(-1), strict=True)
            others = [size_of(d, sizes) for d, asked in pairs if asked != -1]
            if len(others) < len(made.shape) and 0 in others:
                return True
    return False


# What makes the answers of a graph for these inputs a matter of how it is computed.
_OPEN = (casts_nan, transforms_infinities, opens_limits, _slope_is_open, _rest_is_open)


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
                low, high = bounds(irc.ir.dims.symbol(s.name, s.lo, s.hi))
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
    """Mostly small integers and halves; sometimes normal ones, sometimes NaN and infinity."""
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


# Comparing ------------------------------------------------------------------------------------


def _compare(what: str, got: Sequence[Any], want: Sequence[Any], spread: Sequence[Any]) -> None:
    if len(got) != len(want):
        raise Disagreement(f"{what}: {len(got)} outputs, not {len(want)}")
    for n, (a, b, s) in enumerate(zip(got, want, spread, strict=True)):
        if not isinstance(b, np.ndarray) or s is None:
            continue
        where = f"{what}: output {n}"
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Disagreement(f"{where} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        far = moved(a, b)
        allowed = 4 * s
        if a.dtype.kind == "c" or is_float(a.dtype):
            unit = slack(a.dtype) * 4
            with np.errstate(all="ignore"):
                size = np.abs(b.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
                finite = size[np.isfinite(size)]
                # Sums cancel: what is left is as exact as the largest part, not as itself.
                allowed = allowed + unit * (
                    np.nan_to_num(size, nan=0, posinf=0) + finite.max(initial=1.0) / PART
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
    optimize(copy, Options(verify=True))
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
    net = compile_with_options(model, Options(verify=True), 1, max_memory=MEMORY)
    one = list(net(list(inputs)))
    _compare("native code", one, want, spread)
    same_bits("a second call", list(net(list(inputs))), one)
    same_bits("a bound call", list(net.bind(list(inputs))()), one)
    # Every step is shared, however small: left alone, none of a drawn graph's would be.
    two = Session(
        net.program, num_threads=2, max_memory=MEMORY, share_work=0, wake_work=0, meet_work=1
    )
    same_bits("two threads", two.run(list(inputs)), one)
    found.checks.append("native")
    if rng.random() < 0.5:
        stream = io.BytesIO()
        net._write(stream)
        stored = irc.CompiledModel.load(stream.getvalue(), max_memory=MEMORY)
        same_bits("the artefact", list(stored(list(inputs))), one)
        found.checks.append("artefact")
    shapes = _fixed_shapes(net, inputs)
    if shapes and rng.random() < 0.5:
        fixed = compile_with_options(model, Options(), 1, shapes=shapes, max_memory=MEMORY)
        got = list(fixed(list(inputs)))
        if net.plan.host_steps() or steps_of(net) != steps_of(fixed):
            # Known sizes let more be fused, and leave less to Python: other last bits.
            _compare("fixed sizes", got, one, spread)
        else:
            same_bits("fixed sizes", got, one)
        found.checks.append("fixed")


def steps_of(net: irc.CompiledModel) -> list[tuple[Any, ...]]:
    """Each step's family and programs: an addend taken into a product is rounded no more. The scale
    of attention: half of it may have gone into constant keys. And how a reduction walks: by vectors
    of known neighbours it sums in another order."""
    parts = ("prologue", "program", "epilogue", "scale")
    specs = [step.spec for step in net.plan.kernel_steps()]
    return [(s.family, *(getattr(s, part, None) for part in parts), _walk(s)) for s in specs]


def _walk(spec: Spec) -> tuple[Any, ...]:
    if not isinstance(spec, ReduceSpec):
        return ()
    strides = [[s if s in (0, 1) else 2 for s in o.strides] for o in spec.operands()]
    return len(spec.kept), len(spec.reduced), strides


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
        given = compile_with_options(Model(graph), Options(), 1, max_memory=MEMORY)(list(inputs))
    except Error:
        return
    if not may_pass(graph, inputs, given, why):
        raise Disagreement(f"native code accepts what evaluation refuses: {why}") from why
