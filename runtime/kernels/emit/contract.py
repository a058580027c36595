"""The contract between kernel generators and everything that runs them.

A generator is a pure function of (spec, Target, symbol). Its module defines

    define i32 @symbol(ptr %buffers, ptr %dims, i32 %worker, i32 %workers, ptr %scratch)

`buffers` points to the addresses of the spec's operands in their order; `dims` to the run-time
sizes (i64) that the spec's DimArgs index; a worker does its share of the work, any split gives the
same bits, and with `workers` = 1 all of it; `scratch` is 64-byte aligned and the worker's own.

A spec with phases (`Spec.phases`) is called for each part of each phase where threads share it:
`worker` is then (phase + 1) * workers + part, so never below `workers`. All parts of a phase are
done before one of the next begins; of one phase they may run at once, in any order.

The result is 0 or a status of plan/specs/base.py; scratch[0..8) then holds the index of the
offending element.
A kernel holds no address, keeps no state, and never touches memory outside its operands' elements.
"""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Kernel:
    """One generated kernel: LLVM assembly of a whole module, and scratch bytes per worker."""

    symbol: str
    text: str
    scratch: int = 64
