"""Compares printed plans and outputs of small models of every kernel family between two checkouts.

    python scripts/compare_plans.py --write plans.json      # in the old checkout
    python scripts/compare_plans.py --against plans.json    # in the new one; exit code 1: differ

A refactoring keeps both: the plan's text for this machine's Target, and every bit of the outputs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import irc_compiler as irc
import numpy as np
from irc_compiler.plan.text import print_plan

from fuzz.step_models import models

DTYPES = {"f32": "f4", "i64": "i8", "i32": "i4", "u8": "u1", "i8": "i1", "boolean": "?"}
DYNAMIC_SIZE = 7


def random_inputs(net: irc.CompiledModel) -> dict[str, np.ndarray]:
    """Arrays for each input; a dynamic size is DYNAMIC_SIZE."""
    rng, arrays = np.random.default_rng(1), dict[str, np.ndarray]()
    for port in net.inputs:
        shape = [d if isinstance(d, int) else DYNAMIC_SIZE for d in port.shape or ()]
        dtype = np.dtype(DTYPES[port.dtype])
        drawn: Any = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 3, shape)
        arrays[port.name] = np.asarray(drawn).astype(dtype)
    return arrays


def describe() -> Iterator[tuple[str, list[str]]]:
    """(model and precision, [plan, digest of the outputs or the error's class])."""
    for name, model in models():
        for precision in ("f32", "bf16"):
            net = irc.compile_model(model, precision=precision, num_threads=1)
            try:
                outputs = b"".join(np.asarray(a).tobytes() for a in net(random_inputs(net)))
                digest = hashlib.sha256(outputs).hexdigest()
            except irc.Error as error:
                digest = type(error).__name__
            yield f"{name}, {precision}", [print_plan(net.plan), digest]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="write plans and digests")
    parser.add_argument("--against", type=Path, help="compare with what --write wrote")
    args = parser.parse_args()
    found = dict(describe())
    if args.write:
        args.write.write_text(json.dumps(found))
    if not args.against:
        return 0
    wanted = json.loads(args.against.read_text())
    differ = [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)]
    print(f"{len(found)} plans, {len(differ)} differ", *sorted(differ), sep="\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
