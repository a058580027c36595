"""Operations that are told where to read or write: points, regions, frames, transforms, pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Value
from irc_compiler.ir.op import Op

from .fitting import Misfit, image

if TYPE_CHECKING:
    from .graphs import Maker


def points(m: Maker, cls: type[Op]) -> Value | None:
    """GatherND and ScatterNDUpdate: indices of places in the first axes; ScatterUpdate: of one."""
    x = m.value(lambda t: bool(t.shape) and t.is_static and 0 not in (t.shape or ()))
    if x is None:
        raise Misfit
    t = m.type(x)
    sizes = [int(d) for d in t.shape or ()]
    rng, batch = np.random.default_rng(m.int(0, 99)), 0
    if cls.kind == "ScatterUpdate":
        axis = m.int(0, len(sizes) - 1)
        many = m.ints(m.int(0, 2), 1, 3)
        places = m.constant(rng.integers(-sizes[axis], sizes[axis], many), DType.i64)
        updates = m.numbers(t.dtype, [*sizes[:axis], *many, *sizes[axis + 1 :]])
        return m.add(cls(), x, places, updates, m.constant(axis, DType.i64))
    if cls.kind == "GatherND":
        batch = m.int(0, len(sizes) - 1)
    depth = m.int(1, len(sizes) - batch)
    many = [*sizes[:batch], *m.ints(m.int(0, 2), 1, 4)]
    ends = np.array(sizes[batch : batch + depth])
    places = m.constant(rng.integers(-ends, ends, [*many, depth]), DType.i64)
    op = m.attributes(cls, **({"batch_dims": batch} if cls.kind == "GatherND" else {}))
    if op is None:
        return None
    if cls.kind == "GatherND":
        return m.add(op, x, places)
    return m.add(op, x, places, m.numbers(t.dtype, [*many, *sizes[depth:]]))


def adaptive(m: Maker, cls: type[Op]) -> Value | None:
    found = image(m)
    if found is None:
        return None
    x, t = found
    op = m.attributes(cls)
    sizes = m.constant(m.ints(len(t.shape or ()) - 2, 1, 4), DType.i64)
    return None if op is None else m.add(op, x, sizes)


def transform(m: Maker, cls: type[Op]) -> Value | None:
    """DFT and its relatives: the last axis is real and imaginary part, except before RDFT."""
    real = cls.kind == "RDFT"
    low = 1 if real else 2
    x = m.value(lambda t: len(t.shape or ()) >= low and t.dtype in (DType.f32, DType.f64)
                and (real or (t.shape or ())[-1] == 2))  # fmt: skip
    if x is None:
        raise Misfit
    axes = m.shuffled(len(m.type(x).shape or ()) - low + 1)
    axes = axes[: m.int(1, len(axes))]
    sizes = [m.constant(m.ints(len(axes), 1, 6), DType.i64)] if m.int(0, 1) else []
    return m.add(cls(), x, m.constant(axes, DType.i64), *sizes)


def frames(m: Maker, cls: type[Op]) -> Value | None:
    """STFT: a window no longer than its frame, and frames no longer than the signal."""
    x = m.value(lambda t: len(t.shape or ()) in (1, 2) and t.dtype.is_float
                and (t.shape or ())[-1] != 0)  # fmt: skip
    op = m.attributes(cls)
    if x is None or op is None:
        raise Misfit
    t = m.type(x)
    length = (t.shape or ())[-1]
    size = m.int(1, length if isinstance(length, int) else 3)
    window = m.numbers(t.dtype, [m.int(1, size)])
    return m.add(op, x, window, *(m.constant(v, DType.i64) for v in (size, m.int(1, 4))))


def regions(m: Maker, cls: type[Op]) -> Value | None:
    x = m.value(lambda t: len(t.shape or ()) == 4 and t.dtype.is_float)
    op = m.attributes(cls, pooled_h=m.int(1, 3), pooled_w=m.int(1, 3), sampling_ratio=m.int(0, 2),
                      spatial_scale=m.pick([1.0, 0.5]), mode=m.pick(["avg", "max"]))  # fmt: skip
    if x is None or op is None:
        return None
    corners = [[0, 0, 2, 3], [1, 0, 4, 4], [-1, 1, 3, 2]][: m.int(1, 3)]
    rois = m.constant(corners, m.type(x).dtype)
    return m.add(op, x, rois, m.constant([0] * len(corners), DType.i64))
