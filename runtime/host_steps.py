"""Operations evaluated in Python, as steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.accept import refuse_unfit
from ..ir.errors import Error, ExecutionError
from ..ir.op import Op, RunBody
from .regions import Evaluate


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
    where = f"{op.kind} {name}".strip()
    try:
        # Infinities and NaN are values, as in kernels, whatever the caller has NumPy do about them.
        with np.errstate(all="ignore"):
            if evaluate is not None:
                results = evaluate(op, values)
            elif bodies:
                results = op.run(values, bodies)
            else:
                results = op.evaluate(*op.slots(values, running=True))
                refuse_unfit(op, values)
    except Error as e:
        e.where = e.where or where
        raise
    except Exception as e:
        raise ExecutionError(
            "an operation failed", where=where, got=f"{type(e).__name__}: {e}"[:500]
        ) from e
    if len(results) < count:
        raise ExecutionError("an operation gave too few outputs", where=where, got=len(results))
    return results[:count]
