"""Ranges of the integers in kernel specs: every integer field of every family, bounded on both
sides, also where its value is known at run time only.

Below these bounds, sums and products of a few of the numbers fit into 64 bits; `step_bounds`
computes the products of more, and compares them, too. A stored plan may hold any i64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from ...ir.errors import MemoryLimitError, VerificationError
from ...ir.limits.memory_budget import RAISE_LIMIT
from ...ir.scalar.program import Instr, Program
from ..packing.layouts import PackedConv, PackedGates
from ..plan import KernelStep, Plan
from ..specs.attention import MAX_HEAD, AttentionSpec
from ..specs.base import Operand, RuntimeDim, Size, Spec
from ..specs.convolution import ConvSpec, Window
from ..specs.elementwise import ElementwiseSpec
from ..specs.gather_scatter import GatherScatterSpec, GatherSpec
from ..specs.gemm import Compressed, GemmSpec, PackedB
from ..specs.iota import IotaSpec
from ..specs.pooling import PoolSpec
from ..specs.recurrent import RecurrentSpec
from ..specs.resample import ResampleSpec
from ..specs.roi_align import ROIAlignSpec
from ..specs.rows import NormSpec, ReduceSpec, SoftmaxSpec
from ..specs.scan_topk import ScanSpec, TopKSpec
from ..specs.squeeze_excite import MAX_EXCITED, SqueezeExciteSpec

# The least and the largest value.
Range: TypeAlias = tuple[int, int]

# Elements of the largest address space, with a margin: a sum of several is far below 2^63.
MAX_ELEMENTS: Final = 1 << 48
# Operands, instructions and run-time sizes of a spec are numbered below this.
MAX_NUMBER: Final = 1 << 20
# Elements of a convolution's filter per channel, and taps of a window.
MAX_TAPS: Final = 1 << 20
# Channels that a convolution counts in one group, and groups.
MAX_CHANNELS: Final = 1 << 31
# Samples along each side of a bin of a region.
MAX_SAMPLES: Final = 1 << 10
MAX_PANEL: Final = 1 << 10

COUNT: Final[Range] = (0, MAX_ELEMENTS)
OFFSET: Final[Range] = (-MAX_ELEMENTS, MAX_ELEMENTS)
# An axis of one element may have any stride, as a slice with a large step has; `RegionLayoutTables`
# holds walks of more inside their buffers.
STRIDE: Final[Range] = (-(1 << 62), 1 << 62)
I64: Final[Range] = (-(1 << 63), (1 << 63) - 1)
_NUMBER: Final[Range] = (0, MAX_NUMBER)
_CHANNELS: Final[Range] = (0, MAX_CHANNELS)
_BLOCK: Final[Range] = (1, MAX_PANEL)
_STEP: Final[Range] = (1, MAX_ELEMENTS)

# Fields without integers, and those that hold other dataclasses of this table, are left out.
RANGES: Final[Mapping[type, Mapping[str, Range]]] = {
    RuntimeDim: {"index": _NUMBER},
    Operand: {"strides": STRIDE, "offset": STRIDE},
    Instr: {"args": _NUMBER, "value": (-(1 << 63), (1 << 64) - 1)},
    Program: {"results": _NUMBER},
    PackedB: {"nr": _BLOCK, "kr": _BLOCK},
    PackedConv: {"nr": _BLOCK, "winograd": (0, 4), "kr": _BLOCK},
    PackedGates: {"nr": _BLOCK, "gates": (1, MAX_PANEL), "kr": _BLOCK},
    Compressed: {"group": (1, MAX_ELEMENTS), "zero": (-255, 255)},
    Window: {
        "kernel": (1, MAX_TAPS),
        "strides": _STEP,
        "dilations": _STEP,
        "pads": OFFSET,
    },
    GemmSpec: dict.fromkeys(
        "batch m n k a_m_split a_k_split out_m_split out_n_split".split(),
        COUNT,
    ),
    ElementwiseSpec: {"axes": COUNT},
    ReduceSpec: {"kept": COUNT, "reduced": COUNT},
    SoftmaxSpec: {"axes": COUNT},
    NormSpec: {"axes": COUNT},
    GatherSpec: dict.fromkeys("outer axis count inner".split(), COUNT),
    ConvSpec: {
        "batch": COUNT,
        "groups": (1, MAX_CHANNELS),
        "channels": _CHANNELS,
        "outputs": _CHANNELS,
        "in_sizes": COUNT,
        "out_sizes": COUNT,
    },
    PoolSpec: {
        **dict.fromkeys("batch channels in_sizes out_sizes".split(), COUNT),
        "pads_end": OFFSET,
    },
    RecurrentSpec: {"batch": COUNT, "time": COUNT, "hidden": (1, MAX_CHANNELS)},
    IotaSpec: {"count": COUNT, "start": I64, "step": I64},
    AttentionSpec: {
        **dict.fromkeys("batch queries keys".split(), COUNT),
        "size": (1, MAX_HEAD),
        "width": (1, MAX_HEAD),
        "causal": OFFSET,
    },
    SqueezeExciteSpec: {
        "batch": COUNT,
        "places": COUNT,
        "channels": (1, MAX_EXCITED),
        "hidden": (1, MAX_EXCITED),
    },
    GatherScatterSpec: {"axes": COUNT, "picked": COUNT},
    ScanSpec: {"axes": COUNT, "size": COUNT},
    TopKSpec: {"axes": COUNT, "size": COUNT, "count": COUNT},
    ResampleSpec: {
        **dict.fromkeys("outer axis count middle inner".split(), COUNT),
        "begin": OFFSET,
        # The bits of an element.
        "fill": (-(1 << 63), (1 << 64) - 1),
    },
    ROIAlignSpec: {
        **dict.fromkeys("images height width channels regions".split(), COUNT),
        "rows": (1, MAX_TAPS),
        "columns": (1, MAX_TAPS),
        "ratio": (0, MAX_SAMPLES),
    },
}


def check_ranges(spec: Spec, where: str) -> None:
    """VerificationError for an integer outside its field's range, or without one."""
    for name, size, allowed in ranges_of(spec):
        late = isinstance(size, RuntimeDim)
        number, (low, high) = (size.index, _NUMBER) if late else (size, allowed)
        if not low <= number <= high:
            raise VerificationError(
                "a kernel reads a size the step does not give"
                if late
                else "a number of a kernel is out of range",
                where=f"{where}, {name}",
                got=_shorten(number),
                expected=f"{low}..{high}",
            )


def require_possible_sizes(plan: Plan) -> None:
    """MemoryLimitError for a step whose static sizes no memory can hold."""
    for region in plan.all_regions():
        for step in region.steps:
            if not isinstance(step, KernelStep):
                continue
            for _, size, allowed in ranges_of(step.spec):
                if allowed == COUNT and isinstance(size, int) and size > MAX_ELEMENTS:
                    raise MemoryLimitError(
                        "a tensor has more elements than any memory holds",
                        where=step.name,
                        got=_shorten(size),
                        expected=f"at most {MAX_ELEMENTS} elements",
                        fix=RAISE_LIMIT,
                    )


def ranges_of(spec: object) -> Iterator[tuple[str, Size, Range]]:
    """(field, value, range) of every integer inside, and of every dynamic size."""
    for name, get, allowed in _fields(type(spec)):
        yield from _integers(get(spec), f"{type(spec).__name__}.{name}", allowed)


def _integers(value: Any, name: str, allowed: Range | None) -> Iterator[tuple[str, Size, Range]]:
    if value is None or isinstance(value, bool | float | str):
        return
    if isinstance(value, int | RuntimeDim):
        if allowed is None:
            raise VerificationError("no range is known for an integer of a kernel", where=name)
        yield name, value, allowed
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _integers(item, name, allowed)
    elif dataclasses.is_dataclass(value):
        yield from ranges_of(value)


@cache
def _fields(kind: type) -> tuple[tuple[str, Callable[[Any], Any], Range | None], ...]:
    if not dataclasses.is_dataclass(kind):
        return ()
    known, names = RANGES.get(kind, {}), [f.name for f in dataclasses.fields(kind)]
    return tuple((n, lambda o, n=n: getattr(o, n), known.get(n)) for n in names)


def _shorten(number: int) -> str:
    return str(number) if number.bit_length() < 128 else f"about 2^{number.bit_length() - 1}"
