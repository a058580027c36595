"""Sliding windows: sizes, paddings and views that convolutions and pools share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...dims import Dim, bounds, ceil_div, maximum, minimum
from ...dims.constraints import require_at_least
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array

_TOO_LARGE = "a window is larger than the padded axis it slides on"


@dataclass(frozen=True)
class Windows:
    """Kernel, strides, dilations and paddings of each spatial axis. `rounding`: floor, ceil, or
    ceil_torch (as ceil, but no window begins in the padding at the end)."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str = "explicit"
    rounding: str = "floor"

    @classmethod
    def of(
        cls,
        kernel: Sequence[Dim],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads_begin: Sequence[int],
        pads_end: Sequence[int],
        auto_pad: str,
        rounding: str = "floor",
    ) -> Windows:
        """Empty lists mean ones (strides, dilations) and zeros (paddings).

        ShapeError where a list's length or a number does not fit the number of spatial axes.
        """
        rank = len(kernel)
        lists = {"strides": strides, "dilations": dilations}
        pads = {"pads_begin": pads_begin, "pads_end": pads_end}
        for name, values in (*lists.items(), *pads.items()):
            if values and len(values) != rank:
                raise ShapeError(
                    f"{name} needs one number per spatial axis", got=list(values), expected=rank
                )
        for name, values in lists.items():
            if any(v < 1 for v in values):
                raise ShapeError(f"{name} are 1 or more", got=list(values), expected="1 or more")
        if any(isinstance(d, int) and d < 1 for d in kernel):
            raise ShapeError("a window has 1 or more taps along every axis", got=list(kernel))
        mode = auto_pad.lower()
        if mode not in ("explicit", "same_upper", "same_lower", "valid", "notset"):
            raise ShapeError("unknown auto_pad", got=auto_pad)
        if mode == "valid":
            pads_begin = pads_end = ()
        ones, zeros = (1,) * rank, (0,) * rank
        return cls(
            tuple(kernel),
            tuple(strides) or ones,
            tuple(dilations) or ones,
            tuple(pads_begin) or zeros,
            tuple(pads_end) or zeros,
            mode,
            rounding.lower(),
        )

    @property
    def is_same_padded(self) -> bool:
        return self.auto_pad.startswith("same")

    def extent(self, i: int) -> Dim:
        """How far a window reaches on spatial axis i."""
        return (self.kernel[i] - 1) * self.dilations[i] + 1

    @property
    def hold_data(self) -> bool:
        """Whether every window holds an element of the data for certain, whatever its sizes: none
        is in the paddings, or with every tap next to them, or begins behind all."""
        beyond = 0 if self.rounding != "ceil" else 1
        return all(
            isinstance(k, int)
            and (d == 1 or not (begin or end or self.is_same_padded))
            and begin + end < k
            and end + beyond * (stride - 1) < k
            for k, stride, d, begin, end in zip(
                self.kernel,
                self.strides,
                self.dilations,
                self.pads_begin,
                self.pads_end,
                strict=True,
            )
        )

    def out_sizes(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """How many windows each axis has. ShapeError where a window is larger than its axis."""
        return tuple(self._out_size(i, d) for i, d in enumerate(sizes))

    def _out_size(self, i: int, size: Dim) -> Dim:
        stride = self.strides[i]
        if self.is_same_padded:
            return ceil_div(size, stride)
        padded = size + self.pads_begin[i] + self.pads_end[i]
        room = padded - self.extent(i)
        if (high := bounds(room)[1]) is not None and high < 0:
            raise ShapeError(_TOO_LARGE, got=f"{self.extent(i)} on {padded}")
        require_at_least(self.extent(i), padded, _TOO_LARGE)
        if self.rounding == "floor":
            return room // stride + 1
        count = ceil_div(room, stride) + 1
        if self.rounding == "ceil_torch":
            return minimum(count, (size + self.pads_begin[i] - 1) // stride + 1)
        return count

    def pads(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Paddings (begin, end) of each axis of known size."""
        if not self.is_same_padded:
            return list(zip(self.pads_begin, self.pads_end, strict=True))
        out: list[tuple[int, int]] = []
        for i, size in enumerate(sizes):
            total = maximum(
                (self._out_size(i, size) - 1) * self.strides[i] + self.extent(i) - size, 0
            )
            assert isinstance(total, int)
            less, more = total // 2, total - total // 2
            out.append((less, more) if self.auto_pad == "same_upper" else (more, less))
        return out

    def padded_elements(self, shape: Sequence[int]) -> int:
        """Elements of a padded [N, C, spatial...], at most."""
        found = prod(shape[:2])
        for i, (size, stride) in enumerate(zip(shape[2:], self.strides, strict=True)):
            extent = self.extent(i)
            assert isinstance(extent, int)
            pads = self.pads_begin[i] + self.pads_end[i]
            found *= size + max(pads, extent if self.is_same_padded else 0) + stride
        return found

    def view(self, data: Array, fill: object) -> Array:
        """[N, C, out..., kernel...]: every window of a padded [N, C, spatial...], read-only."""
        sizes = data.shape[2:]
        counts = [int(d) for d in self.out_sizes(sizes) if isinstance(d, int)]
        pads = self.pads(sizes)
        widths: list[tuple[int, int]] = [(0, 0), (0, 0)]
        reach: list[int] = []
        for i, (begin, end) in enumerate(pads):
            extent = self.extent(i)
            assert isinstance(extent, int)
            need = (counts[i] - 1) * self.strides[i] + extent
            widths.append((begin, max(end, need - begin - sizes[i])))
            reach.append(extent)
        padded = np.full(
            [n + sum(w) for n, w in zip(data.shape, widths, strict=True)], fill, data.dtype
        )
        inside = tuple(slice(w[0], w[0] + n) for n, w in zip(data.shape, widths, strict=True))
        padded[inside] = data
        axes = tuple(range(2, data.ndim))
        view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
        starts = [slice(0, (c - 1) * s + 1, s) for c, s in zip(counts, self.strides, strict=True)]
        steps = [slice(None, None, d) for d in self.dilations]
        return view[(slice(None), slice(None), *starts, *steps)]
