"""Whether a step overwrites what it reads, or writes twice, only where its kernel may."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.errors import VerificationError
from ..plan import KernelStep, NativeStep
from ..specs.base import has_same_access
from .bounds import Extents, OperandBounds
from .size_table import Ints, RegionNames
from .strided_access import are_disjoint


class AliasChecks:
    """Pairs of operands (written, other) of one step that are in one root buffer.

    root: per buffer, the buffer at the end of its chain of aliases.
    """

    def __init__(self, steps: Sequence[NativeStep], root: Ints, starts: Ints) -> None:
        # The third: whether the kernel lets the output be the memory of the other operand.
        self._pairs: list[tuple[int, int, bool]] = []
        for n, step in enumerate(steps):
            if isinstance(step, KernelStep):
                self._find_pairs(step, root, int(starts[n]))

    def _find_pairs(self, step: KernelStep, root: Ints, at: int) -> None:
        roots = [int(root[b]) for b in step.buffers]
        count = len(roots)
        if len(set(roots)) == count:
            return
        operands = step.spec.operands()
        first = count - step.spec.output_count()
        for w in range(first, count):
            for r in range(w):
                if roots[r] == roots[w]:
                    may = r < first and step.spec.may_alias_output(r)
                    may = may and has_same_access(operands[r], operands[w])
                    self._pairs.append((at + w, at + r, may))

    def check(
        self,
        values: Ints,
        extents: Extents,
        operands: OperandBounds,
        memory: tuple[Ints, Ints],
        names: RegionNames,
    ) -> None:
        """VerificationError where operands of a pair meet and may not. memory: per buffer, bytes
        from its root's start, and bytes per element."""

        def to_bytes(n: int) -> tuple[int, int]:
            b = operands.buffer[n]
            offset, size = (int(x[b]) for x in memory)
            return offset + int(extents.low[n]) * size, offset + (int(extents.high[n]) + 1) * size

        for w, r, may in self._pairs:
            if extents.empty[w] or extents.empty[r]:
                continue
            at, of = to_bytes(w), to_bytes(r)
            meet = at[0] < of[1] and of[0] < at[1] and not (may and at == of)
            if meet and not are_disjoint(operands.walk(values, w), operands.walk(values, r)):
                raise VerificationError(
                    "a step overwrites what it reads, or writes it twice",
                    where=names.operand(w),
                    got=f"bytes {at} and {of} of one buffer",
                )
