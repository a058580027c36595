"""alpha * A B + beta * C over all that a kernel's code depends on, small integers bit for bit.

In a run of CI every pair of choices meets in each type of floats, in integers of each width, and in
bytes, with their unit and without; `--exhaustive` crosses them, and `--exhaustive=3/10` the third
tenth of all kernels. The oracle is NumPy's exact sum, rounded once. Operands lie against protected
pages.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops import Gemm
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.packing.panel_params import accumulator, panel_width
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.runtime.kernels.gemm.tiling import tile_rows
from support.kernels.harness import AMX, ISAS, compile_spec, run, target_of
from support.kernels.products import Case, extract, integers, make
from support.kernels.products import check as check_case

from tests.runtime.kernels.gemm import test_int8 as test_gemm_bytes

# What is a float is also multiplied as bf16 factors, where its type is f32.
TYPES: dict[str, tuple[DType, DType | None]] = {
    **{t.name: (t, None) for t in (DType.f32, DType.f64, DType.f16, DType.bf16)},
    **{t.name: (t, None) for t in (DType.i32, DType.u32, DType.i64, DType.u64)},
    "f32 as bf16": (DType.f32, DType.bf16),
}
# Types of one width of integers have the same code but for conversions.
ALIKE = {t: [t] for t in TYPES if t[0] != "i" and t[0] != "u"}
ALIKE |= {"32 bits": ["i32", "u32"], "64 bits": ["i64", "u64"]}
SIZES = ["0", "1", "tile-1", "tile", "tile+1", "prime"]
FACTORS = [0.0, -0.0, 1.0, -0.5, 0.25]
# Broken factors of integers are computed in f64, by another kernel: whole ones stand in for them.
WHOLE = {-0.5: 3.0, 0.25: 2.0}
AXES: dict[str, list] = {
    "type": list(TYPES),
    "m": SIZES,
    "k": SIZES,
    "n": SIZES,
    "a": ["rows", "columns", "gaps"],
    "b": ["packed", "rows", "columns", "gaps"],
    "out": ["rows", "columns", "gaps"],
    "alpha": FACTORS,
    "beta": FACTORS,
    "dynamic": ["", "m", "mnkabc"],
    "workers": [1, 2, 3, 4],
    "at": ["start", "end"],
}
Choice = dict[str, object]

# Bytes on vectors and (test_gemm_cover_amx.py) on tiles: zero points and a residual sum stand for
# alpha and beta.
BYTES = {f"{a.name} x {b.name}": (a, b) for a, b in test_gemm_bytes.TYPES}
VECTORS = [kind for kind in test_gemm_bytes.KINDS if AMX not in kind]
ZEROS = ["", "one", "each"]
OF_BYTES = {
    "type": list(BYTES), **{n: x for n, x in AXES.items() if n not in ("type", "alpha", "beta")},
    "a_zero_point": ZEROS, "b_zero_point": ZEROS, "epilogue": ["none", "residual"],
}  # fmt: skip
# A cell of bytes is as deep as this at most.
CELL = 4


def pairwise(seed: int, axes: Mapping[str, list] = AXES) -> list[Choice]:
    """Choices in which every two values of two axes meet: greedy, of 20 random candidates each the
    one that covers most of what is missing."""
    rng = random.Random(seed)
    names = list(axes)
    missing = {
        (p, i, q, j)
        for p, q in itertools.combinations(range(len(names)), 2)
        for i in range(len(axes[names[p]]))
        for j in range(len(axes[names[q]]))
    }
    found: list[Choice] = []

    def covered(row: list[int]) -> set[tuple[int, int, int, int]]:
        pairs = itertools.combinations(range(len(row)), 2)
        return {(p, row[p], q, row[q]) for p, q in pairs} & missing

    while missing:
        p, i, q, j = min(missing)
        rows = [[rng.randrange(len(axes[n])) for n in names] for _ in range(20)]
        for row in rows:
            row[p], row[q] = i, j
        best = max(rows, key=lambda row: len(covered(row)))
        missing -= covered(best)
        found.append({n: axes[n][best[x]] for x, n in enumerate(names)})
    return found


def kernels() -> Iterator[tuple[Choice, tuple[str, ...]]]:
    """Every kernel of a type: what its code depends on, and the axes that it meets in full. Sizes,
    transposes, alpha and beta are crossed where all sizes are dynamic, sizes and
    transposes where M is, or none; layouts with gaps with workers and the kinds of kernels. What
    is not crossed takes its values in turn."""
    sizes, transposes = ("m", "k", "n"), ("a", "b", "out")
    turned = (AXES["a"][:2], AXES["b"][:3], AXES["out"][:2])
    factors = itertools.cycle(itertools.product(FACTORS, FACTORS))
    turns = {name: itertools.cycle(AXES[name]) for name in sizes}

    def kernel(layout: tuple, dynamic: str, alpha: float, beta: float, **known: object) -> Choice:
        shared = {"alpha": alpha, "beta": beta, "dynamic": dynamic}
        return dict(zip(transposes, layout, strict=True)) | shared | known

    for layout in itertools.product(*turned):
        for scales in itertools.product(FACTORS, FACTORS):
            yield kernel(layout, "mnkabcs", *scales), sizes
        for k, n in itertools.product(SIZES, SIZES):
            yield kernel(layout, "macs", *next(factors), k=k, n=n), ("m",)
        for m, k, n in itertools.product(SIZES, SIZES, SIZES):
            yield kernel(layout, "", *next(factors), m=m, k=k, n=n), ()
    for *layout, dynamic in itertools.product(*(AXES[name] for name in (*transposes, "dynamic"))):
        known = {name: next(turn) for name, turn in turns.items()}
        yield kernel(tuple(layout), dynamic, *next(factors), **known), ("workers", "at")


def everything(part: int, parts: int) -> Iterator[Choice]:
    """All choices that every `parts`-th kernel meets, from the part-th on."""
    turns = {name: itertools.cycle(AXES[name]) for name in ("workers", "at")}
    for kernel, met in itertools.islice(kernels(), part, None, parts):
        for values in itertools.product(*(AXES[name] for name in met)):
            others = {name: next(turn) for name, turn in turns.items()}
            yield others | kernel | dict(zip(met, values, strict=True))


def size(name: object, tile: int) -> int:
    return {"0": 0, "1": 1, "tile-1": max(1, tile - 1), "tile": tile, "tile+1": tile + 1}.get(
        str(name), 37
    )


def check(isa: str, choice: Choice) -> None:
    """On vectors: sizes around the register tile."""
    dtype, factors = TYPES[str(choice["type"])]
    acc, target = accumulator(dtype), target_of(isa)
    width = panel_width(target, acc.bits)
    tall = tile_rows(target, max(1, width // target.lanes(acc.bits)))
    check_product(isa, choice, dtype, factors, (tall, 16, width))


def check_product(
    isa: str,
    choice: Choice,
    dtype: DType,
    factors: DType | None,
    tile: tuple[int, int, int],
    *,
    bf16x3: bool = False,
) -> None:
    """Sizes around a tile of M, K and N."""
    acc = accumulator(dtype)
    alpha, beta = (float(str(choice[name])) for name in ("alpha", "beta"))
    if dtype.is_int:
        alpha, beta = WHOLE.get(alpha, alpha), WHOLE.get(beta, beta)
    op = Gemm(alpha=alpha, beta=beta)
    layouts = {n: str(choice[n]) for n in ("a", "b", "out", "dynamic")}
    case = Case(
        *(size(choice[name], at) for name, at in zip("mkn", tile, strict=True)),
        dtype=dtype, compute_dtype=factors, bf16x3=bf16x3, seed=3, **layouts,
    )  # fmt: skip
    spec, inputs, dims, out_memory, expected = make(case, isa)
    with_c = op.beta != 0
    b = Builder()
    args = [b.input(0, acc)] + ([b.input(1, dtype)] if with_c else [])
    (ref,) = b.inline(op.epilogue(dtype, acc, with_c=with_c), *args)
    c = integers(np.random.default_rng(4), expected.shape, dtype)
    strides = (spec.n if isinstance(spec.n, RuntimeDim) else max(1, case.n), 1)
    extras = (Operand(dtype, strides),) if with_c else ()
    spec = dataclasses.replace(spec, epilogue=b.finish(ref), epilogue_operands=extras)
    found = run(
        spec, [*inputs, *([c] if with_c else [])], [out_memory.shape], isa=isa, dims=dims,
        workers=int(str(choice["workers"])), at=str(choice["at"]),
    )  # fmt: skip
    assert found.status == 0
    wanted = exact(case, op, c)
    got = extract(found.outs[0], case.out, wanted.shape)
    np.testing.assert_array_equal(got, wanted, err_msg=str(choice))
    assert got.tobytes() == wanted.tobytes(), f"the sign of a zero: {choice}"


def exact(case: Case, op: Gemm, c: np.ndarray) -> np.ndarray:
    """What NumPy says of the same operands: integers wrap, floats are exact in f64."""
    rng = np.random.default_rng(case.seed)
    a = integers(rng, (case.m, case.k), case.dtype)
    b = integers(rng, (case.k, case.n), case.dtype)
    wide = case.dtype.numpy if case.dtype.is_int else np.dtype(np.float64)
    alpha, beta = (np.asarray(x).astype(wide) for x in (op.alpha, op.beta))
    total = alpha * (np.matmul(a.astype(wide), b.astype(wide)) + 0)  # a sum begins with 0
    if op.beta:  # else C is not read
        total = total + beta * c.astype(wide)
    return total.astype(case.dtype.numpy)


def bytes_case(choice: Choice, tile: tuple[int, int, int]) -> Case:
    """Sizes around a tile of M, K and N; alpha and beta of a choice of floats choose likewise."""
    if "alpha" in choice:
        zeros = [ZEROS[FACTORS.index(float(str(choice[x]))) % 3] for x in ("alpha", "beta")]
        epilogue = "residual" if choice["beta"] else "none"
        choice = choice | {"a_zero_point": zeros[0], "b_zero_point": zeros[1], "epilogue": epilogue}
    dtype, right = BYTES[str(choice["type"])]
    m, k, n = (size(choice[x], at) for x, at in zip("mkn", tile, strict=True))
    names = ("a", "b", "out", "dynamic", "a_zero_point", "b_zero_point", "epilogue")
    return Case(m, k, n, dtype=dtype, b_dtype=right, **{x: str(choice[x]) for x in names})


def check_bytes(isa: str, choice: Choice, tile: tuple[int, int, int] | None = None) -> None:
    """On vectors, or on tiles of a size."""
    target = target_of(isa)
    case = bytes_case(choice, tile or (tile_rows(target, 2), CELL, panel_width(target, 32)))
    check_case(case, isa, int(str(choice["workers"])), str(choice["at"]))


COVER = functools.cache(lambda isa, alike: pairwise(ISAS.index(isa), AXES | {"type": ALIKE[alike]}))
COVER_BYTES = functools.cache(lambda kind: pairwise(VECTORS.index(kind), OF_BYTES))


@pytest.mark.slow
@pytest.mark.parametrize("alike", ALIKE)
@pytest.mark.parametrize("isa", ISAS)
def test_gemm_of_every_pair_of_choices(isa: str, alike: str) -> None:
    for choice in COVER(isa, alike):
        check(isa, choice)


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: not params["kind"].startswith(ISAS[0]))
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", VECTORS)
def test_int8_gemm_of_every_pair_of_choices(kind: str, part: int) -> None:
    for choice in COVER_BYTES(kind)[part::2]:
        check_bytes(kind, choice)


def meeting(rows: Sequence[Choice], axes: Mapping[str, list]) -> bool:
    """Whether every two values of two axes meet in a row."""
    found = {
        ((p, str(row[p])), (q, str(row[q])))
        for row in rows
        for p, q in itertools.combinations(axes, 2)
    }
    return found == {
        ((p, str(x)), (q, str(y)))
        for p, q in itertools.combinations(axes, 2)
        for x, y in itertools.product(axes[p], axes[q])
    }


def test_cover_holds_every_pair() -> None:
    """Of all that a product may be: sizes around the tile, transposes, factors of both signs."""
    assert set(SIZES) == {"0", "1", "tile-1", "tile", "tile+1", "prime"}
    assert list(map(str, FACTORS)) == ["0.0", "-0.0", "1.0", "-0.5", "0.25"]
    assert sorted(itertools.chain(*ALIKE.values())) == sorted(TYPES)
    for alike, types in ALIKE.items():
        rows, axes = COVER(ISAS[0], alike), AXES | {"type": types}
        assert meeting(rows, axes) and not meeting(rows[1:], axes) and len(rows) < 80
    assert meeting(COVER_BYTES(VECTORS[0]), OF_BYTES) and len(COVER_BYTES(VECTORS[0])) < 80


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("isa", ISAS)
def test_gemm_of_every_combination(isa: str, type_: str, request: pytest.FixtureRequest) -> None:
    check_everything(request, f"{isa}, {type_}", lambda c: check(isa, c | {"type": type_}))


@pytest.mark.parametrize("type_", BYTES)
@pytest.mark.parametrize("kind", VECTORS)
def test_int8_gemm_of_every_combination(
    kind: str, type_: str, request: pytest.FixtureRequest
) -> None:
    check_everything(request, f"{kind}, {type_}", lambda c: check_bytes(kind, c | {"type": type_}))


def check_everything(
    request: pytest.FixtureRequest, name: str, check_one: Callable[[Choice], None]
) -> None:
    share = request.config.getoption("--exhaustive")
    if not share:
        pytest.skip("not run: every combination takes more than an hour of a core (--exhaustive)")
    part, parts = map(int, share.split("/"))
    count = 0
    for choice in everything(part - 1, parts):
        check_one(choice)
        count += 1
        if count % 500 == 0:
            compile_spec.cache_clear()
    print(f"{name}: {count} products")
    transposes, sizes = 2 * 3 * 2, 6**3
    every = transposes * sizes * (5 * 5 + 1 + 1) + 3 * 4 * 3 * 3 * 4 * 2
    assert count == every if parts == 1 else 0 < count < every
