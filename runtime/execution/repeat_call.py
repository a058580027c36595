"""Repeat a call of small arrays: a Python function that is generated for one binding.

`BoundRegion.run` loops over inputs and outputs of every kind. Where all of them are small and one
native segment is all of a run, a function without loops takes a third less time
(docs/dev/tuning/small-tensors.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from .region_instance import BoundRegion

# The outputs for the inputs of a call; None, unless these are as those of the binding.
RepeatCall: TypeAlias = Callable[[Sequence[Any]], list[Any] | None]

# Inputs and outputs of a generated function: with many, the time is in the copies.
MAX_GENERATED_PORTS: Final = 8


def make_repeat_call(bound: BoundRegion) -> RepeatCall:
    """How a next call runs on this binding, which repeats: `BoundRegion.run`, or a function that
    does the same for small arrays."""
    small = bound.list_small_copies()
    if small is None or len(small.inputs) + len(small.outputs) > MAX_GENERATED_PORTS:
        return bound.run
    names: dict[str, Any] = {
        "ndarray": np.ndarray,
        "native": small.segment.native,
        "argument": small.segment.argument,
        "resume": small.segment.resume,
    }
    checks, copies, values = list[str](), list[str](), list[str]()
    for n, (copy, shape, dtype) in enumerate(small.inputs):
        names |= {f"copy{n}": copy, f"shape{n}": shape, f"dtype{n}": dtype}
        checks += [
            f"if type(input{n}) is not ndarray or input{n}.dtype is not dtype{n} "
            f"or input{n}.shape != shape{n}: return None"
        ]
        copies += [f"copy{n}[...] = input{n}"] if copy is not None else []
    for n, array in enumerate(small.outputs):
        names[f"fresh{n}"] = array.copy
        values.append(f"fresh{n}()")
    count = len(small.inputs)
    taken = [f"{''.join(f'input{n}, ' for n in range(count))}= inputs"] if count else []
    body = [
        f"if len(inputs) != {count}: return None",
        *taken,
        *checks,
        *copies,
        "status = native(argument)",
        "if status: resume(status)",
        f"return [{', '.join(values)}]",
    ]
    lines = [f"def bind({', '.join(names)}):", "  def run(inputs):"]
    lines += [f"    {line}" for line in body] + ["  return run"]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)  # the text holds numbers of ports only
    return made["bind"](**names)
