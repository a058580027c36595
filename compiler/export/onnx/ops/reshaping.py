"""Shapes: reshaped, squeezed, transposed, expanded, tiled; shapes as values; ranges."""

from __future__ import annotations

from .....ir.dims import eq
from .....ir.dtype import DType
from .....ir.ops import DepthToSpace, Reshape, ShuffleChannels, SpaceToDepth, Squeeze
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction


def _reshape(n: ExportContext) -> Exported:
    """Zeros copy a size where special_zero is set, else they are sizes."""
    op, target = n.cast_op(Reshape), n.known_ints(1)
    if op.special_zero or (target is not None and 0 not in target):
        return n.add("Reshape", n.input(0), n.vector(1))
    if target is not None and -1 in target:
        # ONNX cannot infer a size besides one that is 0: the result is empty, of a known shape.
        sizes = [d for d in n.out_type().shape or () if isinstance(d, int)]
        if len(sizes) != len(target):
            raise n.error("a target with both 0 and -1")
        return n.add("Reshape", n.input(0), n.ints(sizes), allowzero=1)
    zeros = 1 if n.has_attribute("Reshape", "allowzero") else None
    return n.add("Reshape", n.input(0), n.vector(1), allowzero=zeros)


def _squeeze(n: ExportContext) -> Exported:
    if n.optional(1) is None:
        return n.add("Squeeze", n.input(0))
    axes, shape = n.known_ints(1), n.shape(0)
    op = n.op
    if isinstance(op, Squeeze) and op.allow_axis_skip:
        if axes is None or shape is None:
            raise n.error("axes that may be skipped, of an unknown shape")
        listed = [normalize_axis(a, len(shape)) for a in axes]
        if any(eq(shape[a], 1) is None for a in listed):
            raise n.error("an axis that is skipped unless its size is 1")
        axes = [a for a in listed if shape[a] == 1]
    if axes == []:
        # Without axes, both ONNX and OpenVINO take all those of size 1.
        skips = isinstance(op, Squeeze) and op.allow_axis_skip
        return n.add("Identity" if skips else "Squeeze", n.input(0))
    return n.add("Squeeze", n.input(0), n.vector(1) if axes is None else n.ints(axes))


def _transpose(n: ExportContext) -> Exported:
    order = n.ints_of(1, "an order")
    return n.add("Transpose", n.input(0), perm=order or None)


def _broadcast(n: ExportContext) -> Exported:
    mode = str(getattr(n.op, "mode", "")).lower()
    x = n.input(0)
    if mode == "explicit" and n.optional(2) is not None:
        axes, shape, target = n.ints_of(2, "axes_mapping"), n.shape(0), n.shape(1)
        if shape is None or target is None or not isinstance(target[0], int):
            raise n.error("a broadcast of an unknown rank")
        added = [a for a in range(target[0]) if a not in axes]
        x = n.add("Unsqueeze", x, n.ints(added)) if added else x
    elif mode not in ("numpy", "bidirectional"):
        raise n.error(f"the mode {mode}")
    return n.add("Expand", x, n.vector(1))


def _tile(n: ExportContext) -> Exported:
    """Repeats are filled up with ones at the front, or axes are added there."""
    rank, count = n.rank(0), n.shape(1)
    if count is None or not isinstance(count[0], int):
        raise n.error("an unknown number of repeats")
    x, repeats, missing = n.input(0), n.vector(1), count[0] - rank
    if missing > 0:
        x = n.add("Unsqueeze", x, n.ints(range(missing)))
    elif missing < 0:
        repeats = n.add("Concat", n.ints([1] * -missing), repeats, axis=0)
    return n.add("Tile", x, repeats)


def _shape_of(n: ExportContext) -> Exported:
    found = n.add("Shape", n.input(0))
    to = n.out_type().dtype
    return found if to is DType.i64 else n.cast(found, to)


def _range(n: ExportContext) -> Exported:
    dtype = n.out_type().dtype
    wide = dtype if n.takes("Range", dtype) else DType.f32 if dtype.is_float else DType.i64
    found = n.add("Range", *(n.flatten_scalar(port, wide) for port in range(3)))
    return found if wide is dtype else n.cast(found, dtype)


def _depth_to_space(n: ExportContext) -> Exported:
    op = n.cast_op(DepthToSpace)
    if n.rank(0) != 4:
        return None
    mode = "DCR" if op.mode.lower() == "blocks_first" else "CRD"
    return n.add("DepthToSpace", n.input(0), blocksize=op.block_size, mode=mode)


def _space_to_depth(n: ExportContext) -> Exported:
    """With blocks first it is ONNX's; else blocks become the inner part of the channels."""
    op = n.cast_op(SpaceToDepth)
    if n.rank(0) != 4:
        return None
    found = n.add("SpaceToDepth", n.input(0), blocksize=op.block_size)
    if op.mode.lower() == "blocks_first":
        return found
    blocks = op.block_size**2
    apart = n.add("Shape", n.input(0))
    head = n.slice(apart, 0, 1, 0)
    split = n.add("Concat", head, n.ints([blocks]), n.slice(apart, 1, 2, 0), axis=0)
    tail = n.slice(n.add("Shape", found), 2, 4, 0)
    parts = n.add("Reshape", found, n.add("Concat", split, tail, axis=0))
    return n.add("Reshape", n.transpose(parts, [0, 2, 1, 3, 4]), n.add("Shape", found))


def _shuffle_channels(n: ExportContext) -> Exported:
    op, rank = n.cast_op(ShuffleChannels), n.rank(0)
    axis = normalize_axis(op.axis, rank)
    sizes = n.add("Shape", n.input(0))
    ends = [n.slice(sizes, 0, axis, 0), n.ints([op.group, -1]), n.slice(sizes, axis + 1, rank, 0)]
    parts = n.add("Reshape", n.input(0), n.add("Concat", *ends, axis=0))
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = order[axis + 1], order[axis]
    return n.add("Reshape", n.transpose(parts, order), sizes)


EXPORTERS: dict[str, ExportFunction] = {
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": lambda n: n.add("Unsqueeze", n.input(0), n.vector(1)),
    "Transpose": _transpose,
    "Broadcast": _broadcast,
    "Tile": _tile,
    "ShapeOf": _shape_of,
    "Range": _range,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "ShuffleChannels": _shuffle_channels,
}
