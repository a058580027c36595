"""Which calls poll for signals, and how their long steps are cut, so that Ctrl-C ends a call inside
native code within a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ...plan.plan import LOOP, ControlStep, KernelStep, NativeStep
from ...plan.specs.base import Size, Spec
from ...plan.verify.size_table import Ints
from ...plan.verify.values import RegionSizes
from .abi import CUT, LONG_STEP, MAX_PHASES, MAX_ROUNDS, PHASES_SHIFT, SHARED

# A call of less work, as steps count it, ends within a second whatever its kernels are.
POLL_WORK: Final = 300_000_000
# Work of one round of a step: some 0.1 s on a processor without wide vectors.
ROUND_WORK: Final = 100_000_000
# Products do more per second, and each round packs non-constant operands again.
PRODUCT_ROUND_WORK: Final = 1_000_000_000
_PRODUCTS: Final = frozenset({"gemm", "conv"})
# Memory that is written for the first time costs a page fault each 4 KiB, which `work` leaves out:
# bytes of results from which a call polls, and that one round of a step writes.
POLL_BYTES: Final = 256 << 20
ROUND_BYTES: Final = 64 << 20
# Behind a step of so much work reading the clock costs nothing.
LONG_WORK: Final = 1_000_000
# A native loop of so many iterations may run long, whatever work its steps count.
POLL_TRIPS: Final = 1_000_000


def polls(work: int, need: int, trips: Sequence[int]) -> bool:
    """Does a call poll for signals? need: bytes of its buffers. trips: the most iterations of each
    native loop."""
    return work >= POLL_WORK or need >= POLL_BYTES or max(trips, default=0) >= POLL_TRIPS


def loop_rows(steps: Sequence[NativeStep]) -> list[int]:
    """The indices of native loops among the native steps."""
    return [n for n, s in enumerate(steps) if isinstance(s, ControlStep) and s.kind == LOOP]


def cut_steps(
    flags: Ints,
    sizes: RegionSizes,
    steps: Sequence[NativeStep],
    at: Callable[[int], Callable[[Size], int]],
) -> None:
    """Set the flags of steps that run long, and cut those that run longer than a round. at: per
    step, what gives a size's value."""
    for n in np.flatnonzero(sizes.work >= LONG_WORK).tolist():
        step = steps[n]
        if isinstance(step, KernelStep):
            flags[n] |= LONG_STEP
            if not flags[n] >> PHASES_SHIFT:
                written = step.buffers[-step.spec.output_count() :]
                rounds = _rounds(step.spec, int(sizes.work[n]), int(sizes.nbytes[[*written]].sum()))
                flags[n] |= _polled_rounds(step.spec, rounds, bool(flags[n] & SHARED), at(n))


def _rounds(spec: Spec, work: int, written: int) -> int:
    least = PRODUCT_ROUND_WORK if spec.family in _PRODUCTS else ROUND_WORK
    return min(max(work // least, written // ROUND_BYTES), MAX_ROUNDS)


def _polled_rounds(spec: Spec, rounds: int, shared: bool, at: Callable[[Size], int]) -> int:
    """Flags of rounds, or of phases where parts would not be independent; 0 for neither."""
    if rounds < 2:
        return 0
    phases = spec.phases(at, rounds) if type(spec).phases is not Spec.phases else 0
    if phases == 0:
        return CUT | rounds << PHASES_SHIFT
    return phases << PHASES_SHIFT if phases <= MAX_PHASES and not shared else 0
