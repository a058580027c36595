"""Attention kernels against the formula in f64, and against themselves: sizes around panels, tiles
and blocks, masks, causal rows, shared heads, run-time sizes, workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops.quantization.row_codes import dequantize_rows, quantize_rows
from irc_compiler.ir.row_codes import RowCodes
from irc_compiler.plan.specs.attention import AttentionSpec, can_multiply_bytes
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import (
    ISAS,
    TILED,
    Sizes,
    run,
    same_bits,
    target_of,
)

F32, BF16 = DType.f32, DType.bf16
INF = float("inf")
# Of scores of bytes: their factor, and zero points of queries of a type and of their keys.
FACTOR = 1e-4
ZEROS = {DType.u8: (117, 203), DType.i8: (-5, 0)}
# u8 by i8: the units of AVX-512 and of AVX2.
BYTE_ISAS = [isa for isa in ISAS if can_multiply_bytes(target_of(isa))]
each_byte_isa = pytest.mark.parametrize(
    "isa",
    BYTE_ISAS
    or [pytest.param("", marks=pytest.mark.skip(reason="not run: no VNNI on this machine"))],
)


@dataclass(frozen=True)
class Case:
    """`mask`: "keys" one row for all queries, "full" a row per query and head, "turned" the same
    with its axes the other way round, "bool" and "row" (of booleans)."""

    queries: int
    keys: int
    size: int = 8
    width: int = 8
    heads: int = 2
    shared: bool = False
    mask: str = ""
    causal: int | None = None
    scale: float = 0.25
    fill: float = -INF
    zeros: bool = False
    dtype: DType = F32
    compute_dtype: DType | None = None
    dynamic: bool = False
    cap: float = 0.0
    # "head": one sink per head; "full": one per head and query; "bare": -inf.
    sink: str = ""
    # Keys and values are codes of so many bits; 0: floats.
    bits: int = 0
    # The type of queries of bytes, whose keys are u8.
    bytes: DType | None = None


def build(case: Case, seed: int = 0) -> tuple[AttentionSpec, list[np.ndarray], list[int]]:
    """Heads side by side in rows, as a product of all heads leaves them."""
    rng = np.random.default_rng(seed)
    h, m, n, d, w = case.heads, case.queries, case.keys, case.size, case.width
    shared = 1 if case.shared else h
    data = [
        rng.standard_normal(s).astype(case.dtype.numpy)
        for s in ((m, h, d), (n, shared, d), (n, shared, w))
    ]
    if case.bits:
        layouts = (RowCodes(d, case.bits), RowCodes(w, case.bits))
        data[1:] = [quantize_rows(x, c) for x, c in zip(data[1:], layouts, strict=True)]
    if case.bytes is not None:
        for i, dtype in enumerate((case.bytes, DType.u8)):
            data[i] = rng.integers(dtype.min, dtype.max + 1, data[i].shape).astype(dtype.numpy)
    query, key, value = (DType.from_numpy(x.dtype) for x in data)
    size = Sizes(case.dynamic)

    rows, keys = size(m), size(n)
    lead = 0 if case.shared else 1
    mask = None
    if case.mask:
        shape = {"keys": (n,), "row": (n,), "turned": (h, n, m)}.get(case.mask, (h, m, n))
        given = rng.standard_normal(shape).astype(np.float32)
        given[..., ::3] -= 2
        strides: tuple[Size, ...] = (0, 0, 1)
        if case.mask in ("full", "bool"):
            strides = (size(m * n), size(n), 1)
        if case.mask == "turned":
            strides = (size(m * n), 1, size(m))
        boolean = case.mask in ("bool", "row")
        data.append(given > -1 if boolean else given)
        mask = Operand(DType.boolean if boolean else F32, strides)
    sink = None
    if case.sink:
        drawn = rng.standard_normal((h, 1 if case.sink == "head" else m)).astype(np.float32) + 1
        data.append(np.full_like(drawn, -INF) if case.sink == "bare" else drawn)
        sink = Operand(F32, (1, 0) if case.sink == "head" else (size(m), 1))
    quantization = None
    if case.bytes is not None:
        data.append(np.array([FACTOR, *ZEROS[case.bytes]], np.float32))
        quantization = Operand(F32, (0, 1))
    spec = AttentionSpec(
        (h,), rows, keys, d, w,
        Operand(query, (d, h * d, 1)),
        *(
            Operand(t, (lead * x.shape[-1], shared * x.shape[-1], 1))
            for t, x in ((key, data[1]), (value, data[2]))
        ),
        mask,
        Operand(case.dtype, (w, h * w, 1)),
        case.scale,
        None if case.causal is None else size(case.causal),
        case.fill,
        case.zeros,
        case.compute_dtype,
        case.cap,
        sink,
        case.bits,
        quantization,
    )  # fmt: skip
    return spec, data, size.dims


def expected(case: Case, data: list[np.ndarray]) -> np.ndarray:
    operands = data[:3]
    if case.bits:
        sizes = (case.size, case.width)
        layouts = [RowCodes(n, case.bits) for n in sizes]
        operands[1:] = [dequantize_rows(x, c) for x, c in zip(data[1:3], layouts, strict=True)]
    q, k, v = (a.astype(np.float64).transpose(1, 0, 2) for a in operands)
    factor = 1.0
    if case.bytes is not None:
        (a, b), factor, data = ZEROS[case.bytes], float(np.float32(FACTOR)), data[:-1]
        q, k = q - a, k - b
    with np.errstate(all="ignore"):
        x = q @ k.swapaxes(-1, -2) * (factor * case.scale)
        x = case.cap * np.tanh(x) if case.cap else x
        if case.mask:
            mask = data[3].swapaxes(-1, -2) if case.mask == "turned" else data[3]
            x = np.where(mask, x, case.fill) if mask.dtype == bool else x + mask
        if case.causal is not None:
            seen = np.tri(case.queries, case.keys, case.causal, dtype=bool)
            x = np.where(seen, x, -INF)
        if case.sink:
            x = np.concatenate([x, np.broadcast_to(data[-1][..., None], (*x.shape[:-1], 1))], -1)
        e = np.exp(x - x.max(-1, keepdims=True, initial=-INF))
        p = e / e.sum(-1, keepdims=True)
        if case.zeros:
            p = np.where((x == -INF).all(-1, keepdims=True), 0, p)
        return (p[..., : case.keys] @ v).transpose(1, 0, 2)


def found(case: Case, isa: str, data: list[np.ndarray], workers: int = 1, at: str = "end"):
    spec, _, dims = build(case)
    verify_specs([spec], target_of(isa))
    shape = (case.queries, case.heads, case.width)
    result = run(spec, data, [shape], isa=isa, dims=dims, workers=workers, at=at)
    assert result.status == 0
    return result.outs[0]


def check(case: Case, isa: str, tolerance: float = 2e-6) -> None:
    """The answer; and the same bits for any workers, and for sizes known at run time only."""
    _, data, _ = build(case)
    first = found(case, isa, data)
    wide, want = first.astype(np.float64), expected(case, data)
    np.testing.assert_allclose(wide, want, rtol=tolerance, atol=tolerance * 4)
    other = replace(case, dynamic=not case.dynamic)
    for again in (found(other, isa, data, 3, "start"), found(case, isa, data, 2)):
        assert same_bits(again, first)


SIZES = [(1, 1), (1, 7), (2, 129), (15, 16), (16, 128), (17, 31), (33, 130), (70, 300)]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_sizes(isa: str, queries: int, keys: int) -> None:
    check(Case(queries, keys, size=20, width=18), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("size", "width"), [(1, 1), (3, 17), (32, 32), (64, 64), (65, 128)])
def test_heads(isa: str, size: int, width: int) -> None:
    check(Case(37, 140, size, width), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sink", ["head", "full", "bare"])
def test_sinks(isa: str, sink: str) -> None:
    """One more score of no value: in bare scores, several blocks, rows that see nothing else."""
    check(Case(41, 300, sink=sink), isa)
    check(Case(1, 7, sink=sink, mask="full", cap=2.0), isa)
    check(Case(33, 140, sink=sink, mask="bool", causal=-5, zeros=True), isa)


def test_sinks_of_other_types_are_refused() -> None:
    spec, _, _ = build(Case(3, 4, sink="head"))
    with pytest.raises(VerificationError, match="no attention of this type"):
        verify_specs([replace(spec, sink=Operand(DType.i32, (1, 0)))], target_of(ISAS[0]))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mask", ["keys", "full", "turned", "bool", "row"])
@pytest.mark.parametrize("causal", [None, 90])
def test_masks(isa: str, mask: str, causal: int | None) -> None:
    check(Case(41, 131, mask=mask, causal=causal, fill=-3.0), isa)
    check(Case(1, 131, mask=mask, causal=causal, fill=-3.0), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("queries", "keys", "causal"),
    [(64, 64, 0), (150, 150, 0), (50, 300, 250), (5, 200, 0), (140, 20, -120), (3, 9, 1000)],
)
def test_causal(isa: str, queries: int, keys: int, causal: int) -> None:
    """Rows that see nothing are NaN (the fifth case has 120 of them), or zeros if wanted."""
    check(Case(queries, keys, causal=causal), isa)
    check(Case(queries, keys, causal=causal, zeros=True), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("queries", [1, 40])
def test_shared_heads_and_negative_scales(isa: str, queries: int) -> None:
    check(Case(queries, 150, shared=True, heads=3), isa)
    check(Case(queries, 150, scale=-0.5), isa)
    check(Case(queries, 150, scale=0.0), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", [*ISAS, *TILED])
@pytest.mark.parametrize("mask", ["", "keys", "full", "bool"])
def test_capped_scores(isa: str, mask: str) -> None:
    """Scores far beyond the cap, and queries that are not numbers or infinite."""
    factors = BF16 if isa in TILED else None
    tolerance = 2e-2 if factors else 5e-6
    case = Case(20, 40, mask=mask, causal=25, scale=1.5, cap=2.0, fill=-3.0, compute_dtype=factors)
    check(case, isa, tolerance)
    _, data, _ = build(case)
    data[0][3], data[0][4, :, 0] = np.nan, 1e30
    got, want = found(case, isa, data), expected(case, data)
    assert np.isnan(got[3]).all()
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=4 * tolerance)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", [*ISAS, *TILED])
@pytest.mark.parametrize("factors", [None, BF16])
def test_small_integers_are_exact(isa: str, factors: DType | None) -> None:
    """Equal scores: every exponential is 1, and a power of two of keys divides without rounding."""
    for queries, keys, size, width in [(1, 128, 4, 5), (35, 256, 64, 64), (16, 64, 33, 17)]:
        case = Case(queries, keys, size, width, scale=0.5, compute_dtype=factors)
        rng = np.random.default_rng(1)
        _, data, _ = build(case)
        data[0] = rng.integers(-3, 4, data[0].shape).astype(np.float32)
        data[1] = np.broadcast_to(data[1][:1], data[1].shape).round().copy()
        data[2] = rng.integers(-3, 4, data[2].shape).astype(np.float32)
        want = np.broadcast_to(data[2].mean(0), (queries, 2, width)).astype(np.float32)
        np.testing.assert_array_equal(found(case, isa, data, 2), want)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [8, 17, 64])
def test_bf16_factors(isa: str, size: int) -> None:
    """Rounded factors cost about 2**-8 of the values; the unit and its emulation agree closely."""
    for case in (
        Case(37, 141, size, size, compute_dtype=BF16),
        Case(1, 30, size, 5, compute_dtype=BF16, mask="keys"),
        Case(33, 129, size, 20, compute_dtype=BF16, causal=96),
    ):
        check(case, isa, 2e-2)


@pytest.mark.parametrize("isa", [*ISAS, *TILED])
@pytest.mark.parametrize("queries", [1, 20])
def test_results_of_rounded_factors_are_stored_as_bf16_without_denormals(
    isa: str, queries: int
) -> None:
    case = Case(queries, 40, 32, 32, compute_dtype=BF16)
    spec, data, _ = build(case)
    data[2][:, 0] *= 2.0**-126
    wide = found(case, isa, data)
    assert ((wide != 0) & (np.abs(wide) < 2.0**-126)).any()
    wide[np.abs(wide) < 2.0**-126] *= 0
    narrow = replace(spec, out=replace(spec.out, dtype=BF16))
    made = run(narrow, data, [wide.shape], isa=isa)
    assert made.status == 0
    assert same_bits(made.outs[0], wide.astype(BF16.numpy))


@each_byte_isa
@pytest.mark.parametrize("dtype", [DType.u8, DType.i8], ids=str)
@pytest.mark.parametrize(
    "case",
    [
        Case(1, 1, size=4),
        Case(70, 300, size=64, width=64),
        Case(33, 129, size=20, width=18, causal=96),
        Case(17, 31, size=100, width=5, mask="full", sink="head"),
        Case(41, 131, size=12, mask="bool", fill=-3.0, zeros=True),
        Case(16, 40, size=32, mask="keys", cap=2.0, shared=True),
        Case(50, 260, size=64, width=16, heads=3, compute_dtype=BF16),
        Case(5, 0, size=8),
    ],
    ids=str,
)
def test_scores_of_bytes(isa: str, dtype: DType, case: Case) -> None:
    check(replace(case, bytes=dtype), isa, 2e-2 if case.compute_dtype else 3e-6)


@each_byte_isa
def test_scores_of_bytes_are_exact(isa: str) -> None:
    """The largest sums; scores that differ by one unit in eight million choose another key."""
    case = Case(20, 140, size=1024, width=2, bytes=DType.u8, scale=1e6)
    _, data, _ = build(case)
    data[0][:], data[1][:] = 255, 255
    data[1][:, :, 0] = 254
    data[1][77, :, 0] = 255
    data[3][0] = 1.0
    got = found(case, isa, data)
    np.testing.assert_array_equal(got, np.broadcast_to(data[2][77], got.shape))


def test_scores_of_bytes_that_are_refused() -> None:
    for isa in BYTE_ISAS:
        spec = build(Case(4, 4, bytes=DType.u8))[0]
        verify_specs([spec], target_of(isa))
        signed = replace(spec, key=replace(spec.key, dtype=DType.i8))
        forged = [Operand(F32, (0, 2)), Operand(DType.u8, (0, 1)), Operand(F32, (1, 1))]
        numbers = [replace(spec, quantization=o) for o in forged]
        whole = (signed, replace(spec, head_size=6), replace(spec, row_bits=8))
        for change in (*whole, *numbers):
            with pytest.raises(VerificationError):
                verify_specs([change], target_of(isa))
    with pytest.raises(VerificationError, match="does not multiply u8 by i8"):
        verify_specs([build(Case(4, 4, bytes=DType.u8))[0]], generic_target("plain"))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [DType.f16, BF16], ids=str)
def test_stored_f16_values(isa: str, dtype: DType) -> None:
    check(Case(19, 70, 24, 20, dtype=dtype), isa, 1e-2 if dtype is BF16 else 1e-3)
    check(Case(19, 70, 24, 20, dtype=dtype, compute_dtype=BF16), isa, 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("block", [0, 1], ids=["first block", "second block"])
def test_special_values(isa: str, block: int) -> None:
    """What is not finite spoils the rows that see it and no others, in whatever block it lies."""
    case = Case(20, 200, mask="full")
    _, data, _ = build(case)
    mask, key = data[3], 130 * block + 5
    mask[:, 0] = -INF
    mask[:, 1, :150] = -INF
    mask[:, 2, 100:] = -INF
    mask[:, 3, key] = np.nan
    mask[:, 4, key] = INF
    mask[:, 5, key] = 3e38
    mask[:, 6] = -1e30
    mask[:, 7, :] = np.finfo(np.float32).min
    got, want = found(case, isa, data), expected(case, data)
    assert np.isnan(got[[0, 3, 4]]).all()
    # Where f64 keeps scores apart that f32 cannot, all keys weigh the same.
    want[[6, 7]] = data[2].mean(0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    zeros = found(replace(case, zeros=True), isa, data)
    assert not zeros[0].any() and np.isnan(zeros[3]).all()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_empty_sizes(isa: str) -> None:
    for case in (Case(5, 0), Case(0, 5), Case(5, 5, heads=0), Case(40, 0, compute_dtype=BF16)):
        for dynamic in (False, True):
            made = replace(case, dynamic=dynamic)
            _, data, _ = build(made)
            got = found(made, isa, data, 2)
            assert not got.any()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("factors", [None, BF16])
def test_the_scores_are_never_all_there(isa: str, factors: DType | None) -> None:
    """A worker's memory does not depend on the number of keys, known or not; that of a million
    scores and of their masks would be 4 MiB."""
    used = set[int]()
    for keys in (1024, 4096):
        for dynamic in (False, True):
            case = Case(1024, keys, 64, 64, mask="full", compute_dtype=factors, dynamic=dynamic)
            used.add(generate(build(case)[0], target_of(isa), "k").scratch)
    assert max(used) < 1 << 18 and len(used) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_a_row_alone_is_the_row_among_others(isa: str) -> None:
    """The bits of a row depend on nothing but the row: not on its place, nor on other heads."""
    case = Case(50, 260, 16, 16, heads=3)
    _, data, _ = build(case)
    whole = found(case, isa, data)
    for row, head in product((0, 31, 49), (0, 2)):
        picked = [data[0][row : row + 1, head : head + 1], data[1][:, head : head + 1]]
        picked += [data[2][:, head : head + 1]]
        alone = found(Case(1, 260, 16, 16, heads=1), isa, picked)
        assert same_bits(alone[0, 0], whole[row, head])


@pytest.mark.slow
def test_accuracy() -> None:
    """Long rows with flat and with sharp softmax (scores of 30, whose own rounding counts)."""
    for scale, limit in ((0.02, 3e-7), (1.0, 3e-5)):
        case = Case(40, 2000, 64, 64, scale=scale)
        _, data, _ = build(case)
        error = np.abs(found(case, ISAS[0], data) - expected(case, data)).max()
        assert error < limit, (scale, error)


@pytest.mark.parametrize(
    "change",
    [
        {"head_size": 0}, {"value_size": 4096}, {"scale": float("nan")}, {"softcap": INF},
        {"masked_value": float("nan")}, {"compute_dtype": DType.f16},
        {"causal": 1 << 63}, {"causal": RuntimeDim(-1)},
        {"query": Operand(DType.f64, (8, 16, 1))}, {"key": Operand(F32, (8, 16, 2))},
        {"mask": Operand(DType.i32, (0, 0, 1))}, {"out": Operand(DType.i8, (8, 16, 1))},
    ],
    ids=str,
)  # fmt: skip
def test_forged_specs_are_refused(change: dict[str, object]) -> None:
    spec, _, _ = build(Case(4, 4))
    verify_specs([spec], target_of(ISAS[0]))
    with pytest.raises(VerificationError):
        verify_specs([replace(spec, **change)], target_of(ISAS[0]))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [32, 64])
def test_lengths_of_run_time_take_few_lines(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes some 0.03 ms a line, and the bar is 120 ms for the code of panels."""
    monkeypatch.setattr(
        "irc_compiler.runtime.kernels.attention.loops.most_queries", lambda spec, target: 0
    )
    target = generic_target("avx512")
    target = replace(target, cpu_features=tuple(sorted({*target.cpu_features, "avx512bf16"})))
    case = Case(70, 300, size=size, width=size, mask="keys", causal=0, dynamic=True)
    spec = build(replace(case, compute_dtype=DType.bf16))[0]
    assert generate(spec, target, "k").text.count("\n") < 3600
