"""What the generator of squeeze-and-excite may rely on."""

from __future__ import annotations

from ...ir.dtype import DType
from ..specs.squeeze_excite import MAX_EXCITED, SqueezeExciteSpec, excite_panels
from ..target import Target
from .scalar_program import broken, stored, types_of, verify_program


def verify_excite(s: SqueezeExciteSpec, target: Target, where: str) -> None:
    """VerificationError where sizes, types or programs are none that lowering writes."""
    if not (1 <= s.channels <= MAX_EXCITED and 1 <= s.hidden <= MAX_EXCITED):
        got = (s.channels, s.hidden)
        raise broken("channels are too few or too many", where, got, f"1..{MAX_EXCITED}")
    wanted = excite_panels(s.channels, s.hidden, target.lanes(32))
    if (s.down_panels, s.up_panels) != wanted:
        got = (s.down_panels, s.up_panels)
        raise broken("packed panels have another width", where, got, wanted)
    if s.compute_dtype not in (None, DType.bf16):
        raise broken("factors that no kernel rounds so", where, s.compute_dtype, DType.bf16)
    for operand in (s.data, s.sums, s.states, s.gates, s.out):
        kept = operand is s.out or operand.dtype is DType.f32
        if not kept or operand.strides[-1] != 1:
            got = f"{operand.dtype}, {operand.strides}"
            raise broken("an operand is not a plain row", where, got, "f32, last stride 1")
    for operand in (s.down, s.up):
        if operand.dtype is not (s.compute_dtype or DType.f32) or operand.strides != (1,):
            raise broken("packed weights are not plain arrays", where, operand, s.compute_dtype)
        if operand.offset != 0:
            raise broken("packed weights are not plain arrays", where, operand.offset, 0)
    f32 = DType.f32
    for program, given, made in (
        (s.mean, (f32, f32), f32),
        (s.squeeze, (f32, *types_of(s.squeeze_extras)), f32),
        (s.gate, (f32, *types_of(s.gate_extras)), f32),
        (s.scale, (f32, f32, *types_of(s.epilogue_operands)), s.out.dtype),
    ):
        stored(verify_program(program, list(given), where), [made], where)
