"""Products whose rows, depth or columns an operand walks in blocks: heads of attention."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size, verified_spaces
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.verify.specs import verify_specs
from support.kernels.harness import (
    ISAS,
    each_tiled_isa,
    run,
    same_bits,
    target_of,
)
from support.kernels.products import Case, Dims, make

each_isa = pytest.mark.parametrize("isa", ISAS)
# Blocks of rows and their size, of columns and their size, of K and their size.
HEADS = [(2, 5, 3, 16, 2, 16), (3, 1, 2, 32, 4, 8), (1, 7, 4, 64, 2, 64), (2, 9, 5, 20, 3, 33)]
ODD = [(2, 3, 11, 1, 7, 1), (3, 5, 7, 3, 5, 7), (2, 17, 3, 15, 9, 17), (1, 2, 40, 5, 1, 3)]
TYPES = {
    "f32": Case(1, 1, 1),
    "f64": Case(1, 1, 1, dtype=DType.f64, epilogue="bias"),
    "f16": Case(1, 1, 1, dtype=DType.f16, epilogue="residual"),
    "bf16": Case(1, 1, 1, dtype=DType.bf16, epilogue="relu"),
    "bf16 factors": Case(1, 1, 1, compute_dtype=DType.bf16, epilogue="gelu"),
    "u8": Case(1, 1, 1, dtype=DType.u8, b_dtype=DType.i8, a_zero_point="each", b_zero_point="one"),
    "i8": Case(1, 1, 1, dtype=DType.i8),
    "i32": Case(1, 1, 1, dtype=DType.i32, b="rows"),
    "converted": Case(1, 1, 1, a_from=DType.u8, b="columns"),
}


def split(case: Case, sizes: tuple[int, ...], isa: str, parts: str) -> Any:
    """(spec, inputs, run-time sizes, shape of the output's buffer, expected buffer): the product of
    a case whose `parts` ("a", "c") lie as heads, (blocks of columns, rows, columns of a block)
    within each block of rows."""
    mo, mi, no, ni, ko, ki = sizes
    case = dataclasses.replace(case, m=mo * mi, n=no * ni, k=ko * ki)
    spec, inputs, dims, out, expected = make(case, isa)
    more = Dims(case.dynamic)
    more.values = dims

    def heads(rows: tuple[int, int], columns: tuple[int, int]) -> dict[str, Any]:
        outer, inner = columns
        strides: list[Size] = [
            more.size("m", rows[1] * outer * inner), more.size("m", inner),
            more.size("m", rows[1] * inner), 1,
        ]  # fmt: skip
        names = ("m", "n")
        both = [
            tuple(more.size(n, x) for x in p) for n, p in zip(names, (rows, columns), strict=True)
        ]
        return {"strides": tuple(strides), "splits": both}

    changes: dict[str, Any] = {}
    if "a" in parts:
        found = heads((mo, mi), (ko, ki))
        changes |= {"a": Operand(spec.a.dtype, found["strides"])}
        changes |= dict(zip(("a_m_split", "a_k_split"), found["splits"], strict=True))
        a = inputs[0].reshape(mo, mi, ko, ki).transpose(0, 2, 1, 3)
        inputs = [np.ascontiguousarray(a), *inputs[1:]]
    if "c" in parts:
        found = heads((mo, mi), (no, ni))
        changes |= {"out": Operand(spec.out.dtype, found["strides"])}
        changes |= dict(zip(("out_m_split", "out_n_split"), found["splits"], strict=True))
        expected = expected.reshape(mo, mi, no, ni).transpose(0, 2, 1, 3)
    return dataclasses.replace(spec, **changes), inputs, more.values, expected


def check_split(case: Case, sizes: tuple[int, ...], isa: str, parts: str = "ac") -> np.ndarray:
    spec, inputs, dims, expected = split(case, sizes, isa, parts)
    verify_specs([spec], target_of(isa))
    found: list[np.ndarray] = []
    for workers, at in ((1, "end"), (3, "start")):
        result = run(spec, inputs, [expected.shape], isa=isa, dims=dims, workers=workers, at=at)
        found += result.outs
    if case.epilogue == "gelu":
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found[0], expected)
    assert same_bits(found[0], found[1])
    return found[0]


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", TYPES)
def test_strided_axes_read_and_write_heads_in_place(isa: str, name: str) -> None:
    for number, sizes in enumerate((*HEADS, *ODD)):
        if sizes[4] * sizes[5] == 1 or (number + len(name)) % 3 == 0:
            continue
        check_split(TYPES[name], sizes, isa)


@each_tiled_isa
@pytest.mark.parametrize("name", ["bf16 factors", "u8"])
def test_strided_axes_on_amx_tiles(isa: str, name: str) -> None:
    for sizes in (HEADS[0], ODD[2]):
        check_split(TYPES[name], sizes, isa)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("parts", ["a", "c", "ac"])
def test_strided_axes_have_the_same_bits_for_dynamic_sizes(isa: str, parts: str) -> None:
    for sizes in (HEADS[0], HEADS[3], ODD[1]):
        fixed = check_split(TYPES["f32"], sizes, isa, parts)
        for dynamic in ("m", "mn"):
            if "a" in parts and "n" in dynamic:
                continue
            case = dataclasses.replace(TYPES["f32"], dynamic=dynamic, b="rows")
            assert same_bits(check_split(case, sizes, isa, parts), fixed)


@pytest.mark.slow
@each_isa
def test_strided_axes_read_nothing_of_blocks_without_elements(isa: str) -> None:
    for sizes in ((2, 0, 3, 16, 2, 8), (2, 3, 3, 16, 0, 8), (2, 3, 3, 16, 2, 0)):
        case = dataclasses.replace(TYPES["f32"], dynamic="mk", b="rows")
        spec, inputs, dims, expected = split(case, sizes, isa, "c")
        depth = (RuntimeDim(len(dims)), RuntimeDim(len(dims) + 1))
        a = (*spec.a.strides[:-1], RuntimeDim(len(dims) + 1), 1)
        spec = dataclasses.replace(spec, a=Operand(DType.f32, a), a_k_split=depth)
        result = run(spec, inputs, [expected.shape], isa=isa, dims=[*dims, *sizes[4:]])
        np.testing.assert_array_equal(result.outs[0], expected)


def good() -> GemmSpec:
    return split(TYPES["f32"], HEADS[0], "plain", "ac")[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"a_m_split": (2, 0)},
        {"out_n_split": (-3, -16)},
        {"out_n_split": (48, 0)},
        {"n": 1, "packed": None, "out_n_split": (1, 1)},
        {"n": RuntimeDim(0), "packed": None},
    ],
    ids=str,
)
def test_verify_specs_rejects_wrong_splits(changes: dict[str, Any]) -> None:
    verify_specs([good()], target_of("plain"))
    with pytest.raises(VerificationError):
        verify_specs([dataclasses.replace(good(), **changes)], target_of("plain"))


def test_split_axis_has_a_stride_for_each_part() -> None:
    spaces = verified_spaces(good())
    assert spaces[0] == (2, 5, 2, 16) and spaces[-1] == (2, 5, 3, 16)
    for name in ("a_m_split", "a_k_split", "out_m_split", "out_n_split"):
        with pytest.raises(VerificationError, match="one stride per axis"):
            verified_spaces(dataclasses.replace(good(), **{name: None}))
