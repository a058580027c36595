"""Squeeze-and-excite against the formula, in one piece and shared in phases, on every
instruction set: small integers bit for bit, other numbers closely, bf16 factors rounded."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.packing.layouts import PackedB, PackedConv
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.squeeze_excite import CHUNKS, SqueezeExciteSpec, excite_panels
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.gemm import pack
from support.kernels.harness import (
    ISAS,
    Sizes,
    compile_spec,
    guard_copy,
    run,
    same_bits,
    strides_of,
    target_of,
)

F32, BF16 = DType.f32, DType.bf16


@dataclass(frozen=True)
class Case:
    """A block of [batch, places..., channels]. gap: elements between two rows of the data, so
    that places do not run into one another; out: the type of the result."""

    batch: int = 2
    places: tuple[int, ...] = (35,)
    channels: int = 72
    hidden: int = 18
    compute_dtype: DType | None = None
    out: DType = F32
    gap: int = 0
    dynamic: bool = False
    whole: bool = True


def _programs(rounds: bool, out: DType) -> tuple[Program, Program, Program, Program]:
    def factor(b: Builder, ref: object) -> Program:
        return b.finish(b.cast(b.cast_stored(ref, BF16), F32) if rounds else ref)  # type: ignore[arg-type]

    mean = Builder()
    made = factor(mean, mean.op("div", mean.input(0, F32), mean.input(1, F32)))
    squeeze = Builder()
    biased = squeeze.op("add", squeeze.input(0, F32), squeeze.input(1, F32))
    squeezed = factor(squeeze, squeeze.op("max", biased, squeeze.const(0.0, F32)))
    gate = Builder()
    biased = gate.op("add", gate.input(0, F32), gate.input(1, F32))
    gated = gate.finish(gate.op("clip", biased, gate.const(-8.0, F32), gate.const(8.0, F32)))
    scale = Builder()
    y = scale.op("mul", scale.input(0, F32), scale.input(1, F32))
    y = scale.op("add", y, scale.input(2, F32))
    return made, squeezed, gated, scale.finish(scale.cast_stored(y, out))


class Block:
    """A case's data and spec, and what it gives."""

    def __init__(self, case: Case, isa: str) -> None:
        self.case, self.isa = case, isa
        rng = np.random.default_rng(case.channels)

        def made(*shape: int) -> np.ndarray:
            if case.whole:
                return rng.integers(-2, 3, shape).astype(np.float32)
            return rng.standard_normal(shape).astype(np.float32)

        n, c, h = case.batch, case.channels, case.hidden
        count = int(np.prod(case.places))
        self.data = made(n, *case.places[:-1], case.places[-1] + case.gap, c)
        if case.whole:  # means are whole numbers
            self.data *= count
        self.down, self.up = made(h, c), made(c, h)
        self.bias, self.offset = made(h), made(n, c)
        self.residual = made(n, *case.places, c)
        self.spec = self._spec()

    @property
    def image(self) -> np.ndarray:
        return self.data[..., : self.case.places[-1], :]

    def _spec(self) -> SqueezeExciteSpec:
        case = self.case
        n, c, h = case.batch, case.channels, case.hidden
        down, up = excite_panels(c, h, target_of(self.isa).lanes(32))
        made = _programs(case.compute_dtype is not None, case.out)
        self.size = size = Sizes(case.dynamic)

        def rows(shape: tuple[int, ...], dtype: DType = F32) -> Operand:
            return Operand(dtype, (*map(size, strides_of(shape)[:-1]), 1))

        weights = Operand(case.compute_dtype or F32, (1,))
        return SqueezeExciteSpec(
            batch=size(n),
            places=tuple(map(size, case.places)),
            channels=c,
            hidden=h,
            data=rows(self.data.shape),
            down=weights,
            up=weights,
            down_panels=down,
            up_panels=up,
            sums=Operand(F32, (CHUNKS * c, c, 1)),
            states=Operand(F32, (h, 1)),
            gates=Operand(F32, (c, 1)),
            out=rows(self.residual.shape, case.out),
            mean=made[0],
            squeeze=made[1],
            gate=made[2],
            scale=made[3],
            squeeze_extras=(Operand(F32, (0, 1)),),
            gate_extras=(Operand(F32, (c, 1)),),
            epilogue_operands=(rows(self.residual.shape),),
            compute_dtype=case.compute_dtype,
        )

    def want(self) -> np.ndarray:
        """The formula in f64, its factors rounded as the precision says."""

        def factor(x: np.ndarray) -> np.ndarray:
            return x.astype(BF16.numpy if self.case.compute_dtype else np.float64).astype(
                np.float64
            )

        axes = tuple(range(1, self.image.ndim - 1))
        mean = factor(self.image.astype(np.float64).mean(axis=axes).astype(np.float32))
        state = np.maximum(mean @ factor(self.down).T + self.bias, 0)
        gate = np.clip(factor(state.astype(np.float32)) @ factor(self.up).T + self.offset, -8, 8)
        gate = gate.reshape(len(gate), *(1,) * len(axes), -1)
        return self.image * gate + self.residual

    def inputs(self) -> list[np.ndarray]:
        case, spec = self.case, self.spec
        rounds = case.compute_dtype is not None
        dtype, filters = case.compute_dtype or F32, self.up[:, :, None, None]
        packed = [
            pack(
                self.down, PlanConstant(0, dtype, self.down.shape, spec.down_panels, True, rounds)
            ),
            pack(
                filters,
                PlanConstant(0, dtype, filters.shape, PackedConv(spec.up_panels.nr), False, rounds),
            ),
        ]
        return [self.data, *packed, self.bias, self.offset, self.residual]

    def run(self, workers: int, phased: bool, at: str = "end") -> np.ndarray:
        case = self.case
        n, c, h = case.batch, case.channels, case.hidden
        verify_specs([self.spec], target_of(self.isa))
        shapes = [(n, CHUNKS, c), (n, h), (n, c), (n, *case.places, c)]
        found = run(
            self.spec,
            self.inputs(),
            shapes,
            isa=self.isa,
            dims=self.size.dims,
            workers=workers,
            phases=4 if phased else 0,
            at=at,
        )
        assert found.status == 0
        return found.outs[-1]


CASES = {
    "plain": Case(),
    "whole_panels": Case(channels=256, hidden=64),
    "few": Case(3, (7,), 5, 1),
    "one_place": Case(1, (1,), 130, 33),
    "rows": Case(2, (4, 9), 40, 9, gap=2),
    "volume": Case(1, (2, 3, 5), 20, 6, gap=1),
    "wide": Case(1, (3, 3), 300, 75),
    "rounded": Case(compute_dtype=BF16),
    "rounded_result": Case(2, (6, 6), 37, 12, BF16, BF16),
}
each_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_integers_bit_for_bit(name: str, dynamic: bool, isa: str) -> None:
    block = Block(dataclasses.replace(CASES[name], dynamic=dynamic), isa)
    want = block.want().astype(block.case.out.numpy)
    for workers, phased in ((1, False), (2, False), (1, True), (3, True)):
        found = block.run(workers, phased, "start" if phased else "end")
        np.testing.assert_array_equal(found, want)


@each_isa
@pytest.mark.parametrize("factors", [None, BF16])
def test_other_numbers_closely_and_the_same_for_any_split(factors: DType | None, isa: str) -> None:
    block = Block(Case(3, (11, 13), 150, 40, factors, gap=1, whole=False), isa)
    want, first = block.want(), block.run(1, False)
    # A state at a tie may round the other way: a step of bf16 of one of 40 terms.
    tolerance = 1e-6 if factors is None else 1e-3
    assert np.max(np.abs(first - want)) <= tolerance * np.max(np.abs(want))
    for workers, phased in ((2, False), (4, False), (1, True), (2, True), (5, True), (9, True)):
        assert same_bits(block.run(workers, phased), first)


@each_isa
def test_the_result_may_be_the_image(isa: str) -> None:
    block = Block(Case(2, (5, 6), 70, 10), isa)
    want, code = block.want().astype(np.float32), compile_spec(block.spec, isa)
    for workers, phases in ((1, 0), (2, 0), (3, 4)):
        given = [guard_copy(np.ascontiguousarray(a)) for a in block.inputs()]
        made = [np.empty((2, CHUNKS, 70), np.float32), np.empty((2, 10), np.float32)]
        made += [np.empty((2, 70), np.float32), given[0]]
        assert code([*given, *made], (), workers, phases) == (0, 0)
        np.testing.assert_array_equal(given[0], want)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 0}, "out of range"),
        ({"down_panels": PackedB(8)}, "another width"),
        ({"compute_dtype": DType.f16}, "no kernel rounds so"),
        ({"gates": Operand(F32, (72, 2))}, "not a plain row"),
        ({"up": Operand(F32, (1,), 3)}, "not plain arrays"),
        ({"down": Operand(BF16, (1,))}, "not plain arrays"),
        ({"scale": Program((), ())}, "stores other types"),
    ],
)
def test_what_no_lowering_writes_is_refused(change: dict[str, Any], message: str) -> None:
    spec, target = Block(Case(), "avx512").spec, target_of("avx512")
    verify_specs([spec], target)
    with pytest.raises(VerificationError, match=message):
        verify_specs([dataclasses.replace(spec, **change)], target)  # type: ignore[arg-type]
