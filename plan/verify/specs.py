"""What a kernel generator may rely on, checked spec by spec: programs, types, kinds, panel widths.

`verify_plan` and `RegionLayoutTables` keep a step's operands inside their buffers. A generator
trusts more than that: that a program's instructions are well-formed and typed, that what it stores
has the type of the operand it stores to, and that packed panels have the Target's width. Lowering
writes specs for which all of it holds; a spec from a file is believed only after this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...ir.dtype import DType
from ...ir.types import MAX_RANK
from ..packing.panel_params import BYTES, cell_depth, conv_cells, panel_width
from ..specs.attention import MAX_HEAD, AttentionSpec
from ..specs.base import Size, Spec
from ..specs.convolution import ConvSpec, Window
from ..specs.elementwise import ElementwiseSpec
from ..specs.gather_scatter import GatherSpec
from ..specs.gemm import GemmSpec
from ..specs.pooling import PoolSpec
from ..specs.recurrent import MAX_GATES, RecurrentSpec
from ..specs.resample import ResampleSpec
from ..specs.roi_align import ROIAlignSpec
from ..specs.rows import NormSpec, ReduceSpec, SoftmaxSpec
from ..specs.squeeze_excite import SqueezeExciteSpec
from ..target import Target
from .gather_scatter import PICK_CHECKS
from .gemm import fit_factors, fit_one_of, fit_rounded, verify_gemm
from .plan import walks
from .resample import verify_resample
from .roi_align import verify_regions
from .scalar_program import MAX_OPERANDS, broken, stored, types_of, verify_program
from .spec_ranges import check_ranges
from .squeeze_excite import verify_excite
from .step_bounds import check_window

_REDUCTIONS: Final = ("sum", "max", "min", "prod", "any", "all")


def verify_specs(specs: Sequence[Spec], target: Target) -> None:
    """VerificationError where a generator for `target` could be misled."""
    for spec in specs:
        where = f"{spec.family} kernel"
        check_ranges(spec, where)
        operands = spec.operands()
        if len(operands) > MAX_OPERANDS:
            raise broken("a kernel has too many operands", where, len(operands), MAX_OPERANDS)
        if any(len(walk) > MAX_RANK for walk in walks(spec)):
            raise broken("a kernel has too many axes", where, "", MAX_RANK)
        check = _CHECKS.get(type(spec))
        if check is not None:
            check(spec, target, where)
        if isinstance(spec, ConvSpec | PoolSpec):
            # Generated code depends on the sizes that are known; the others come with a call.
            check_window(spec, lambda s: s if isinstance(s, int) else 0, where)


def _elementwise(s: ElementwiseSpec, _: Target, where: str) -> None:
    given = types_of(s.inputs)
    stored(verify_program(s.program, given, where), types_of(s.outs), where)


def _conv(s: ConvSpec, target: Target, where: str) -> None:  # noqa: C901 - a list of independent checks
    widths = (target.lanes(s.acc.bits), panel_width(target, s.acc.bits))
    if s.packed.nr not in widths:
        raise broken("packed panels have another width", where, s.packed.nr, widths)
    if min(s.groups, s.channels, s.outputs) < 0 or s.groups < 1:
        raise broken("a convolution counts no channels", where, s.groups, "at least 1")
    if s.weights.strides != (1,) or s.weights.offset != 0:
        raise broken("packed weights are not a plain array", where, s.weights.strides, (1,))
    whole = s.acc is DType.i32
    if s.packed.winograd:
        plain = s.groups == 1 and not s.packed.grouped and (whole or s.acc is DType.f32)
        slides = (s.window.kernel, s.window.strides, s.window.dilations)
        if not plain or slides != ((3, 3), (1, 1), (1, 1)) or s.data.strides[1] != 1:
            raise broken("a convolution that Winograd's transform is not for", where, slides, None)
        if s.packed.winograd not in ((4,) if whole else (2, 4)) or s.packed.depthwise:
            raise broken("no such Winograd transform", where, s.packed.winograd, "2 or 4, of f32")
        fit_one_of(s.data.dtype, BYTES if whole else (DType.f32,), where)
        fit_one_of(s.weights.dtype, (DType.i16 if whole else DType.f32,), where)
        if whole and cell_depth(target, DType.i8) == 1:
            raise broken("no unit multiplies pairs of 16 bits", where, target.isa, None)
    if s.packed.depthwise and (s.channels, s.outputs, s.data.strides[1]) != (1, 1, 1):
        got = (s.channels, s.outputs, s.data.strides[1])
        raise broken("a depthwise convolution's channels do not fit", where, got, (1, 1, 1))
    _window(s.window, s.in_sizes, s.out_sizes, where)
    fit_factors(types_of([s.data, s.weights]), s.acc, where)
    kr, sums = conv_cells(target, s.weights.dtype, s.compute_dtype)
    if s.packed.depthwise:
        kr, sums = 1, False
    elif s.packed.winograd:
        kr, sums = (2 if whole else 1), False
    runs = kr > 1 and not s.packed.winograd and s.window.dilations[-1] == 1
    wanted = (kr, runs, sums)
    if (s.packed.kr, s.packed.runs, s.packed.column_sums) != wanted:
        raise broken("packed panels have cells of another depth", where, s.packed, wanted)
    if s.packed != s.packed.with_tails(s.channels, s.window.kernel):
        raise broken("packed rows of taps end otherwise", where, s.packed.tails, None)
    _conv_bytes(s, where)
    if s.compute_dtype is not None:
        fit_rounded(s.compute_dtype, s.acc, where)
        fit_one_of(s.data.dtype, (DType.bf16, DType.f32), where)
        fit_one_of(s.weights.dtype, (DType.bf16,), where)
        if not s.window.copyable:
            raise broken("windows reach too far to be copied", where, s.window, "")
        if s.packed.winograd:
            raise broken("Winograd's transform rounds no factors", where, s.compute_dtype, None)
    results = verify_program(s.epilogue, [s.acc, *types_of(s.epilogue_operands)], where)
    stored(results, [s.out.dtype], where)


def _conv_bytes(s: ConvSpec, where: str) -> None:
    """Bytes are multiplied by i8 or i16 and summed in i32; only they have a zero point."""
    if s.data.dtype not in BYTES and s.zero_point is None:
        return
    fit_one_of(s.data.dtype, BYTES, where)
    fit_one_of(s.weights.dtype, (DType.i8, DType.i16), where)
    if s.acc is not DType.i32 or s.compute_dtype is not None:
        raise broken("a convolution of bytes sums otherwise", where, s.acc, DType.i32)
    if s.zero_point is not None and (s.zero_point.dtype, s.zero_point.strides) != (
        s.data.dtype,
        (0,),
    ):
        raise broken("a zero point is not one number of the data's type", where, s.zero_point, None)
    if not s.packed.depthwise and not s.window.copyable:
        raise broken("windows reach too far to be copied", where, s.window, "")


def _pool(s: PoolSpec, _: Target, where: str) -> None:
    if s.kind not in ("max", "sum") or s.counted not in ("window", "data", "padded"):
        raise broken("a pooling of an unknown kind", where, f"{s.kind}, {s.counted}", "max, sum")
    _window(s.window, s.in_sizes, s.out_sizes, where)
    if len(s.pads_end) != len(s.window.pads):
        raise broken("a window's paddings differ in number", where, len(s.pads_end), None)
    fit_factors(types_of([s.data]), s.acc, where)
    stored(verify_program(s.epilogue, [s.acc, s.acc], where), [s.out.dtype], where)


def _window(w: Window, data: Sequence[Size], out: Sequence[Size], where: str) -> None:
    counts = {len(x) for x in (data, out, w.kernel, w.strides, w.dilations, w.pads)}
    if len(counts) != 1 or not 1 <= len(data) <= 3:
        raise broken("a window's axes differ in number", where, sorted(counts), "1, 2 or 3")
    if any(x < 1 for x in (*w.kernel, *w.strides, *w.dilations)) or math.prod(w.kernel) > 1 << 20:
        raise broken("a window's sizes are not sizes", where, w.kernel, "at least 1")


def _reduce(s: ReduceSpec, _: Target, where: str) -> None:
    if s.kind not in _REDUCTIONS:
        raise broken("a reduction of an unknown kind", where, s.kind, ", ".join(_REDUCTIONS))
    held = verify_program(s.prologue, types_of(s.inputs), where)
    _count(held, 1, where)
    if s.kind in ("any", "all") and held[0] is not DType.boolean:
        raise broken("a reduction's type does not fit its kind", where, held[0], DType.boolean)
    stored(verify_program(s.epilogue, [held[0], held[0]], where), [s.out.dtype], where)


def _softmax(s: SoftmaxSpec, _: Target, where: str) -> None:
    held = verify_program(s.prologue, types_of(s.inputs), where)
    _count(held, 1, where)
    _floats([*held, s.out.dtype], where)


def _norm(s: NormSpec, _: Target, where: str) -> None:
    held = verify_program(s.prologue, types_of(s.inputs), where)
    _count(held, 1, where)
    made = verify_program(s.epilogue, [held[0], *types_of(s.epilogue_operands)], where)
    _count(made, 1, where)
    if len(s.outs) not in (1, 2):
        raise broken("a normalisation has too many outputs", where, len(s.outs), "1 or 2")
    first, *second = types_of(s.outs)
    _floats([*held, *second], where)
    if made != [first]:
        _floats([*made, first], where)


def _gather(s: GatherSpec, _: Target, where: str) -> None:
    if s.out_of_range not in ("error", "zeros"):
        raise broken("no rule for indices out of range", where, s.out_of_range, "error, zeros")
    if not s.index.dtype.is_int or s.index.dtype.bits < 8:
        raise broken("an index is not an integer", where, s.index.dtype, "an integer type")
    stored([s.data.dtype], [s.out.dtype], where)


def _recurrent(s: RecurrentSpec, target: Target, where: str) -> None:
    directions = s.reverse in ((False,), (True,), (False, True))
    if not 1 <= s.gates <= MAX_GATES or s.hidden < 1 or not directions:
        got = f"{s.gates} gates, hidden {s.hidden}, reverse {s.reverse}"
        raise broken("a recurrent layer of an unknown kind", where, got, f"1..{MAX_GATES} gates")
    if s.packed.nr != (nr := s.gates * target.lanes(32)):
        raise broken("packed panels have another width", where, s.packed.nr, nr)
    if not s.states or len(s.outs) != len(s.states) + 1:
        raise broken("states do not fit the outputs", where, len(s.states), len(s.outs) - 1)
    given = [DType.f32] * s.program_inputs
    stored(verify_program(s.step, given, where), types_of(s.states), where)
    if s.early is not None:
        stored(verify_program(s.early, given, where), [DType.f32] * 2, where)
        if any(i.op == "input" and i.args[0] == s.gates - 1 for i in s.early.instrs):
            raise broken("a product is read before it is made", where, s.gates - 1, None)
    if s.lengths is not None and s.lengths.dtype not in (DType.i32, DType.i64):
        raise broken("lengths are not integers", where, s.lengths.dtype, "i32 or i64")
    if s.compute_dtype not in (None, DType.bf16) or s.packed.kr != cell_depth(
        target, s.compute_dtype
    ):
        got = f"{s.compute_dtype} by {s.packed.kr}"
        raise broken("factors that no kernel rounds so", where, got, "bf16 in the unit's cells")
    for operand in s.operands():
        wanted = s.compute_dtype or DType.f32 if operand is s.weights else DType.f32
        plain = operand.dtype is wanted and operand.strides[-1] == 1
        if operand is not s.lengths and not plain:
            got = f"{operand.dtype}, {operand.strides}"
            raise broken("an operand is not a plain row", where, got, f"{wanted}, last stride 1")


def _attention(s: AttentionSpec, _: Target, where: str) -> None:
    if not (1 <= s.size <= MAX_HEAD and 1 <= s.width <= MAX_HEAD):
        raise broken("heads of a size no kernel has", where, (s.size, s.width), f"1..{MAX_HEAD}")
    if not (math.isfinite(s.scale) and math.isfinite(s.cap)) or math.isnan(s.fill):
        found = f"{s.scale}, fill {s.fill}, cap {s.cap}"
        raise broken("a scale is not a finite number", where, found, "numbers")
    if s.compute_dtype not in (None, DType.bf16):
        raise broken(
            "a product rounds its factors to another type", where, s.compute_dtype, DType.bf16
        )
    plain = (s.query, s.key, s.value, s.out)
    if s.mask is not None and s.mask.dtype is not DType.boolean:
        plain = (*plain, s.mask)
    if s.sink is not None:
        plain = (*plain, s.sink)
    for t in types_of(plain):
        if t not in (DType.f32, DType.f16, DType.bf16):
            raise broken("no attention of this type", where, t, "f32, f16, bf16")
    for operand in plain[:4]:
        if operand.strides[-1] != 1:
            raise broken("rows of heads are not contiguous", where, operand.strides, "1 at the end")


# What each family's generator relies on. Families that are not listed rely on iteration_spaces()
# alone.
_CHECKS: Final[Mapping[type[Spec], Callable[[Any, Target, str], None]]] = {
    ElementwiseSpec: _elementwise,
    GemmSpec: verify_gemm,
    ReduceSpec: _reduce,
    SoftmaxSpec: _softmax,
    NormSpec: _norm,
    GatherSpec: _gather,
    ConvSpec: _conv,
    PoolSpec: _pool,
    RecurrentSpec: _recurrent,
    AttentionSpec: _attention,
    SqueezeExciteSpec: verify_excite,
    **PICK_CHECKS,
    ROIAlignSpec: verify_regions,
    ResampleSpec: verify_resample,
}


def _count(results: Sequence[DType], count: int, where: str) -> None:
    if len(results) != count:
        raise broken("a program has not as many results as it needs", where, len(results), count)


def _floats(types: Sequence[DType], where: str) -> None:
    if not all(t.is_float for t in types):
        raise broken("a kernel of floats has another type", where, ", ".join(map(str, types)), "")
