"""Views: how a value is in a buffer, with symbolic sizes.

Reshape, Transpose, Slice, Split, Squeeze and Broadcast are arithmetic on views and cost nothing at
run time wherever strides can express them. All functions are pure; one that cannot express its
result as strides over the same buffer returns None, and the caller copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ..ir.dims import Dim, eq, minimum, product
from ..ir.dtype import DType
from ..ir.lazy_dataclass import dataclass

# The size and stride of an axis.
Part: TypeAlias = tuple[Dim, Dim]


@dataclass(frozen=True)
class View:
    """Element (i0, i1, ...) is at offset + sum(i * stride) of `buffer`, counted in elements."""

    buffer: int
    dtype: DType
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim = 0

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


def row_major(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Strides of a contiguous array of this shape."""
    strides: list[Dim] = []
    step: Dim = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def are_equal(a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal for certain."""
    return eq(a, b) is True


def is_contiguous(view: View) -> bool:
    """Whether the elements follow one another in order, from the view's offset on."""
    step: Dim = 1
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if size != 1 and not are_equal(stride, step):
            return False
        step = step * size
    return True


def has_same_strides(a: View, b: View) -> bool:
    """Whether two views of one shape show the same elements of a buffer for certain."""
    steps = zip(a.shape, a.strides, b.strides, strict=True)
    found = tuple(y if size == 1 or are_equal(x, y) else x for size, x, y in steps)
    return replace(a, strides=found) == b


def memory_order(view: View) -> list[int]:
    """The axes in their order, but the one whose elements are neighbours last."""
    order = [i for i in range(view.rank) if view.shape[i] != 1]
    if order and not are_equal(view.strides[order[-1]], 1):
        for axis in order:
            if are_equal(view.strides[axis], 1):
                return [*(i for i in range(view.rank) if i != axis), axis]
    return list(range(view.rank))


def permute(view: View, order: Sequence[int]) -> View:
    """The view with its axes in another order."""
    return replace(
        view,
        shape=tuple(view.shape[i] for i in order),
        strides=tuple(view.strides[i] for i in order),
    )


def take(view: View, axis: int, start: Dim, size: Dim, step: int = 1) -> View:
    """`size` elements of one axis from `start` on, every `step`-th (which may be negative)."""
    shape, strides = list(view.shape), list(view.strides)
    offset = view.offset + start * strides[axis]
    shape[axis] = size
    strides[axis] = strides[axis] * step
    return replace(view, shape=tuple(shape), strides=tuple(strides), offset=offset)


def split_axis(view: View, axis: int, sizes: Sequence[Dim]) -> list[View]:
    """The parts of these sizes that follow one another along an axis."""
    parts: list[View] = []
    start: Dim = 0
    for size in sizes:
        parts.append(take(view, axis, start, size))
        start = start + size
    return parts


def broadcast_to(view: View, shape: Sequence[Dim]) -> View:
    """The view repeated along axes of size 1 to `shape` by numpy's rule.

    Where it is unknown at compile time whether an axis has size 1, its stride is an expression
    that is 0 exactly then.
    """
    extra = len(shape) - view.rank
    strides: list[Dim] = [0] * extra
    for size, stride, wanted in zip(view.shape, view.strides, shape[extra:], strict=True):
        if size == 1:
            strides.append(0)
        elif are_equal(size, wanted):
            strides.append(stride)
        else:
            strides.append(stride * minimum(size - 1, 1))
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def reshape(view: View, shape: Sequence[Dim]) -> View | None:
    """The same elements in the same order under another shape, or None where a copy is needed."""
    target = tuple(shape)
    if is_contiguous(view):
        return replace(view, shape=target, strides=row_major(target))
    blocks = merged_axes(view)
    strides: list[Dim] = []
    at = 0
    for size, stride in blocks:
        taken: list[Dim] = []
        while at < len(target) and not are_equal(product(taken), size):
            taken.append(target[at])
            at += 1
        if not are_equal(product(taken), size):
            return None
        while at < len(target) and target[at] == 1:
            taken.append(1)
            at += 1
        strides += [s * stride for s in row_major(taken)]
    if any(size != 1 for size in target[at:]):
        return None
    strides += [0] * (len(target) - at)
    return replace(view, shape=target, strides=tuple(strides))


@dataclass(frozen=True)
class BlockedAxes:
    """Memory of a value that no strides of its axes can say, only those of axes that each of its
    axes is made of: `parts` (none where an axis is 1, neighbours merged where one stride walks
    both). `plain` has the last stride of each; `source` is the same memory under all axes."""

    source: View
    plain: View
    parts: tuple[tuple[Part, ...], ...]


def swap_last_axes(blocks: BlockedAxes) -> BlockedAxes:
    """The same memory with its last two axes exchanged, of `parts`, which alone have them."""
    *batch, rows, columns = blocks.parts
    return replace(blocks, parts=(*batch, columns, rows))


def divide(view: View, shape: Sequence[Dim]) -> BlockedAxes | None:
    """The view under another shape with the same elements, or None where sizes do not say which
    axes become which."""
    have = [(n, stride) for n, stride in zip(view.shape, view.strides, strict=True) if n != 1]
    parts: list[tuple[Part, ...]] = []
    while len(parts) < len(shape):
        size = shape[len(parts)]
        if size == 1:
            parts.append(())
        elif run := _count_factors(size, [n for n, _ in have]):
            steps = View(0, view.dtype, *zip(*have[:run], strict=True))  # type: ignore[arg-type]
            parts.append(tuple(merged_axes(steps)))
            have = have[run:]
        elif have and (run := _count_factors(have[0][0], shape[len(parts) :])):
            taken = shape[len(parts) : len(parts) + run]
            steps_ = zip(taken, row_major(taken), strict=True)
            parts += [((n, have[0][1] * s),) if n != 1 else () for n, s in steps_]
            have = have[1:]
        else:
            return None
    if have or any(n == 0 for part in parts for n, _ in part):
        return None
    strides = tuple(part[-1][1] if part else 0 for part in parts)
    return BlockedAxes(view, replace(view, shape=tuple(shape), strides=strides), tuple(parts))


def runs_of_vectors(divided: BlockedAxes, lanes: int) -> bool:
    """Whether a product walks the last axis in blocks as fast as in one. Blocks that end inside a
    vector cost more than the copy that they save (docs/dev/tuning/gemm-operands-in-place.md); what
    only the run knows is taken for whole vectors."""
    columns = divided.parts[-1]
    if len(columns) < 2:
        return True
    size = columns[1][0]
    return len(columns) == 2 and (not isinstance(size, int) or size % lanes == 0)


def _count_factors(size: Dim, parts: Sequence[Dim]) -> int:
    """How many of the first sizes multiply to `size`; 0 if none do for certain."""
    total: Dim = 1
    for count, part in enumerate(parts, 1):
        total = total * part
        if are_equal(total, size):
            return count
    return 0


def merged_axes(view: View) -> list[tuple[Dim, Dim]]:
    """(size, stride) of the view's axes, neighbours merged where one stride walks both."""
    blocks: list[tuple[Dim, Dim]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if blocks and are_equal(blocks[-1][1], stride * size):
            blocks[-1] = (blocks[-1][0] * size, stride)
        else:
            blocks.append((size, stride))
    return blocks


def coalesce(
    axes: Sequence[Dim], operands: Sequence[Sequence[Dim]], keep_last: int = 0
) -> tuple[tuple[Dim, ...], list[tuple[Dim, ...]]]:
    """Merge neighbouring axes that every operand walks with one stride, and drop axes of size 1.

    `keep_last` axes at the end stay as they are. Returns the new axes and strides per operand.
    """
    fixed = len(axes) - keep_last
    sizes: list[Dim] = []
    strides: list[list[Dim]] = [[] for _ in operands]
    for axis in range(len(axes)):
        size = axes[axis]
        here = [o[axis] for o in operands]
        if axis < fixed:
            if size == 1:
                continue
            if sizes and all(
                are_equal(walked[-1], stride * size)
                for walked, stride in zip(strides, here, strict=True)
            ):
                sizes[-1] = sizes[-1] * size
                for walked, stride in zip(strides, here, strict=True):
                    walked[-1] = stride
                continue
        sizes.append(size)
        for walked, stride in zip(strides, here, strict=True):
            walked.append(stride)
    return tuple(sizes), [tuple(s) for s in strides]
