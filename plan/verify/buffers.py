"""Checks of verify_plan on a region's buffers. Every finding is a VerificationError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir.dims import Expr
from ...ir.dtype import DType
from ...ir.errors import VerificationError
from ..plan import ARENA, CONSTANT, INPUT, OUTPUT, Buffer, PlanConstant, Region

_KINDS: Final = (INPUT, OUTPUT, CONSTANT, ARENA)


def verify_buffer(
    region: Region, constants: Sequence[PlanConstant], b: int, buffer: Buffer, where: str
) -> None:
    """Kind, type, sizes, location and lifetime of one buffer."""
    here = f"{where}, buffer {b} ({buffer.name})"
    if buffer.kind not in _KINDS:
        raise plan_error("a buffer's kind is not known", here, buffer.kind, ", ".join(_KINDS))
    if buffer.dtype in (DType.dynamic, DType.string):
        raise plan_error("a buffer's elements have no fixed size", here, buffer.dtype)
    for d in (*buffer.shape, buffer.alias_offset):
        if not isinstance(d, Expr) and (not is_int(d) or d < 0):
            raise plan_error("a size is not a number", here, d)
    if buffer.alias_of is not None:
        _verify_view(region, constants, buffer, here)
        if buffer.kind == CONSTANT:
            return
    if buffer.kind == ARENA:
        if not 0 <= buffer.first <= buffer.last < max(1, len(region.steps)):
            raise plan_error(
                "a lifetime is not a range of steps", here, (buffer.first, buffer.last)
            )
        if buffer.alias_of is not None:
            parent = region.buffers[buffer.alias_of]
            if not parent.first <= buffer.first <= buffer.last <= parent.last:
                raise plan_error("a buffer outlives the one that it aliases", here, "")
        return
    sizes = {INPUT: len(region.inputs), OUTPUT: len(region.outputs), CONSTANT: len(constants)}
    if buffer.alias_of is None:
        check_index(buffer.index, sizes[buffer.kind], here, buffer.kind)
    if buffer.kind == CONSTANT:
        made = constants[buffer.index]
        if made.dtype is not buffer.dtype or made.shape != buffer.shape:
            got = f"{buffer.dtype}{list(buffer.shape)}"
            raise plan_error("a buffer is not its constant", here, got)


def _verify_view(
    region: Region, constants: Sequence[PlanConstant], buffer: Buffer, where: str
) -> None:
    """A buffer inside another one is of its kind; of a constant, a part of that plain array."""
    assert buffer.alias_of is not None
    check_index(buffer.alias_of, len(region.buffers), where, "buffer to alias")
    if buffer.kind not in (ARENA, OUTPUT) and buffer.loop is None:
        raise plan_error("only an arena or output buffer may alias another", where, "")
    parent = region.buffers[buffer.alias_of]
    if parent.kind != buffer.kind:
        raise plan_error("a buffer and the one that it aliases differ in kind", where, buffer.kind)
    if buffer.kind == CONSTANT:
        check_index(buffer.index, len(constants), where, buffer.kind)
        if parent.index != buffer.index or constants[buffer.index].layout is not None:
            raise plan_error("a part of another constant, or of a packed one", where, buffer.index)


def buffer_roots(region: Region, where: str = "region") -> list[int]:
    """For each buffer, the buffer at the end of its chain of `alias_of`."""
    roots: dict[int, int] = {}
    for b in range(len(region.buffers)):
        chain: dict[int, None] = {}
        at = b
        while at not in roots and (parent := region.buffers[at].alias_of) is not None:
            if at in chain:
                raise plan_error("buffers alias one another in a circle", where, b)
            chain[at] = None
            at = parent
        root = roots.setdefault(at, at)
        roots.update(dict.fromkeys(chain, root))
    return [roots[b] for b in range(len(region.buffers))]


def is_empty(buffer: Buffer) -> bool:
    """Whether there is nothing to write: a step without elements is left out of a plan."""
    return any(not isinstance(d, Expr) and d == 0 for d in buffer.shape)


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_index(n: object, size: int, where: str, what: str) -> None:
    if not isinstance(n, int) or not 0 <= n < size:
        raise VerificationError(
            f"a plan names a {what} that there is not", where=where, got=n, expected=f"0..{size}"
        )


def plan_error(what: str, where: str, got: object, expected: object = None) -> VerificationError:
    text = str(got)
    text = text if len(text) < 200 else text[:197] + "..."
    return VerificationError(what, where=where, got=text, expected=expected)
