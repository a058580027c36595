"""Int8 rows by compressed weights: cases, the results of their kernels, and those of NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import compressed_layout, dot_group
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.gemm import Compressed, GemmSpec
from irc_compiler.plan.target import Target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack

from support.kernels.harness import run, target_of

F32 = DType.f32


@dataclass(frozen=True)
class Case:
    """Compressed K x N. zero: "none", "one" (a number), "each", or "offset". apart: elements
    between the end of a row of A and the next row."""

    k: int
    n: int
    dtype: DType
    group: int
    zero: str = "each"
    apart: int = 0
    bf16x3: bool = False

    @property
    def dot_group(self) -> int:
        return dot_group(self.k, self.group, self.dtype)


@dataclass
class Weights:
    """codes [K, N]; scale, zero and offset [groups, N]."""

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    offset: np.ndarray


def weights_of(c: Case) -> Weights:
    """Random codes, with scales that are powers of two, and integers as offsets."""
    rng = np.random.default_rng(c.k + c.n)
    low, high = int(c.dtype.min), int(c.dtype.max) + 1
    groups = -(-c.k // c.group)
    codes = rng.integers(low, high, (c.k, c.n))
    codes[:, 0], codes[:, -1] = low, high - 1  # the largest sums
    scale = 2.0 ** rng.integers(0, 2, (groups, c.n))
    zero = rng.integers(low, high, (groups, c.n)) * (c.zero == "each")
    zero = np.full_like(zero, 3) if c.zero == "one" else zero
    offset = rng.integers(-5, 6, (groups, c.n)) * (c.zero == "offset")
    return Weights(codes, scale.astype(np.float32), zero, offset.astype(np.float32))


def make_spec(c: Case, target: Target, m: int | None) -> GemmSpec:
    """m: None for rows that are counted at run time."""
    layout = compressed_layout(c.k, c.n, c.dtype, c.group, target)
    assert layout is not None
    still, code = (0, 0), DType.i8 if c.dtype.is_signed else DType.u8
    compressed = Compressed(
        c.group,
        Operand(F32, still),
        Operand(code, still) if c.zero == "each" else 3 * (c.zero == "one"),
        offset=Operand(F32, still) if c.zero == "offset" else None,
        rounded=False,
        dot_group=c.dot_group,
        bf16x3=c.bf16x3,
    )
    b = Builder()
    return GemmSpec(
        (), RuntimeDim(0) if m is None else m, c.n, c.k,
        Operand(F32, (c.k + c.apart, 1)), Operand(c.dtype, still), Operand(F32, (c.n, 1)), F32,
        layout, b.finish(b.input(0, F32)), (), None, compressed,
    )  # fmt: skip


def multiply(c: Case, a: np.ndarray, isa: str, *, m: int | None, workers: int = 1) -> np.ndarray:
    w, target = weights_of(c), target_of(isa)
    spec = make_spec(c, target, m)
    verify_specs([spec], target)
    assert spec.packed is not None
    codes = w.codes.astype(c.dtype.numpy)
    cells = pack(codes, PlanConstant(0, c.dtype, codes.shape, spec.packed))
    code = DType.i8 if c.dtype.is_signed else DType.u8
    given = [(w.scale, F32)]
    given += [(w.zero.astype(code.numpy), code)] if c.zero == "each" else []
    given += [(w.offset, F32)] if c.zero == "offset" else []
    narrow = PackedB(spec.packed.nr)
    scaling = [pack(x, PlanConstant(0, t, x.shape, narrow)) for x, t in given]
    dims, shape = [len(a)] if m is None else [], (len(a), c.n)
    rows = np.pad(a, ((0, 0), (0, c.apart)), constant_values=np.nan)
    found = run(spec, [rows, cells, *scaling], [shape], isa=isa, dims=dims, workers=workers)
    assert found.status == 0
    return found.outs[0]


def whole_numbers(m: int, k: int, group: int) -> np.ndarray:
    """Rows of integers whose groups' largest magnitudes are 127: their scales are 1."""
    a = np.random.default_rng(m).integers(-127, 128, (m, k)).astype(np.float32)
    a[:, ::group] = np.where(a[:, ::group] < 0, -127, 127)
    a[0, :32] = 127
    return a


def expected(c: Case, a: np.ndarray) -> np.ndarray:
    w, pick = weights_of(c), np.arange(c.k) // c.group
    return a.astype(np.float64) @ ((w.codes - w.zero[pick]) * w.scale[pick] + w.offset[pick])
