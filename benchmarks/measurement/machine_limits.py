"""What bounds a model on this machine: arithmetic, or reading its weights from memory."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from irc_compiler.plan.packing.panel_params import BF16_PRODUCTS
from irc_compiler.plan.plan import CONSTANT, KernelStep
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.specs.recurrent import RecurrentSpec
from irc_compiler.runtime.machine.roofline import Peak, measured_bandwidth

# A model reaches the ratio, or takes so much of its time at a limit of the machine.
ENOUGH_RATIO, ENOUGH_SHARE = 1.15, 0.9
# Columns of tables, and what they show of MachineLimits.find_shares.
LIMIT_COLUMNS = {"peak": "peak_share", "memory": "bandwidth_share"}
# A working set that no cache holds.
BANDWIDTH_BYTES = 256 << 20
# Of a peak's loop: half a millisecond.
_TURNS = 100_000
# Below it, the bandwidth that is measured is that of an empty loop.
_MIN_BYTES = 64 << 10


def count_weight_bytes(plan: Any, kinds: tuple[type, ...] = (GemmSpec,)) -> int:
    """Bytes of the constants that steps of these specs read in one call."""
    read = {
        region.buffers[b].index
        for region in plan.all_regions()
        for step in region.steps
        if isinstance(step, KernelStep) and isinstance(step.spec, kinds)
        for b in step.buffers
        if region.buffers[b].kind == CONSTANT
    }
    constants = [plan.constants[i] for i in read]
    return sum(c.dtype.nbytes(math.prod(c.shape)) for c in constants)


class MachineLimits:
    """What bounds calls of a compiled model by so many threads: the operations of one call, by the
    unit that does them, and the bytes of its weights. `peaks`, by unit, are loops that multiply and
    add on as many cores, to be timed next to the model."""

    def __init__(self, net: Any, inputs: Sequence[Any], threads: int) -> None:
        operations: dict[str, int] = defaultdict(int)
        for step in net.profile(list(inputs)):
            if step.operations:
                operations[step.unit] += step.operations
        self.operations, self.threads = dict(operations), threads
        self.peaks = {unit: Peak(_unit(unit), threads, _TURNS) for unit in operations}
        self.weight_bytes = count_weight_bytes(net.plan, (GemmSpec, ConvSpec, RecurrentSpec))

    def find_shares(self, seconds: float, peak_seconds: dict[str, float]) -> dict[str, float]:
        """Shares of `seconds`, the time of a call: `peak_share` is what its operations take at the
        peak, `bandwidth_share` what its weights take as fast as so many cores read as many bytes
        now. peak_seconds: of a run of each of `peaks`. Transforms (Winograd) save operations, so
        the first may exceed 1."""
        shortest = 0.0
        for unit, count in self.operations.items():
            rate = self.peaks[unit].flops / peak_seconds[unit] / BF16_PRODUCTS.get(unit, 1)
            shortest += count / rate
        size = min(max(self.weight_bytes, _MIN_BYTES), BANDWIDTH_BYTES)
        reading = self.weight_bytes / measured_bandwidth(size, self.threads)
        return {"peak_share": shortest / seconds, "bandwidth_share": reading / seconds}


def _unit(unit: str) -> str:
    """The unit that is measured: a product of several numbers per factor takes that of bf16."""
    return "bf16" if unit in BF16_PRODUCTS else unit
