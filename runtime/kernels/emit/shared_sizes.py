"""Sizes that are parameters of a kernel's body, so that kernels which differ in them share it.

The layers of a network differ in lengths, strides and offsets, and these are numbers in the text of
their kernels. Where a constant makes the code no faster, the entry passes the number to the body
(llvmir/kernel_entry.py): the bodies of such kernels are equal, and LLVM compiles one of them
(jit/equal_functions.py). Numbers that decide what code is written stay constants: lengths that are
not multiples of a vector, the strides of lanes, 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Operand, RuntimeDim, Size


@dataclass(frozen=True)
class SharedSize(RuntimeDim):
    """A size that the entry passes to the body, which is a multiple of `divisor`."""

    divisor: int = 1


class SharedSizes:
    """The sizes of a spec that its kernel's body has as parameters. numbers: their values, in the
    order of the parameters, which follow the spec's run-time sizes."""

    def __init__(self, runtime_dims: int) -> None:
        self.numbers: list[int] = []
        self.runtime_dims = runtime_dims

    def share(self, size: Size, divisor: int = 1, constants: Iterable[int] = (0, 1)) -> Size:
        """The size as a parameter, which other kernels have as a multiple of `divisor`, too; one of
        `constants` as it is."""
        if not isinstance(size, int) or size in constants:
            return size
        self.numbers.append(size)
        return SharedSize(self.runtime_dims + len(self.numbers) - 1, divisor)

    def share_all(self, sizes: Iterable[Size]) -> tuple[Size, ...]:
        """Each size as a parameter."""
        return tuple(self.share(size) for size in sizes)

    def share_offset(self, operand: Operand) -> Operand:
        """The operand with its offset as a parameter."""
        return replace(operand, offset=self.share(operand.offset, constants=(0,)))

    def share_row(self, size: Size, lanes: int, vectors: int) -> Size:
        """A row's length as a parameter where it is a multiple of a vector, and more than one: the
        body has no masks, and no loop over single vectors for a multiple of `vectors`."""
        if not isinstance(size, int) or size % lanes or size <= lanes:
            return size
        return self.share(size, lanes if size % (lanes * vectors) else lanes * vectors)
