"""Products of compressed weights by int8 activations: the bits of NumPy for integers, the codes of
dynamic quantization, and the same bits for every number of rows, on every instruction set.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import compressed_layout, dot_group
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.gemm import Compressed, GemmSpec
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm import generate, pack
from irc_compiler.runtime.kernels.gemm.tiling import schedule_gemm
from support.kernels.harness import ISAS, run, same_bits, target_of

F32 = DType.f32
each_isa = pytest.mark.parametrize("isa", ISAS)
each_type = pytest.mark.parametrize("dtype", [DType.u4, DType.i4, DType.u8, DType.i8], ids=str)


@dataclass(frozen=True)
class Case:
    """Compressed K x N. zero: "one" (a number), "each", or "offset"."""

    k: int
    n: int
    dtype: DType
    group: int
    zero: str = "each"

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
    )
    b = Builder()
    return GemmSpec(
        (), RuntimeDim(0) if m is None else m, c.n, c.k,
        Operand(F32, (c.k, 1)), Operand(c.dtype, still), Operand(F32, (c.n, 1)), F32, layout,
        b.finish(b.input(0, F32)), (), None, compressed,
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
    found = run(spec, [a, cells, *scaling], [shape], isa=isa, dims=dims, workers=workers)
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


@pytest.mark.slow
@each_isa
@each_type
@pytest.mark.parametrize("zero", ["one", "each", "offset"])
@pytest.mark.parametrize("k, n, group", [(72, 17, 16), (100, 33, 100), (300, 35, 300)])
def test_int8_products_of_integers_are_exact(
    isa: str, dtype: DType, zero: str, k: int, n: int, group: int
) -> None:
    c = Case(k, n, dtype, group, zero)
    for m, workers in ((1, 1), (7, 2)):
        a = whole_numbers(m, k, c.dot_group)
        for size in (m, None):
            found = multiply(c, a, isa, m=size, workers=workers)
            np.testing.assert_array_equal(found, expected(c, a).astype(np.float32))


@each_isa
def test_int8_codes_are_those_of_numpy(isa: str) -> None:
    """Weights of a unit matrix give the codes times their scale."""
    c = Case(64, 64, DType.u4, 32, "one")
    w, target = weights_of(c), target_of(isa)
    a = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    a[1, 32:] = 0
    a[2] *= np.float32(1e30)
    spec = make_spec(c, target, 5)
    assert spec.packed is not None and spec.compressed is not None
    spec = replace(spec, compressed=replace(spec.compressed, zero_point=0))
    unit = np.eye(64, dtype=np.uint8).astype(c.dtype.numpy)
    cells = pack(unit, PlanConstant(0, c.dtype, unit.shape, spec.packed))
    ones = np.ones_like(w.scale)
    scale = pack(ones, PlanConstant(0, F32, ones.shape, PackedB(spec.packed.nr)))
    found = run(spec, [a, cells, scale], [(5, 64)], isa=isa).outs[0]
    groups = a.reshape(5, 2, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    factor = np.where(largest > 0, np.float32(127) / np.maximum(largest, np.float32(1e-30)), 0)
    codes = np.rint(groups * factor.astype(np.float32))
    wanted = codes * (largest / np.float32(127))
    np.testing.assert_array_equal(found, wanted.reshape(5, 64))
    assert np.abs(found - a).max() <= (largest / 254).max() * 1.01


@pytest.mark.slow
@each_isa
@each_type
def test_int8_bits_depend_on_neither_rows_nor_threads(isa: str, dtype: DType) -> None:
    c = Case(200, 75, dtype, 40)
    a = np.random.default_rng(1).standard_normal((40, 200)).astype(np.float32)
    whole = multiply(c, a, isa, m=40)
    for m in (1, 2, 3, 9, 33):
        for size in (m, None):
            assert same_bits(multiply(c, a[:m], isa, m=size, workers=3), whole[:m])


@each_isa
def test_int8_workers_may_begin_anywhere_in_a_block_of_rows(isa: str) -> None:
    """A worker's first tile is no multiple of MC, and it has more than MC tiles."""
    c, m = Case(4096, 40, DType.u4, 32), 412
    tiles = schedule_gemm(make_spec(c, target_of(isa), None), target_of(isa)).tiles
    first = -(-m // tiles.mr) // 2
    assert first > tiles.mc and first % tiles.mc != 0
    a = np.random.default_rng(1).standard_normal((m, c.k)).astype(np.float32)
    alone = multiply(c, a, isa, m=None)
    for workers in (2, 3):
        assert same_bits(multiply(c, a, isa, m=None, workers=workers), alone)


@each_isa
def test_int8_keeps_what_is_not_finite(isa: str) -> None:
    c = Case(64, 40, DType.u4, 32, "one")
    a = np.ones((3, 64), np.float32)
    a[0, 5], a[1, 40] = np.nan, np.inf
    found = multiply(c, a, isa, m=3)
    assert not np.isfinite(found[:2]).any() and np.isfinite(found[2]).all()


@pytest.mark.parametrize(
    "isa, feature, dtype, word",
    [
        ("avx2", "", DType.u4, "vpmaddubsw"),
        ("avx2", "", DType.i8, "vpsignb"),
        ("avx2", "avxvnni", DType.i8, "vpdpbusd"),
        ("avx512", "", DType.u4, "vpmaddubsw"),
        ("avx512", "", DType.u8, "vpmaddwd"),
        ("avx512", "avx512vnni", DType.u4, "vpdpbusd"),
        ("plain", "", DType.u4, "pmaddwd"),
        ("neon", "", DType.u8, "mla"),
        ("neon", "dotprod", DType.u4, "sdot"),
        ("neon", "i8mm", DType.u8, "usdot"),
    ],
)
def test_int8_dot_products_use_the_unit_of_the_target(
    isa: str, feature: str, dtype: DType, word: str
) -> None:
    """Also for targets that no machine here is: LLVM generates them."""
    target = generic_target(isa)  # type: ignore[arg-type]
    features = sorted({*target.cpu_features, *([feature] if feature else [])})
    target = dataclasses.replace(target, cpu_features=tuple(features))
    spec = make_spec(Case(64, 40, dtype, 32), target, None)
    assert word in emit_assembly(generate(spec, target, "k").text, target)


def test_int8_groups_are_those_of_the_weights_where_kernels_have_them() -> None:
    found = [dot_group(512, g, DType.u4) for g in (16, 32, 64, 128, 256, 512, 1000, 12, 192)]
    assert found == [16, 32, 64, 128, 128, 128, 128, 0, 0]
    target = generic_target("avx2")
    spec = make_spec(Case(64, 40, DType.u4, 32), target, 4)
    assert spec.compressed is not None and spec.compute_unit() == "int8"
    for changes in ({"dot_group": 16}, {"rounded": True}):
        wrong = replace(spec, compressed=replace(spec.compressed, **changes))
        with pytest.raises(VerificationError, match="int8 activations"):
            verify_specs([wrong], target)
