"""Steps that Python evaluates: an operation's outputs, within the memory budget of the call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from ...ir.errors import Error, ExecutionError, MemoryLimitError
from ...ir.limits.memory_budget import active_budget
from ...ir.op import Op, RunBody
from .region_program import Evaluate


@cache
def _load_input_check() -> ModuleType:
    """The operations are loaded with a graph, not where a stored plan has kernels only."""
    from ...ir import input_check

    return input_check


def evaluate_op(
    op: Op,
    values: list[Any],
    name: str,
    count: int,
    evaluate: Evaluate | None,
    bodies: Sequence[RunBody] = (),
) -> Sequence[Any]:
    """The op's outputs in Python, where `bodies` run its bodies; errors are given the step's
    name."""
    check, where, budget = _load_input_check(), f"{op.kind} {name}".strip(), active_budget()
    before = budget.used
    try:
        # Infinities and NaN are values, as in kernels, whatever the caller has NumPy do about them.
        with np.errstate(all="ignore"):
            if evaluate is not None:
                check.charge_memory(op, values, where)
                results = evaluate(op, values)
            elif bodies:
                results = op.run(values, bodies)
            else:
                results = check.evaluate_bounded(op, values, where)
                check.refuse_unfit(op, values)
    except Error as e:
        e.where = e.where or where
        raise
    except MemoryError as e:
        raise MemoryLimitError(
            "an operation needs more memory than the system gives", where=where, got=str(e)[:300]
        ) from e
    except Exception as e:
        raise ExecutionError(
            "an operation failed", where=where, got=f"{type(e).__name__}: {e}"[:500]
        ) from e
    finally:
        budget.used = before
    if len(results) < count:
        raise ExecutionError("an operation gave too few outputs", where=where, got=len(results))
    return results[:count]
