"""What a spec says of one operand's memory, how many elements a constant has, and what is too
much of either."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.dims import Dim
from ...ir.errors import MemoryLimitError, VerificationError
from ..packing.layouts import panels
from ..packing.panel_params import packed_size
from ..plan import Constant
from ..specs.base import Size, Spec
from ..specs.gemm import GemmSpec
from .plan import walks

# No address space is larger; below it int64 arithmetic on bytes cannot overflow.
MAX_BYTES = 1 << 47
# Sizes and strides below it can be added in int64.
MAX_SIZE = 1 << 62


def operand_terms(spec: Spec) -> list[tuple[list[Size], list[Size], Size]]:
    """(sizes, strides, offset) per operand; a packed operand ends in its block of panels."""
    found: list[tuple[list[Size], list[Size], Size]] = []
    for n, (walk, operand) in enumerate(zip(walks(spec), spec.operands(), strict=True)):
        size, stride = list(walk), list(operand.strides)
        packed = spec.packed_operands().get(n) if isinstance(spec, GemmSpec) else None
        if packed is not None:
            layout, rows, columns = packed
            if not isinstance(rows, int) or not isinstance(columns, int):
                raise VerificationError("a packed operand's sizes are not fixed")
            block = packed_size(rows, columns, layout.nr, layout.kr, layout.column_sums)
            size, stride = [*size[:-2], block], [*stride[:-2], 1]
        found.append((size, stride, operand.offset))
    return found


def packed_elements(c: Constant) -> int:
    """Elements of a constant in its layout. MemoryLimitError for more than any machine has."""
    if c.layout is None:
        count = math.prod(c.shape)
    else:
        matrices, k, n = panels(c.shape, c.layout, c.transposed)
        count = matrices * packed_size(k, n, c.layout.nr, c.layout.kr, c.layout.column_sums)
    if count >= MAX_BYTES:
        raise MemoryLimitError("a constant is larger than any machine's memory", got=c.shape)
    return count


def beyond_machines(numbers: Sequence[int], sizes: Sequence[Dim], where: str) -> VerificationError:
    """The error for the largest of `numbers`, beyond MAX_SIZE: the values of `sizes`."""
    worst = max(numbers, key=abs)
    size = sizes[numbers.index(worst)]
    shown = str(worst) if worst.bit_length() < 128 else f"about 2^{worst.bit_length() - 1}"
    return VerificationError(
        "a size is beyond any machine",
        where=where,
        got=shown if isinstance(size, int) else f"{shown}, which is {size}",
        expected="sizes below 2^62",
        fix="check the input shapes",
    )
