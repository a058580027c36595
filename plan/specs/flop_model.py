"""What a kernel has to do, from its spec: arithmetic operations, for profiles and benchmarks.

A multiply-add counts as two operations, every other instruction of a scalar program as one. A
convolution counts as if it were computed directly, also where Winograd's transform saves products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from .attention import AttentionSpec
from .base import RuntimeDim, Size, Spec
from .convolution import ConvSpec
from .elementwise import ElementwiseSpec
from .gemm import GemmSpec
from .recurrent import RecurrentSpec
from .rows import ReduceSpec
from .squeeze_excite import SqueezeExciteSpec

Resolve = Callable[[Size], int]


def operations(spec: Spec, dims: Sequence[int]) -> int | None:
    """Arithmetic operations of one run; None for families whose work is moving data.

    dims: the values of the step's run-time sizes, by RuntimeDim.index.
    """
    cost = _COSTS.get(type(spec))
    if cost is None:
        return None
    return cost(spec, lambda size: int(dims[size.index]) if isinstance(size, RuntimeDim) else size)


def unit_of(spec: Spec) -> str:
    """The unit of a core whose peak bounds the kernel: f32, f64, bf16 or int8."""
    factors = getattr(spec, "compute_dtype", None)
    if factors is not None:
        return str(factors)
    types = {o.dtype for o in spec.operands()}
    if isinstance(spec, GemmSpec | ConvSpec):
        types = {spec.acc}
        winograd = isinstance(spec, ConvSpec) and spec.packed.winograd
        factors = spec.operands()[: 1 if winograd else 2]
        if spec.acc is DType.i32 and all(o.dtype.bits == 8 for o in factors):
            return "int8"
    return "f64" if DType.f64 in types else "f32"


def _instructions(program: Program) -> int:
    return sum(i.op not in ("input", "const", "cast", "flush") for i in program.instrs)


def _gemm(s: GemmSpec, at: Resolve) -> int:
    places = math.prod(map(at, s.batch)) * at(s.m) * at(s.n)
    return places * (2 * at(s.k) + _instructions(s.epilogue))


def _conv(s: ConvSpec, at: Resolve) -> int:
    places = at(s.batch) * s.groups * s.outputs * math.prod(map(at, s.out_sizes))
    return places * (2 * s.channels * math.prod(s.window.kernel) + _instructions(s.epilogue))


def _attention(s: AttentionSpec, at: Resolve) -> int:
    scores = math.prod(map(at, s.batch)) * at(s.queries) * at(s.keys)
    return scores * 2 * (s.size + s.width)


def _recurrent(s: RecurrentSpec, at: Resolve) -> int:
    cells = len(s.reverse) * at(s.batch) * at(s.time) * s.hidden
    return cells * 2 * s.gates * s.hidden


def _excite(s: SqueezeExciteSpec, at: Resolve) -> int:
    image = math.prod(map(at, s.places)) * s.channels
    each = image * (1 + _instructions(s.scale)) + 4 * s.channels * s.hidden
    return at(s.batch) * each


def _elementwise(s: ElementwiseSpec, at: Resolve) -> int | None:
    return math.prod(map(at, s.axes)) * _instructions(s.program) or None


def _reduce(s: ReduceSpec, at: Resolve) -> int:
    return math.prod(map(at, (*s.kept, *s.reduced))) * (1 + _instructions(s.prologue))


_COSTS: dict[type[Spec], Callable[[Any, Resolve], int | None]] = {
    GemmSpec: _gemm,
    ConvSpec: _conv,
    AttentionSpec: _attention,
    RecurrentSpec: _recurrent,
    ElementwiseSpec: _elementwise,
    ReduceSpec: _reduce,
    SqueezeExciteSpec: _excite,
}
