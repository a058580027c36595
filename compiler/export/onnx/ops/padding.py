"""Padding."""

from __future__ import annotations

import numpy as np

from ..context import ExportContext, Exported, ExportFunction


def _pad(n: ExportContext) -> Exported:
    mode = str(n.op.pad_mode).lower()
    if mode == "symmetric":
        return _pad_symmetric(n)
    begin, end = n.known_ints(1), n.known_ints(2)
    if begin is not None and end is not None:
        pads = n.ints([*begin, *end])
    else:
        pads = n.add("Concat", n.vector(1), n.vector(2), axis=0)
    fill = n.flatten_scalar(3) if mode == "constant" and n.optional(3) is not None else None
    return n.add("Pad", n.input(0), pads, fill, mode=mode)


def _pad_symmetric(n: ExportContext) -> Exported:
    """Every axis picked by the positions that it is padded with."""
    sizes, begin, end = n.fixed_shape(0), n.ints_of(1, "paddings"), n.ints_of(2, "paddings")
    if sizes is None:
        raise n.error("symmetric paddings of sizes that are not fixed")
    value = n.input(0)
    for axis, (size, before, after) in enumerate(zip(sizes, begin, end, strict=True)):
        if (before, after) == (0, 0):
            continue
        places = np.arange(max(-before, 0), size - max(-after, 0))
        places = np.pad(places, (max(before, 0), max(after, 0)), "symmetric")
        value = n.add("Gather", value, n.ints(places.tolist()), axis=axis)
    return value


EXPORTERS: dict[str, ExportFunction] = {"Pad": _pad}
