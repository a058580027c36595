"""Results computed in place: a step writes over an input that dies with it.

Safe because these kernels read every input of an element (of a row) before they write it, provided
the output walks memory exactly as the dying input does and no other operand of the step looks at
the same memory in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....plan.plan import ARENA, Buffer, KernelStep, Step


def reuse_inputs(buffers: Sequence[Buffer], steps: Sequence[Step]) -> tuple[Buffer, ...]:
    """The buffers, with outputs put inside inputs that die there."""
    found = list(buffers)
    for at, step in enumerate(steps):
        if not isinstance(step, KernelStep) or not step.spec.computes_in_place():
            continue
        *operands, out_operand = step.spec.operands()
        out = step.buffers[-1]
        target = found[out]
        if target.kind != ARENA or target.first != at or target.alias_of is not None:
            continue
        roots = [root_of(found, b) for b in step.buffers]
        for n, (root, index, operand) in enumerate(
            zip(roots, step.buffers, operands, strict=False)
        ):
            if not step.spec.may_alias_output(n):
                continue
            source = found[index]
            dies_here = found[root].kind == ARENA and found[root].last == at
            walks_alike = (
                operand.strides == out_operand.strides
                and operand.offset == out_operand.offset == 0
                and operand.dtype.bits == out_operand.dtype.bits
                and source.shape == found[root].shape == target.shape
                and source.alias_offset == 0
            )
            if dies_here and walks_alike and roots.count(root) == 1 and root != out:
                found[out] = replace(target, alias_of=root, alias_offset=0)
                found[root] = replace(found[root], last=target.last)
                break
    return tuple(found)


def root_of(buffers: Sequence[Buffer], index: int) -> int:
    """The buffer that holds the memory of this one."""
    while (inside := buffers[index].alias_of) is not None:
        index = inside
    return index
