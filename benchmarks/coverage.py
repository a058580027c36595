"""ONNX's backend tests, all of them, on irc: `python -m benchmarks.coverage [--kind node]`.

Runs every data set of every case through `irc.onnx_backend` and compares by ONNX's own rule (types,
shapes, each case's tolerance). Prints what failed and why, then a table by kind: cases, passes, and
passes by irc's own operations, without a call into onnx.reference. About five minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
# Cases between two lines that say how far it is.
EVERY = 100


@dataclass(frozen=True)
class Outcome:
    """One case: why it failed (None: it passed), and whether onnx.reference took part."""

    kind: str
    name: str
    failure: str | None
    reference: bool


def array_of(value: Any) -> Any:
    """Arrays, lists of arrays and None from ONNX's protos."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def stored(folder: Path, prefix: str, ports: Sequence[Any]) -> list[Any]:
    """Values of a data set on disk, as long as there are files."""
    classes = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    found: list[Any] = []
    for i, port in enumerate(ports):
        path = folder / f"{prefix}_{i}.pb"
        if not path.exists():
            break
        proto = classes.get(port.type.WhichOneof("value"), onnx.TensorProto)()
        proto.ParseFromString(path.read_bytes())
        found.append(array_of(proto))
    return found


def data_sets(case: Any, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs of a case."""
    for inputs, outputs in case.data_sets or []:
        yield [array_of(v) for v in inputs], [array_of(v) for v in outputs]
    if case.data_sets is None:
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            graph = model.graph
            yield stored(folder, "input", graph.input), stored(folder, "output", graph.output)


def run_case(kind: str, case: Any) -> Outcome:
    """Compile and run a case. Only irc's errors and wrong results are failures of the case."""
    model = case.model
    if model is None:
        model = onnx.load(Path(case.model_dir) / "model.onnx")
    reference = False
    try:
        prepared = irc.onnx_backend.prepare(model)
        reference = "onnx.reference" in prepared.net.report()
        names = [port.name for port in prepared.net.inputs]
        ran = 0
        for inputs, expected in data_sets(case, model):
            every = [port.name for port in model.graph.input]
            given = dict(zip(every if len(inputs) == len(every) else names, inputs, strict=True))
            outputs = list(prepared.run({n: v for n, v in given.items() if n in names}))
            compare(expected, outputs, case)
            ran += 1
        failure = None if ran else "the case has no data"
    except (irc.Error, AssertionError) as error:
        failure = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return Outcome(kind, case.name, failure, reference)


def compare(expected: list[Any], outputs: list[Any], case: Any) -> None:
    """AssertionError where outputs differ by ONNX's rule; None is an empty optional. Sequences are
    flattened, as the runner can't compare scalars in them."""
    assert [shape_of(v) for v in expected] == [shape_of(v) for v in outputs], "shapes differ"
    wanted, found = list(flat(expected)), list(flat(outputs))
    with np.errstate(all="ignore"):
        Runner.assert_similar_outputs(wanted, found, rtol=case.rtol, atol=case.atol)


def shape_of(value: Any) -> Any:
    """An array's shape, a list of them for a sequence, None for none."""
    if isinstance(value, list | tuple):
        return [shape_of(v) for v in value]
    return None if value is None else np.asarray(value).shape


def flat(values: Sequence[Any]) -> Iterator[Any]:
    """The arrays, also those in sequences."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        elif value is not None:
            yield value


def summary(outcomes: Sequence[Outcome]) -> str:
    """A table by kind: cases, passes, and passes by irc's own operations."""
    lines = [f"{'kind':<18}{'cases':>7}{'passed':>8}{'share':>9}{'own':>7}{'share':>9}"]
    kinds = list(dict.fromkeys(o.kind for o in outcomes))
    for kind in (*kinds, "all"):
        mine = [o for o in outcomes if kind in (o.kind, "all")]
        passed = [o for o in mine if o.failure is None]
        own = sum(not o.reference for o in passed)
        shares = len(passed) / max(1, len(mine)), own / max(1, len(passed))
        lines.append(
            f"{kind:<18}{len(mine):>7}{len(passed):>8}{shares[0]:>9.1%}{own:>7}{shares[1]:>9.1%}"
        )
    return "\n".join(lines)


def run_all(kinds: Sequence[str], only: str) -> list[Outcome]:
    """Run the cases; failures are printed as they come, how far it is on stderr."""
    outcomes: list[Outcome] = []
    for kind in kinds:
        cases = [case for case in load_model_tests(kind=kind) if only in case.name]
        failed = 0
        for n, case in enumerate(cases, start=1):
            outcomes.append(run_case(kind, case))
            if (failure := outcomes[-1].failure) is not None:
                failed += 1
                print(f"{kind}/{case.name}: {failure}", flush=True)
            if n % EVERY == 0 or n == len(cases):
                print(f"{kind}: {n} of {len(cases)}, {failed} failed", file=sys.stderr, flush=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all kinds")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--out", type=Path, help="write the outcomes as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    outcomes = run_all(options.kind or KINDS, options.only)
    print(summary(outcomes))
    if options.out is not None:
        found = {f"{o.kind}/{o.name}": [o.failure, o.reference] for o in outcomes}
        options.out.write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    main()
