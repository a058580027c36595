"""Few queries: the formula, and the bits of the same rows among many, which panels compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.attention.few_queries import most_queries
from support.kernels.harness import ISAS, same_bits, target_of

from tests.runtime.kernels.attention.test_block import INF, Case, build, check, found

MANY = 40
FORMS = [
    {"dtype": DType.f32},
    {"dtype": DType.f16},
    {"dtype": DType.bf16},
    {"bits": 8},
    {"bits": 4},
]
MASKS = [
    {},
    {"mask": "keys"},
    {"mask": "full", "cap": 3.0},
    {"mask": "turned"},
    {"mask": "bool", "fill": -3.0, "sink": "head"},
    {"mask": "row", "causal": 200},
    {"causal": 200, "sink": "full"},
    {"causal": -30},
]


def last_rows(case: Case, data: list[np.ndarray], count: int) -> tuple[Case, list[np.ndarray]]:
    """The case of the last queries alone: a query sees as many keys as before."""
    first = case.queries - count
    picked = list(data)
    picked[0] = data[0][first:]
    if case.mask in ("full", "bool"):
        picked[3] = data[3][:, first:]
    if case.mask == "turned":
        picked[3] = data[3][:, :, first:]
    if case.sink == "full":
        picked[-1] = data[-1][:, first:]
    causal = None if case.causal is None else case.causal + first
    picked = [np.ascontiguousarray(x) for x in picked]
    return replace(case, queries=count, causal=causal), picked


# Keys, heads, whether heads share keys. Forms take turns: each mask meets each of them.
SIZES = [(260, 3, True), (131, 7, True), (7, 2, False)]


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["turn"] != 0)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("turn", range(len(SIZES)))
def test_rows_have_the_bits_that_they_have_among_many(isa: str, form: dict, turn: int) -> None:
    most = most_queries(build(Case(MANY, 9, 32, 64, dynamic=True, **form))[0], target_of(isa))
    assert 0 < most < MANY
    for n, mask in enumerate(MASKS, turn + FORMS.index(form)):
        keys, heads, shared = SIZES[n % len(SIZES)]
        case = Case(MANY, keys, 32, 64, heads, shared, dynamic=True, **form, **mask)
        _, data, _ = build(case)
        whole = found(case, isa, data)
        for count, workers in ((1, 1), (most, 2)):
            few, picked = last_rows(case, data, count)
            assert same_bits(found(few, isa, picked, workers), whole[-count:]), (few, workers)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("queries", [1, 2, 20])
def test_keys_and_values_of_codes(isa: str, bits: int, queries: int) -> None:
    """Against the formula over the dequantized rows; f32 outputs of f32 queries."""
    check(Case(queries, 300, 64, 96, 3, shared=True, mask="full", bits=bits), isa)
    check(Case(queries, 130, 32, 32, causal=128, bits=bits), isa)
    check(Case(queries, 70, 64, 64, compute_dtype=DType.bf16, bits=bits), isa, 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("queries", [1, 2])
def test_the_formula(isa: str, queries: int) -> None:
    for heads in (1, 4, 17):
        check(Case(queries, 300, 16, 48, heads, shared=True, mask="full"), isa)
    check(Case(queries, 0, 16, 16), isa)
    check(Case(queries, 300, 128, 128, zeros=True, causal=-2), isa)


def test_one_query_and_codes_on_this_machine() -> None:
    """What the slow tests do, once."""
    check(Case(1, 140, 32, 32, 3, shared=True, mask="row", bits=4), ISAS[0])
    case = Case(MANY, 140, 32, 32, 3, shared=True, mask="row", bits=8, dynamic=True)
    _, data, _ = build(case)
    few, picked = last_rows(case, data, 1)
    assert same_bits(found(few, ISAS[0], picked), found(case, ISAS[0], data)[-1:])


def test_codes_that_are_no_rows_are_refused() -> None:
    spec, _, _ = build(Case(3, 4, 32, 32, bits=8))
    target = target_of(ISAS[0])
    for broken in (
        replace(spec, row_bits=5),
        replace(spec, head_size=40, row_bits=4),
        replace(spec, key=Operand(DType.f16, spec.key.strides)),
    ):
        with pytest.raises(VerificationError, match="no such codes"):
            verify_specs([broken], target)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_special_values(isa: str) -> None:
    """Keys, masks and values that are not finite spoil the same rows, in the same bits."""
    case = Case(MANY, 200, 16, 16, 3, shared=True, mask="full", dynamic=True)
    _, data, _ = build(case)
    data[1][150, 0, 3], data[2][20, 0, 5] = INF, np.nan
    data[3][0, -1], data[3][1, -1, 140:] = -INF, -INF
    whole = found(case, isa, data)
    few, picked = last_rows(case, data, 1)
    np.testing.assert_array_equal(found(few, isa, picked), whole[-1:])
