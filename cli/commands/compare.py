"""irc compare: are the answers right, and if not, where do they first differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...api import Model, compile_model, read_model
from ...api.compiled_model import compile_with_options
from ...compiler.inspect.expose_tensors import deliver_tensors, passes_of
from ...compiler.options import Options
from ...compiler.report import distinguish_names
from ...compiler.shape_analysis.override_inputs import fix_shapes
from ...ir.dims import product
from ...ir.errors import UsageError
from ...ir.graph import Graph
from ...ir.interpret import interpret
from ...ir.types import TensorType, Type
from ..arguments import (
    Array,
    add_inputs,
    add_model,
    add_shapes,
    add_threads,
    amount_of,
    given_inputs,
    limits,
    parse_shapes,
    require_file,
)
from ..console import print_result
from ..formatting import fit_lines, format_table, sizes_note, terminal_columns
from ..logging import print_json
from ..random_inputs import fill_inputs
from ..reference_engines import ENGINES, Task, make_engine
from ..values import arrays_of

SCHEMA = 1
EXIT_DIFFERENT = 1
# Bytes of tensors that `--layers` holds of each side at once, and the tensor that goes beyond. irc
# and a reference engine compile a model once for each so many bytes.
MAX_HELD_BYTES = 256 << 20


@dataclass(frozen=True)
class Difference:
    """How one tensor differs: the largest absolute difference, the same relative to the tensor's
    largest value, how many elements are out of tolerance, and where the worst one is."""

    name: str
    type: str
    largest: float
    relative: float
    out_of_tolerance: int
    elements: int
    worst_at: tuple[int, ...]

    @property
    def is_within_tolerance(self) -> bool:
        """Whether every element is within the tolerance."""
        return self.out_of_tolerance == 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    add_threads(parser)
    add_shapes(parser)
    add_inputs(parser)
    parser.add_argument(
        "--against",
        choices=("reference", *ENGINES),
        default="reference",
        help="who answers as well (default: reference, which evaluates every operation in Python)",
    )
    parser.add_argument(
        "--layers", action="store_true", help="tensor by tensor, in execution order"
    )
    parser.add_argument(
        "--bisect", action="store_true", help="find the rewrite after which the answer changes"
    )
    parser.add_argument(
        "--rtol",
        type=amount_of,
        default=1e-4,
        help="tolerance, as a share of the tensor's largest value (default: 1e-4)",
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, help="of the inputs that are made up (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 up")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Compare; exit code 1 if a tensor is out of tolerance."""
    path = Path(require_file(args.model))
    if args.bisect and args.against != "reference":
        raise UsageError("--bisect needs the reference", got=args.against, expected="reference")
    model = Model(fix_shapes(read_model(path, **limits(args)).graph, parse_shapes(args.shape)))
    inputs, made_up = fill_inputs(model.inputs, given_inputs(args, model.inputs), seed=args.seed)
    left_out: list[str] = []
    if args.layers:
        found, left_out = by_layer(model, path, inputs, args)
    else:
        net = compile_model(model, num_threads=args.threads, max_memory=args.max_memory)
        wanted = reference_outputs(model, path, inputs, args)
        names = [p.name or str(i) for i, p in enumerate(net.outputs)]
        found = [
            d
            for n, g, w in zip(names, net(inputs), wanted, strict=True)
            for d in differences(n, g, w, args.rtol)
        ]
    first = next((n for n, d in enumerate(found) if not d.is_within_tolerance), None)
    touched = [] if first is None else passes_of(model.graph, found[first].name)
    names = distinguish_names([d.name for d in found])
    found = [replace(d, name=n) for d, n in zip(found, names, strict=True)]
    state: dict[str, Any] = {
        "schema": SCHEMA,
        "against": args.against,
        "sizes_made_up": made_up,
        "equal": first is None,
        "tensors": [asdict(d) for d in found],
    }
    if left_out:
        state["left_out"] = left_out
    if first is not None:
        state["first_different"] = found[first].name
        state["passes_that_touched_it"] = touched
    if args.bisect:
        state["bisect"] = bisect(model, inputs, args.rtol, args.max_memory)
    if args.json:
        print_json(state)
    else:
        print_result(*as_text(state, found))
    return 0 if first is None else EXIT_DIFFERENT


def reference_outputs(
    model: Model, path: Path, inputs: dict[str, Array], args: argparse.Namespace
) -> list[Any]:
    """The other side's outputs."""
    if args.against == "reference":
        return interpret(model.graph, [inputs[p.name] for p in model.inputs])
    return make_engine(args.against, Task(path, inputs, args.threads or 1, "f32")).outputs()


def differences(name: str, got: Any, wanted: Any, rtol: float) -> list[Difference]:
    """How every array of a value differs. One that only one side has differs in every element."""
    ours, theirs = arrays_of(name, got), arrays_of(name, wanted)
    nothing = np.zeros(0)
    return [
        difference(n, ours.get(n, nothing), theirs.get(n, nothing), rtol)
        for n in dict.fromkeys((*theirs, *ours))
    ]


def difference(name: str, got: Array, wanted: Array, rtol: float) -> Difference:
    """How `got` differs; NaN equals NaN, and a difference in shape or type is total."""
    kind = f"{wanted.dtype}{list(wanted.shape)}"
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        size = max(1, wanted.size)
        return Difference(name, kind, float("inf"), float("inf"), size, size, ())
    if wanted.size == 0:
        return Difference(name, kind, 0.0, 0.0, 0, 0, ())
    if wanted.dtype.kind in "OUS":
        wrong = int((got != wanted).sum())
        return Difference(name, kind, float(wrong), float(wrong), wrong, wanted.size, ())
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    g, w = got.astype(wide), wanted.astype(wide)
    with np.errstate(invalid="ignore"):
        apart = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0.0, np.abs(g - w))
    apart = np.where(np.isnan(apart), np.inf, apart)
    finite = np.abs(w[np.isfinite(w)])
    scale = float(finite.max()) if finite.size else 0.0
    worst = int(apart.argmax())
    at = tuple(int(i) for i in np.unravel_index(worst, apart.shape))
    largest = float(apart.flat[worst])
    relative = largest / scale if scale else largest
    out = int((apart > rtol * scale).sum())
    return Difference(name, kind, largest, relative, out, wanted.size, at)


def by_layer(
    model: Model, path: Path, inputs: dict[str, Array], args: argparse.Namespace
) -> tuple[list[Difference], list[str]]:
    """Every tensor that the optimised graph still has, in execution order; and the names of those
    that the other side has not.

    The other side's tensors are gathered up to HELD_BYTES; then irc computes those, they are
    compared, and both sides' go. So irc runs a model as often as HELD_BYTES of tensors come about,
    a reference engine too, the reference once; only the result's names and figures stay.
    """
    ordered = [inputs[p.name] for p in model.inputs]
    graph, names = deliver_tensors(model.graph)
    found: dict[int, list[Difference]] = {}
    held: dict[int, Any] = {}
    size = 0

    def compare() -> None:
        nonlocal size
        for at, ours in _compute_results(graph, sorted(held), ordered, args):
            found[at] = differences(names[at], ours, held.pop(at), args.rtol)
        size = 0

    def see(at: int, wanted: Any) -> None:
        nonlocal size
        held[at] = wanted
        size += sum(a.nbytes for a in arrays_of("", wanted).values())
        if size >= MAX_HELD_BYTES:
            compare()

    if args.against == "reference":
        interpret(graph, ordered, see)
    else:
        task = Task(path, inputs, args.threads or 1, "f32")
        for at, wanted in _tensors_of_engine(graph, args.against, task):
            see(at, wanted)
    compare()
    seen = [d for at in sorted(found) for d in found[at]]
    return seen, [name for at, name in enumerate(names) if at not in found]


def _tensors_of_engine(graph: Graph, name: str, task: Task) -> Iterator[tuple[int, Any]]:
    """The graph's results that the file has tensors for, by position, as a reference engine
    computes them: it delivers HELD_BYTES at a time, and is made anew for each part."""
    tensors = [_tensor_of(graph, result) for result in graph.results]
    for part in _batch_by_bytes(_sizes(graph, task.inputs)):
        asked = list(dict.fromkeys(tensors[at] for at in part))
        theirs = make_engine(name, replace(task, inner=asked)).named()
        yield from ((at, theirs[tensors[at]]) for at in part if tensors[at] in theirs)
        del theirs  # before the next ones come


def _sizes(graph: Graph, inputs: Mapping[str, Array]) -> list[int]:
    """Bytes of each of the graph's results with such inputs. Where their shapes do not determine
    it, as many as the largest result has whose size is known."""
    known = {n: a.shape for n, a in inputs.items() if n and isinstance(a, np.ndarray)}
    fixed = fix_shapes(graph.copy(), known)
    types = [fixed.type(fixed.input(node, 0)) for node in fixed.results]
    sizes = [_bytes_of(t) for t in types]
    most = max((s for s in sizes if s is not None), default=MAX_HELD_BYTES)
    return [most if s is None else s for s in sizes]


def _bytes_of(type_: Type | None) -> int | None:
    shape = type_.shape if isinstance(type_, TensorType) else None
    if shape is None or not isinstance(type_, TensorType):
        return None
    count = product(shape)
    return type_.dtype.nbytes(count) if isinstance(count, int) else None


def _compute_results(
    graph: Graph, chosen: Sequence[int], inputs: Sequence[Array], args: argparse.Namespace
) -> Iterator[tuple[int, Any]]:
    """What irc computes for the results at these positions, one after another; each is dropped
    before the next is handed out."""
    if not chosen:
        return
    part = graph.copy()
    part.results[:] = [graph.results[at] for at in chosen]
    for node in set(graph.results) - set(part.results):
        part.remove(node)
    net = compile_with_options(Model(part), Options(), args.threads, max_memory=args.max_memory)
    ours = list(net(list(inputs)))
    for at in chosen:
        yield at, ours.pop(0)


def _batch_by_bytes(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Batches of positions; a batch ends with the one that reaches MAX_HELD_BYTES."""
    part, part_bytes = list[int](), 0
    for at, size in enumerate(sizes):
        part.append(at)
        part_bytes += size
        if part_bytes >= MAX_HELD_BYTES:
            yield part
            part, part_bytes = [], 0
    if part:
        yield part


def _tensor_of(graph: Graph, result: int) -> str:
    """The name in the file of the tensor that a result delivers; `layer:0` where it has none."""
    value = graph.input(result, 0)
    record = graph.node(value.node)
    known = record.names[value.port] if value.port < len(record.names) else ()
    return min(known, default=f"{record.name}:{value.port}")


def bisect(
    model: Model, inputs: dict[str, Array], rtol: float, max_memory: int | None = None
) -> str:
    """The rewrite after which the answer is out of tolerance, in words."""
    ordered = [inputs[p.name] for p in model.inputs]
    wanted = interpret(model.graph, ordered)

    def agrees_after(count: int | None) -> bool:
        net = compile_with_options(model, Options(stop_after=count), 1, max_memory=max_memory)
        pairs = zip(net(ordered), wanted, strict=True)
        return all(d.is_within_tolerance for g, w in pairs for d in differences("", g, w, rtol))

    if agrees_after(None):
        return "the answer is right after all rewrites"
    if not agrees_after(0):
        return "the answer is wrong before any rewrite: a kernel or the lowering is at fault"
    trace = compile_with_options(model, Options(), 1, max_memory=max_memory).trace
    hits = [e for e in trace.events if e.refused is None] if trace is not None else []
    low, high = 0, len(hits)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if agrees_after(middle) else (low, middle)
    event = hits[high - 1]
    return f"rewrite {high} of {len(hits)}: {event.rule} of pass {event.passname} at {event.node}"


def as_text(state: dict[str, Any], found: list[Difference]) -> list[str]:
    """The report for a person."""
    rows = [
        [
            d.name,
            f"{d.largest:.1e}",
            f"{d.relative:.1e}",
            f"{d.out_of_tolerance} of {d.elements}",
            "" if d.is_within_tolerance else "<-- different",
        ]
        for d in found
    ]
    header = ["tensor", "largest", "relative", "out of tol.", ""]
    table = format_table(
        header, rows, left=(0, 4), optional=(1,), shortened=0, columns=terminal_columns()
    )
    lines = list[str]()
    if state["equal"]:
        lines.append(f"equal to {state['against']} within tolerance")
    else:
        touched = ", ".join(state["passes_that_touched_it"]) or "none"
        lines.append(f"first different: {state['first_different']} (passes: {touched})")
    if "left_out" in state:
        lines.append(f"not in {state['against']}: {', '.join(state['left_out'])}")
    if "bisect" in state:
        lines.append(f"bisect: {state['bisect']}")
    return [*sizes_note(state["sizes_made_up"]), *table, *fit_lines(lines, 2)]
