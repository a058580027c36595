"""What a kernel generator may rely on, checked spec by spec: programs, types, kinds, panel widths.

`verify_plan` and `RegionTables` keep a step's operands inside their buffers. A generator trusts
more than that: that a program's instructions are well-formed and typed, that what it stores has
the type of the operand it stores to, and that packed panels have the Target's width. Lowering
writes specs for which all of it holds; a spec from a file is believed only after this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .dtype import DType
from .errors import VerificationError
from .scalar import Builder
from .specs import (
    SCALAR_OPS,
    Compressed,
    DimArg,
    ElementwiseSpec,
    GatherSpec,
    GemmSpec,
    Instr,
    NormSpec,
    Operand,
    Program,
    ReduceSpec,
    Size,
    SoftmaxSpec,
    Spec,
)
from .specs_attention import MAX_HEAD, AttentionSpec
from .specs_conv import ConvSpec, PoolSpec, Window
from .specs_recurrent import ACTIVATION_NAMES, ACTIVATIONS, RecurrentSpec
from .specs_resample import ResampleSpec
from .target import Target
from .tiles import BYTES, cell_depth, cell_type, compressed_layout, conv_cells, panel_width
from .types import MAX_RANK
from .verify_picks import PICK_CHECKS
from .verify_plan import walks
from .verify_resample import verify_resample

# Beyond these a spec is no work of lowering, and compiling it would take minutes.
MAX_INSTRUCTIONS: Final = 4096
MAX_OPERANDS: Final = 256
_REDUCTIONS: Final = ("sum", "max", "min", "prod", "any", "all")


def verify_specs(specs: Sequence[Spec], target: Target) -> None:
    """VerificationError where a generator for `target` could be misled."""
    for spec in specs:
        where = f"{spec.family} kernel"
        operands = spec.operands()
        if len(operands) > MAX_OPERANDS:
            raise _broken("a kernel has too many operands", where, len(operands), MAX_OPERANDS)
        if any(len(walk) > MAX_RANK for walk in walks(spec)):
            raise _broken("a kernel has too many axes", where, "", MAX_RANK)
        check = _CHECKS.get(type(spec))
        if check is not None:
            check(spec, target, where)


def _elementwise(s: ElementwiseSpec, _: Target, where: str) -> None:
    given = _types(s.inputs)
    _stored(verify_program(s.program, given, where), _types(s.outs), where)


def _gemm(s: GemmSpec, target: Target, where: str) -> None:
    if s.compressed is not None:
        _compressed(s, s.compressed, target, where)
        return
    if s.packed is not None and s.packed.nr != (nr := panel_width(target, s.acc.bits)):
        raise _broken("packed panels have another width", where, s.packed.nr, nr)
    kind = cell_type(s)
    if s.packed is not None and s.packed.kr != (kr := cell_depth(target, kind)):
        raise _broken("packed panels have cells of another depth", where, s.packed.kr, kr)
    if s.packed is not None and s.packed.sums != (kind is DType.i8):
        raise _broken("packed panels have sums, or lack them", where, s.packed, s.b.dtype)
    _factors([s.a, s.b], s.acc, where)
    _bytes(s, where)
    if s.factors is not None:
        _rounded(s.factors, s.acc, where)
        _one_of(s.a, (DType.bf16, DType.f32), where)
        packed = s.packed is not None
        _one_of(s.b, (DType.bf16,) if packed else (DType.bf16, DType.f32), where)
    results = verify_program(s.epilogue, [s.acc, *_types(s.extras)], where)
    _stored(results, [s.out.dtype], where)


def _compressed(s: GemmSpec, c: Compressed, target: Target, where: str) -> None:
    """Integers of at most 8 bits in the panels that kernels expand; sums of f32."""
    if s.zeros:
        raise _broken("zero points of bytes beside compressed weights", where, len(s.zeros), 0)
    assert isinstance(s.k, int) and isinstance(s.n, int)
    layout = compressed_layout(s.k, s.n, s.b.dtype, c.group, target)
    if layout is None or s.packed != layout:
        raise _broken("compressed weights have another layout", where, s.packed, layout)
    for o in (s.b, *s.scaling()):
        if any(o.strides) or o.offset != 0:
            raise _broken("compressed weights are no single matrix", where, o.strides, 0)
    if c.scale.dtype not in (DType.f32, DType.f16, DType.bf16):
        raise _broken("scales of another type", where, c.scale.dtype, "f32, f16 or bf16")
    if c.normal and c.scale.dtype is not DType.f16:
        raise _broken("only f16 scales are called normal", where, c.scale.dtype, DType.f16)
    if isinstance(c.zero, Operand):
        if c.zero.dtype not in (DType.u8, DType.i8):
            raise _broken("zeros of another type", where, c.zero.dtype, "u8 or i8")
    elif not -256 < c.zero < 256:
        raise _broken("a zero that is no value of the weights", where, c.zero, "-255..255")
    if s.acc is not DType.f32 or s.factors not in (None, DType.bf16):
        raise _broken("compressed weights are multiplied as f32", where, s.acc, DType.f32)
    _factors([s.a], s.acc, where)
    if s.factors is not None and s.a.dtype is DType.f16:
        raise _broken("a product's types do not fit", where, s.a.dtype, "bf16 or f32")
    results = verify_program(s.epilogue, [s.acc, *_types(s.extras)], where)
    _stored(results, [s.out.dtype], where)


def _factors(operands: Sequence[Operand], acc: DType, where: str) -> None:
    """Elements can be widened to the accumulator's type."""
    for t in _types(operands):
        fits = t.is_float is acc.is_float and t.bits <= acc.bits
        if not fits or not (t.is_float or t.is_int):
            raise _broken("a product's types do not fit", where, t, acc)


def _rounded(factors: DType, acc: DType, where: str) -> None:
    """Factors are rounded to bf16 only, in f32."""
    if factors is not DType.bf16 or acc is not DType.f32:
        raise _broken("a product rounds its factors to another type", where, factors, DType.bf16)


def _one_of(operand: Operand, allowed: Sequence[DType], where: str) -> None:
    """An operand has one of a few types."""
    if operand.dtype not in allowed:
        expected = " or ".join(map(str, allowed))
        raise _broken("a product's types do not fit", where, operand.dtype, expected)


def _bytes(s: GemmSpec, where: str) -> None:
    """Bytes are multiplied by bytes, summed in i32, and only they have zero points."""
    either = s.a.dtype in BYTES or s.b.dtype in BYTES
    if either or s.zeros:
        both = s.a.dtype in BYTES and s.b.dtype in BYTES
        if not both or s.acc is not DType.i32 or s.factors is not None:
            got = f"{s.a.dtype} by {s.b.dtype} in {s.acc}"
            raise _broken("a product's types do not fit", where, got, "u8 or i8, in i32")
    for zero, of in ((s.a_zero, s.a), (s.b_zero, s.b)):
        if zero is not None and zero.dtype is not of.dtype:
            raise _broken("a zero point is not of its operand's type", where, zero.dtype, of.dtype)


def _conv(s: ConvSpec, target: Target, where: str) -> None:
    widths = (target.lanes(s.acc.bits), panel_width(target, s.acc.bits))
    if s.packed.nr not in widths:
        raise _broken("packed panels have another width", where, s.packed.nr, widths)
    if min(s.groups, s.channels, s.outputs) < 0 or s.groups < 1:
        raise _broken("a convolution counts no channels", where, s.groups, "at least 1")
    if s.weights.strides != (1,) or s.weights.offset != 0:
        raise _broken("packed weights are no plain array", where, s.weights.strides, (1,))
    if s.packed.winograd:
        plain = s.groups == 1 and not s.packed.grouped and s.acc is s.data.dtype is DType.f32
        slides = (s.window.kernel, s.window.strides, s.window.dilations)
        if not plain or slides != ((3, 3), (1, 1), (1, 1)) or s.data.strides[1] != 1:
            raise _broken("a convolution that Winograd's transform is not for", where, slides, None)
        if s.packed.winograd not in (2, 4) or s.packed.depthwise:
            raise _broken("no such Winograd transform", where, s.packed.winograd, "2 or 4")
    if s.packed.depthwise and (s.channels, s.outputs, s.data.strides[1]) != (1, 1, 1):
        got = (s.channels, s.outputs, s.data.strides[1])
        raise _broken("a depthwise convolution's channels do not fit", where, got, (1, 1, 1))
    _window(s.window, s.in_sizes, s.out_sizes, where)
    _factors([s.data, s.weights], s.acc, where)
    kr, sums = conv_cells(target, s.weights.dtype, s.factors)
    if s.packed.depthwise or s.packed.winograd:
        kr, sums = 1, False
    wanted = (kr, kr > 1 and s.window.dilations[-1] == 1, sums)
    if (s.packed.kr, s.packed.runs, s.packed.sums) != wanted:
        raise _broken("packed panels have cells of another depth", where, s.packed, wanted)
    _conv_bytes(s, where)
    if s.factors is not None:
        _rounded(s.factors, s.acc, where)
        _one_of(s.data, (DType.bf16, DType.f32), where)
        _one_of(s.weights, (DType.bf16,), where)
        if not s.window.copyable:
            raise _broken("windows reach too far to be copied", where, s.window, "")
        if s.packed.winograd:
            raise _broken("Winograd's transform rounds no factors", where, s.factors, None)
    results = verify_program(s.epilogue, [s.acc, *_types(s.extras)], where)
    _stored(results, [s.out.dtype], where)


def _conv_bytes(s: ConvSpec, where: str) -> None:
    """Bytes are multiplied by i8 or i16 and summed in i32; only they have a zero point."""
    if s.data.dtype not in BYTES and s.zero is None:
        return
    _one_of(s.data, BYTES, where)
    _one_of(s.weights, (DType.i8, DType.i16), where)
    if s.acc is not DType.i32 or s.factors is not None or s.packed.winograd:
        raise _broken("a convolution of bytes sums otherwise", where, s.acc, DType.i32)
    if s.zero is not None and (s.zero.dtype, s.zero.strides) != (s.data.dtype, (0,)):
        raise _broken("a zero point is not one number of the data's type", where, s.zero, None)
    if not s.packed.depthwise and not s.window.copyable:
        raise _broken("windows reach too far to be copied", where, s.window, "")


def _pool(s: PoolSpec, _: Target, where: str) -> None:
    if s.kind not in ("max", "sum") or s.counted not in ("window", "data", "padded"):
        raise _broken("a pooling of an unknown kind", where, f"{s.kind}, {s.counted}", "max, sum")
    _window(s.window, s.in_sizes, s.out_sizes, where)
    if len(s.pads_end) != len(s.window.pads):
        raise _broken("a window's paddings differ in number", where, len(s.pads_end), None)
    _factors([s.data], s.acc, where)
    _stored(verify_program(s.epilogue, [s.acc, s.acc], where), [s.out.dtype], where)


def _window(w: Window, data: Sequence[Size], out: Sequence[Size], where: str) -> None:
    counts = {len(x) for x in (data, out, w.kernel, w.strides, w.dilations, w.pads)}
    if len(counts) != 1 or not 1 <= len(data) <= 3:
        raise _broken("a window's axes differ in number", where, sorted(counts), "1, 2 or 3")
    if any(x < 1 for x in (*w.kernel, *w.strides, *w.dilations)) or math.prod(w.kernel) > 1 << 20:
        raise _broken("a window's sizes are no sizes", where, w.kernel, "at least 1")


def _reduce(s: ReduceSpec, _: Target, where: str) -> None:
    if s.kind not in _REDUCTIONS:
        raise _broken("a reduction of an unknown kind", where, s.kind, ", ".join(_REDUCTIONS))
    held = verify_program(s.prologue, _types(s.inputs), where)
    _count(held, 1, where)
    if s.kind in ("any", "all") and held[0] is not DType.boolean:
        raise _broken("a reduction's type does not fit its kind", where, held[0], DType.boolean)
    _stored(verify_program(s.epilogue, [held[0], held[0]], where), [s.out.dtype], where)


def _softmax(s: SoftmaxSpec, _: Target, where: str) -> None:
    held = verify_program(s.prologue, _types(s.inputs), where)
    _count(held, 1, where)
    _floats([*held, s.out.dtype], where)


def _norm(s: NormSpec, _: Target, where: str) -> None:
    held = verify_program(s.prologue, _types(s.inputs), where)
    _count(held, 1, where)
    made = verify_program(s.epilogue, [held[0], *_types(s.extras)], where)
    _count(made, 1, where)
    if len(s.outs) not in (1, 2):
        raise _broken("a normalisation has too many outputs", where, len(s.outs), "1 or 2")
    _floats([*held, *made, *_types(s.outs)], where)


def _gather(s: GatherSpec, _: Target, where: str) -> None:
    if s.out_of_range not in ("error", "zeros"):
        raise _broken("no rule for indices out of range", where, s.out_of_range, "error, zeros")
    if not s.index.dtype.is_int or s.index.dtype.bits < 8:
        raise _broken("an index is no whole number", where, s.index.dtype, "an integer type")
    _stored([s.data.dtype], [s.out.dtype], where)


def _recurrent(s: RecurrentSpec, target: Target, where: str) -> None:
    count = ACTIVATIONS.get(s.cell)
    if count is None or s.hidden < 1 or not 1 <= len(s.reverse) <= 2:
        got = f"{s.cell}, hidden {s.hidden}, {len(s.reverse)} directions"
        raise _broken("a recurrent layer of an unknown kind", where, got, ", ".join(ACTIVATIONS))
    if s.packed.nr != (nr := panel_width(target, 32)):
        raise _broken("packed panels have another width", where, s.packed.nr, nr)
    if len(s.activations) != count or not set(s.activations) <= set(ACTIVATION_NAMES):
        raise _broken("activations do not fit the cell", where, s.activations, count)
    if s.packed.gates != s.gates:
        raise _broken("packed gates do not fit the cell", where, s.packed.gates, s.gates)
    states = 2 if s.cell == "lstm" else 1
    if len(s.states) != states or len(s.outs) != states + 1:
        raise _broken("states do not fit the cell", where, len(s.states), states)
    if (s.bias is not None) and s.cell != "gru_linear":
        raise _broken("only one cell has a bias of its own", where, s.cell, "gru_linear")
    if s.lengths is not None and s.lengths.dtype not in (DType.i32, DType.i64):
        raise _broken("lengths are no whole numbers", where, s.lengths.dtype, "i32 or i64")
    if s.factors not in (None, DType.bf16) or s.packed.kr != cell_depth(target, s.factors):
        got = f"{s.factors} by {s.packed.kr}"
        raise _broken("factors that no kernel rounds so", where, got, "bf16 in the unit's cells")
    for operand in s.operands():
        wanted = s.factors or DType.f32 if operand is s.weights else DType.f32
        plain = operand.dtype is wanted and operand.strides[-1] == 1
        if operand is not s.lengths and not plain:
            got = f"{operand.dtype}, {operand.strides}"
            raise _broken("an operand is no plain row", where, got, f"{wanted}, last stride 1")


def _attention(s: AttentionSpec, _: Target, where: str) -> None:
    if not (1 <= s.size <= MAX_HEAD and 1 <= s.width <= MAX_HEAD):
        raise _broken("heads of a size no kernel has", where, (s.size, s.width), f"1..{MAX_HEAD}")
    if not math.isfinite(s.scale) or math.isnan(s.fill):
        raise _broken("a scale is no finite number", where, f"{s.scale}, fill {s.fill}", "numbers")
    if s.factors not in (None, DType.bf16):
        raise _broken("a product rounds its factors to another type", where, s.factors, DType.bf16)
    fixed = s.causal.index if isinstance(s.causal, DimArg) else s.causal or 0
    if abs(fixed) >= 1 << 62 or (isinstance(s.causal, DimArg) and fixed < 0):
        raise _broken("a causal mask begins nowhere", where, s.causal, "a size")
    plain = (s.query, s.key, s.value, s.out)
    if s.mask is not None and s.mask.dtype is not DType.boolean:
        plain = (*plain, s.mask)
    for t in _types(plain):
        if t not in (DType.f32, DType.f16, DType.bf16):
            raise _broken("no attention of this type", where, t, "f32, f16, bf16")
    for operand in plain[:4]:
        if operand.strides[-1] != 1:
            raise _broken(
                "rows of heads are not contiguous", where, operand.strides, "1 at the end"
            )


# What each family's generator relies on. Families that are not listed rely on walks() alone.
_CHECKS: Final[Mapping[type[Spec], Callable[[Any, Target, str], None]]] = {
    ElementwiseSpec: _elementwise,
    GemmSpec: _gemm,
    ReduceSpec: _reduce,
    SoftmaxSpec: _softmax,
    NormSpec: _norm,
    GatherSpec: _gather,
    ConvSpec: _conv,
    PoolSpec: _pool,
    RecurrentSpec: _recurrent,
    AttentionSpec: _attention,
    **PICK_CHECKS,
    ResampleSpec: verify_resample,
}


def verify_program(program: Program, inputs: Sequence[DType], where: str) -> list[DType]:
    """The types of a program's results, its instructions checked one by one."""
    count = len(program.instrs)
    if count > MAX_INSTRUCTIONS or len(program.results) > MAX_OPERANDS:
        raise _broken("a scalar program is too long", where, count, MAX_INSTRUCTIONS)
    found: list[DType] = []
    for instr in program.instrs:
        made = _instruction(instr, found, inputs, where)
        if made is not instr.dtype:
            got = f"{instr.op}: {instr.dtype}"
            raise _broken("an instruction has another type", where, got, made)
        found.append(made)
    for r in program.results:
        if not 0 <= r < count:
            raise _broken("a program's result is no instruction", where, r, f"0..{count - 1}")
    return [found[r] for r in program.results]


def _instruction(
    instr: Instr, found: Sequence[DType], inputs: Sequence[DType], where: str
) -> DType:
    """The type an instruction's value has."""
    wanted = 1 if instr.op == "input" else SCALAR_OPS.get(instr.op)
    if wanted is None or len(instr.args) != wanted:
        raise _broken("no such scalar operation", where, f"{instr.op} of {len(instr.args)}", None)
    known = inputs if instr.op == "input" else found
    for a in instr.args:
        if not 0 <= a < len(known):
            got = f"{instr.op} of number {a}"
            raise _broken("an instruction reads what there is not", where, got, len(known))
    if instr.op == "input":
        return inputs[instr.args[0]]
    if instr.dtype in (DType.dynamic, DType.string) or instr.dtype.is_complex:
        raise _broken("a scalar program cannot hold this type", where, instr.dtype, None)
    if instr.op == "const":
        if not isinstance(instr.value, bool | int | float):
            raise _broken("a constant without a value", where, instr.value, instr.dtype)
        if not instr.dtype.is_float and isinstance(instr.value, float):
            raise _broken("a constant of another type", where, instr.value, instr.dtype)
        return instr.dtype
    if instr.op == "cast":
        return instr.dtype
    builder = Builder()
    args = [builder.input(n, found[a]) for n, a in enumerate(instr.args)]
    return builder.op(instr.op, *args).dtype


def _types(operands: Sequence[Operand]) -> list[DType]:
    return [o.dtype for o in operands]


def _stored(results: Sequence[DType], outs: Sequence[DType], where: str) -> None:
    """What is stored has the type of where it is stored."""
    if list(results) != list(outs):
        got, expected = (", ".join(map(str, t)) for t in (results, outs))
        raise _broken("a kernel stores other types than its outputs have", where, got, expected)


def _count(results: Sequence[DType], count: int, where: str) -> None:
    if len(results) != count:
        raise _broken("a program has not as many results as it needs", where, len(results), count)


def _floats(types: Sequence[DType], where: str) -> None:
    if not all(t.is_float for t in types):
        raise _broken("a kernel of floats has another type", where, ", ".join(map(str, types)), "")


def _broken(what: str, where: str, got: object, expected: object) -> VerificationError:
    return VerificationError(what, where=where, got=str(got)[:200], expected=expected)
