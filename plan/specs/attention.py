"""The spec of attention: two products and the softmax between them, scores never stored whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.row_codes import RowCodes
from ..packing.panel_params import BYTES, cell_depth
from ..ranges import COUNT, OFFSET, Range
from ..target import Target
from .base import Operand, Size, Spec, resolver
from .checks import spec_error, types_of

# Rows of keys and values beyond this do not fit the kernel's scratch.
MAX_HEAD: Final = 1024
# Keys per block: fixed, since the order of a row's sums follows from it. A block of scores of one
# panel of queries takes a third of the first cache.
BLOCK_KEYS: Final = 128
# Neighbours in a row of queries or keys of bytes that one instruction multiplies.
BYTES_PER_CELL: Final = 4


def can_multiply_bytes(target: Target) -> bool:
    """Whether an instruction multiplies cells of bytes as they are in memory: u8 by i8."""
    return target.isa != "neon" and cell_depth(target, DType.i8) == BYTES_PER_CELL


@dataclass(frozen=True)
class AttentionSpec(Spec):
    """out[b, q] = sum over keys of softmax(x[b, q])[key] * value[b, key], where
    x[b, q, key] = scale * (query[b, q] . key[b, key]) + mask[b, q, key], or, with a softcap other
    than 0, softcap * tanh(scale * ...) + mask.

    Operands walk (batch..., queries, head_size), (batch..., keys, head_size), (batch..., keys,
    value_size), (batch..., queries, keys), the sink's (batch..., queries), and (batch..., queries,
    value_size); strides of 0 share heads, masks and sinks. All last strides but the mask's and the
    sink's are 1. A boolean mask puts `masked_value` instead of x where it is false. `causal`:
    query q sees keys 0..q + causal only. A row whose every x is -inf, or that sees no key, is NaN,
    or 0 if `zero_masked_rows`; without any keys it is 0. A sink is one more x per query, whose
    value is 0.

    Keys are taken in blocks of fixed size from the first on, and every element of a row's result is
    one chain over them. compute_dtype: bf16 rounds queries, keys, values and the softmax's
    exponentials to bf16 before they are multiplied. row_bits: other than 0, keys and values are u8
    rows of codes of so many bits (ir/row_codes.py), which the strides of `key` and
    `value` walk in bytes. quantization: 3 numbers of f32, a factor and the zero points of queries
    (u8 or i8) and keys (u8): they are bytes, and query . key is the factor times the sum, in 32
    bits, of what they are less their zero points. Buffers: query, key, value, mask?, sink?,
    quantization?, out.
    """

    family: ClassVar[str] = "attention"
    ranges: ClassVar[Mapping[str, Range]] = {
        **dict.fromkeys("batch queries keys".split(), COUNT),
        "head_size": (1, MAX_HEAD),
        "value_size": (1, MAX_HEAD),
        "row_bits": (0, 8),
        "causal": OFFSET,
    }

    batch: tuple[Size, ...]
    queries: Size
    keys: Size
    head_size: int
    value_size: int
    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None
    out: Operand
    scale: float
    causal: Size | None = None
    masked_value: float = -float("inf")
    zero_masked_rows: bool = False
    compute_dtype: DType | None = None
    softcap: float = 0.0
    sink: Operand | None = None
    row_bits: int = 0
    quantization: Operand | None = None

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.head_size, self.value_size

    @property
    def codes(self) -> tuple[RowCodes | None, RowCodes | None]:
        """The layout of rows of keys and of values, where they are codes."""
        if not self.row_bits:
            return None, None
        return RowCodes(self.head_size, self.row_bits), RowCodes(self.value_size, self.row_bits)

    def operands(self) -> tuple[Operand, ...]:
        given = (o for o in (self.mask, self.sink, self.quantization) if o is not None)
        return (self.query, self.key, self.value, *given, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        rows, keys = (*self.batch, self.queries), (*self.batch, self.keys)
        mask = () if self.mask is None else ((*rows, self.keys),)
        stored = [
            n if c is None else c.nbytes for n, c in zip(self._sizes, self.codes, strict=True)
        ]
        ends = ((*rows, self.head_size), *((*keys, n) for n in stored))
        sink = () if self.sink is None else (rows,)
        numbers = () if self.quantization is None else ((*(1 for _ in self.batch), 3),)
        return [*ends, *mask, *sink, *numbers, (*rows, self.value_size)]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.keys,)

    def verify(self, target: Target) -> None:
        where = self.where
        if not (1 <= self.head_size <= MAX_HEAD and 1 <= self.value_size <= MAX_HEAD):
            got = (self.head_size, self.value_size)
            raise spec_error("heads of a size no kernel has", where, got, f"1..{MAX_HEAD}")
        if not (math.isfinite(self.scale) and math.isfinite(self.softcap)) or math.isnan(
            self.masked_value
        ):
            found = f"{self.scale}, fill {self.masked_value}, cap {self.softcap}"
            raise spec_error("a scale is not a finite number", where, found, "numbers")
        if self.compute_dtype not in (None, DType.bf16):
            what = "a product rounds its factors to another type"
            raise spec_error(what, where, self.compute_dtype, DType.bf16)
        rows = (self.key, self.value)
        for codes, operand in zip(self.codes, rows, strict=True):
            if codes is not None and not (codes.is_valid and operand.dtype is DType.u8):
                got = f"{codes.size} of {codes.bits} bits in {operand.dtype}"
                raise spec_error("keys or values have no such codes", where, got, "rows of u8")
        plain = (self.query, *(rows if not self.row_bits else ()), self.out)
        if self.quantization is not None:
            self._verify_bytes(target, self.quantization)
            plain = (self.value, self.out)
        if self.mask is not None and self.mask.dtype is not DType.boolean:
            plain = (*plain, self.mask)
        if self.sink is not None:
            plain = (*plain, self.sink)
        for t in types_of(plain):
            if t not in (DType.f32, DType.f16, DType.bf16):
                raise spec_error("no attention of this type", where, t, "f32, f16, bf16")
        for operand in (self.query, *rows, self.out):
            if operand.strides[-1] != 1:
                got = operand.strides
                raise spec_error("rows of heads are not contiguous", where, got, "1 at the end")

    def _verify_bytes(self, target: Target, numbers: Operand) -> None:
        """Cells of bytes are read where keys are, and sums of them fit 32 bits."""
        where, (query, key) = self.where, (self.query.dtype, self.key.dtype)
        if query not in BYTES or key is not DType.u8 or self.row_bits:
            raise spec_error("no kernel has such scores", where, f"{query} x {key}", "bytes x u8")
        if numbers.dtype is not DType.f32 or numbers.strides != (*(0 for _ in self.batch), 1):
            raise spec_error("a quantization is not 3 numbers of f32", where, numbers, None)
        if not can_multiply_bytes(target):
            raise spec_error("this processor does not multiply u8 by i8", where, target.isa, None)
        if self.head_size % BYTES_PER_CELL:
            expected = f"a multiple of {BYTES_PER_CELL}"
            raise spec_error("a row of bytes has a part of a cell", where, self.head_size, expected)

    def flops(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        scores = math.prod(map(at, self.batch)) * at(self.queries) * at(self.keys)
        return scores * 2 * (self.head_size + self.value_size)

    def compute_unit(self) -> str:
        return str(self.compute_dtype) if self.compute_dtype else super().compute_unit()

    def describe(self, size: Callable[[Size], str]) -> str:
        batch = "".join(f"{size(b)} x " for b in self.batch)
        rows = f"{size(self.queries)} queries x {size(self.keys)} keys"
        heads = ", ".join(map(str, dict.fromkeys((self.head_size, self.value_size))))
        factors = f" of {self.compute_dtype} factors" if self.compute_dtype else ""
        capped = f" capped at {self.softcap:g}" if self.softcap else ""
        causal = " causal" if self.causal is not None else ""
        sinks = " with sinks" if self.sink else ""
        codes = f" of u{self.row_bits} codes" if self.row_bits else ""
        codes = " with scores of bytes" if self.quantization is not None else codes
        return f" {batch}{rows} x {heads}{codes}{factors}{capped}{causal}{sinks}"
