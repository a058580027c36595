"""Recurrent kernels against the operations' own evaluate, over cells, directions and lengths."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from irc_compiler.compiler.lowering.ops.recurrent_step import programs_of
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import GRUSequence, PeepholeLSTM, RNNSequence
from irc_compiler.plan.packing.layouts import PackedGates
from irc_compiler.plan.packing.panel_params import cell_depth
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.recurrent import RecurrentSpec
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from support.kernels.harness import ISAS, run, same_bits, target_of

BF16, F32, I64 = DType.bf16, DType.f32, DType.i64
CELLS = ("gru", "gru_linear", "lstm", "peepholes", "rnn")
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Case:
    """One layer: its operation, random data, and the answer of evaluate."""

    def __init__(
        self,
        cell: str,
        direction: str,
        batch: int,
        time: int,
        hidden: int,
        lengths: list[int] | None = None,
        clip: float = 0.0,
        activations: tuple[str, ...] = (),
        parameters: tuple[float, ...] = (),
        coupled: bool = False,
        whole: bool = False,
        compute_dtype: DType | None = None,
    ) -> None:
        self.compute_dtype = compute_dtype
        self.batch, self.time, self.hidden = batch, time, hidden
        self.reverse, self.lengths = DIRECTIONS[direction], lengths
        rng = np.random.default_rng(batch + 7 * time + 31 * hidden)

        def normal(*shape: int) -> np.ndarray:
            if whole:
                return rng.integers(-2, 3, shape).astype(np.float32)
            return rng.standard_normal(shape).astype(np.float32)

        common: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "clip": clip}
        common["activations"] = activations
        common["activations_alpha"] = common["activations_beta"] = parameters
        if cell in ("lstm", "peepholes"):
            op: Any = PeepholeLSTM(coupled=coupled, **common)
        elif cell == "rnn":
            op = RNNSequence(**common)
        else:
            op = GRUSequence(linear_before_reset=cell == "gru_linear", **common)
        self.op, self.gates = op, op.gates
        gates, d, inputs = op.gates, len(self.reverse), 3
        x = normal(batch, time, inputs)
        self.states = [normal(batch, d, hidden) for _ in range(op.states)]
        w, self.r = normal(d, gates * hidden, inputs), normal(d, gates * hidden, hidden)
        if compute_dtype is not None and not whole:
            self.r *= np.float32(0.25)  # what rounding changes does not grow from step to step
        b = normal(d, op.bias_rows() * hidden)
        self.vectors = [b[:, 3 * hidden :]] if cell == "gru_linear" else []
        more = [normal(d, 3 * hidden)] if cell == "peepholes" else []
        self.vectors += [p for a in more for p in np.split(a, 3, axis=1)]
        shares = np.einsum("nti,dgi->ntdg", x.astype(np.float64), w.astype(np.float64))
        shares = shares + b[:, : gates * hidden]
        self.x = shares.astype(np.float32)
        given = np.array([time] * batch if lengths is None else lengths, np.int64)
        self.want = op.evaluate(x, *self.states, given, w, self.r, b, *more)

    def spec(self, isa: str, *, dynamic: bool = False) -> RecurrentSpec:
        h, d, g = self.hidden, len(self.reverse), self.gates
        target = target_of(isa)
        packed = PackedGates(g * target.lanes(32), g, cell_depth(target, self.compute_dtype))
        programs = programs_of(self.op, len(self.vectors))
        batch: Size = RuntimeDim(0) if dynamic else self.batch
        time: Size = RuntimeDim(1) if dynamic else self.time
        x_row: Size = RuntimeDim(2) if dynamic else self.time * d * g * h
        y_d: Size = RuntimeDim(3) if dynamic else self.time * h
        y_row: Size = RuntimeDim(4) if dynamic else self.time * d * h
        state = Operand(F32, (d * h, h, 1))
        return RecurrentSpec(
            self.reverse,
            batch,
            time,
            h,
            Operand(F32, (x_row, d * g * h, g * h, 1)),
            Operand(self.compute_dtype or F32, (1,)),
            packed,
            (state,) * len(self.states),
            None if self.lengths is None else Operand(I64, (1,)),
            (Operand(F32, (h, 1)),) * len(self.vectors),
            (Operand(F32, (y_row, y_d, h, 1)), *(state,) * len(self.states)),
            programs.step,
            programs.early,
            self.compute_dtype,
        )

    def run(
        self, isa: str, *, dynamic: bool = False, workers: int = 1, phased: bool = False
    ) -> list[np.ndarray]:
        """The outputs; phased: elements of each step are shared, whatever the batch."""
        spec = self.spec(isa, dynamic=dynamic)
        phases = (self.time * spec.passes + 1) if phased else 0
        verify_specs([spec], target_of(isa))
        h, d, g = self.hidden, len(self.reverse), self.gates
        rounds = self.compute_dtype is not None
        constant = PlanConstant(
            0, self.compute_dtype or F32, (d, g * h, h), spec.packed, rounds=rounds
        )
        packed = pack(self.r, constant)
        inputs = [self.x, packed, *self.states]
        inputs += [] if self.lengths is None else [np.array(self.lengths, np.int64)]
        inputs += [np.ascontiguousarray(v) for v in self.vectors]
        dims = (self.batch, self.time, self.time * d * g * h, self.time * h, self.time * d * h)
        shapes = [w.shape for w in self.want]
        return run(
            spec,
            inputs,
            shapes,
            isa=isa,
            dims=dims if dynamic else (),
            workers=workers,
            phases=phases,
        ).outs


def check(case: Case, isa: str, tolerance: float = 2e-5, *, static: bool = False) -> None:
    first: list[np.ndarray] | None = None
    for dynamic in (True, False) if static else (True,):
        for workers, phased in (
            (1, False),
            (2, False),
            (3, False),
            (1, True),
            (2, True),
            (4, True),
        ):
            found = case.run(isa, dynamic=dynamic, workers=workers, phased=phased)
            first = found if first is None else first
            for a, b in zip(found, first, strict=True):
                assert same_bits(a, b), (dynamic, workers, phased)
    assert first is not None
    for got, want in zip(first, case.want, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


PAIRS = [
    ("lstm", "bidirectional"),
    ("lstm", "reverse"),
    ("gru", "bidirectional"),
    ("gru_linear", "reverse"),
    ("peepholes", "bidirectional"),
    ("rnn", "forward"),
]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell, direction", PAIRS)
def test_directions(isa: str, cell: str, direction: str) -> None:
    check(Case(cell, direction, 3, 4, 19), isa, static=direction == "reverse" and cell == "lstm")


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell, hidden", [("lstm", 1), ("lstm", 33), ("gru", 16), ("rnn", 64)])
def test_hidden_sizes(isa: str, cell: str, hidden: int) -> None:
    check(Case(cell, "forward", 1, 3, hidden), isa, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell, hidden, batch", [("rnn", 72, 1), ("gru", 200, 1), ("lstm", 72, 2)])
def test_workers_share_panels_that_tiles_do_not_divide(
    isa: str, cell: str, hidden: int, batch: int
) -> None:
    """In phases (`check`), of two directions, factors as they are and rounded."""
    check(Case(cell, "bidirectional", batch, 3, hidden), isa, 1e-3, static=True)
    check(Case(cell, "bidirectional", batch, 2, hidden, compute_dtype=BF16), isa, 1e-1)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [[5, 0, 1, 3, 5, 2, 4], [5, 5, 4, 2, 2, 1, 0]])
def test_lengths_end_each_sequence(isa: str, cell: str, lengths: list[int]) -> None:
    """In any order, and sorted, where steps compute fewer rows from end to end."""
    check(Case(cell, "bidirectional", 7, 5, 9, lengths=lengths), isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("compute_dtype", [None, BF16])
def test_a_row_has_the_same_bits_whatever_rows_have_ended(
    isa: str, compute_dtype: DType | None
) -> None:
    case = Case("gru", "forward", 7, 5, 19, lengths=[5] * 7, compute_dtype=compute_dtype)
    whole = case.run(isa)[0]
    case.lengths = [5, 4, 4, 3, 1, 2, 0]
    found = case.run(isa)[0]
    for row, length in enumerate(case.lengths):
        assert same_bits(found[row, :, :length], whole[row, :, :length])
        assert not found[row, :, length:].any()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("batch, time", [(0, 3), (2, 0), (5, 1)])
def test_empty_axes(isa: str, batch: int, time: int) -> None:
    check(Case("lstm", "forward", batch, time, 5), isa)
    check(Case("gru", "forward", batch, time, 5), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch", [2, 4, 6, 8, 9, 13])
def test_blocks_of_rows(isa: str, cell: str, batch: int) -> None:
    """Of all sizes that have code of their own, whole and not, with what panels leave."""
    check(Case(cell, "forward", batch, 2, 37), isa, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_clip_and_other_activations(isa: str) -> None:
    check(Case("lstm", "forward", 2, 4, 12, clip=0.3), isa)
    check(Case("gru", "reverse", 2, 4, 12, clip=0.5), isa)
    check(Case("rnn", "forward", 2, 3, 12, activations=("sigmoid",)), isa)
    check(Case("lstm", "forward", 2, 2, 5, activations=("sigmoid", "relu", "tanh")), isa, 1e-4)
    check(Case("peepholes", "reverse", 2, 4, 12, clip=0.3, coupled=True), isa)
    check(Case("lstm", "forward", 2, 4, 12, coupled=True), isa)
    given = ("hardsigmoid", "elu", "scaledtanh")
    check(Case("lstm", "forward", 3, 3, 9, activations=given, parameters=(0.3, 0.7, 0.4)), isa)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
def test_small_integers_are_exact(isa: str) -> None:
    case = Case("rnn", "bidirectional", 5, 3, 17, activations=("relu",), whole=True)
    for got, want in zip(case.run(isa, workers=2), case.want, strict=True):
        assert same_bits(got, want)


@pytest.mark.parametrize("isa", ISAS)
def test_a_length_outside_the_axis_is_held_inside(isa: str) -> None:
    case = Case("lstm", "bidirectional", 3, 4, 6, lengths=[4, 0, 4])
    case.lengths = [9, -3, 4]
    for got, want in zip(case.run(isa), case.want, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_nan_stays_in_its_row(isa: str) -> None:
    case = Case("lstm", "forward", 3, 3, 7)
    case.x[1, 1, 0, 2] = np.nan
    found = case.run(isa)[0]
    assert np.isnan(found[1, 0, 1:]).any(axis=-1).all()
    assert np.isfinite(found[[0, 2]]).all() and np.isfinite(found[1, 0, 0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cell, direction", PAIRS)
def test_rounded_factors(isa: str, cell: str, direction: str) -> None:
    check(Case(cell, direction, 5, 4, 19, compute_dtype=BF16), isa, 2e-2, static=True)
    if cell == "lstm":
        check(Case(cell, direction, 3, 3, 33, lengths=[3, 0, 2], compute_dtype=BF16), isa, 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("hidden", [1, 17, 32, 65])
def test_rounded_factors_of_small_integers_are_exact(isa: str, hidden: int) -> None:
    case = Case("rnn", "bidirectional", 5, 2, hidden, activations=("relu",), whole=True)
    case.compute_dtype = BF16
    for got, want in zip(case.run(isa, workers=2), case.want, strict=True):
        assert same_bits(got, want)


@pytest.mark.parametrize("isa", ISAS)
def test_states_and_weights_are_rounded_and_denormals_are_zeros(isa: str) -> None:
    case = Case("rnn", "forward", 2, 1, 3, activations=("relu",), compute_dtype=BF16)
    case.x[...] = 0
    # 1 + 2**-9 lies between two bf16 numbers, nearer to 1; 1e-40 is denormal.
    case.states[0][...] = [[[1 + 2.0**-9, 3, 0]], [[1e-40, 1, 0]]]
    case.r[...] = [[1, 0, 0], [0, 1 + 2.0**-9, 0], [2.0**100, 1e-40, 0]]
    want = np.array([[1, 3, 2.0**100], [0, 1, 0]], np.float32)
    assert same_bits(case.run(isa)[0].reshape(2, 3), want)


def test_specs_that_would_mislead_are_refused() -> None:
    target = target_of(ISAS[0])
    spec = Case("gru", "bidirectional", 2, 2, 5).spec(ISAS[0])
    assert spec.early is not None
    verify_specs([spec], target)
    wrong: list[dict[str, Any]] = [
        {"reverse": (True, False)},
        {"step": spec.early},
        {"early": spec.step},
        # Its input 2 is the product that waits for it.
        {"early": dataclasses.replace(spec.step, results=spec.step.results * 2)},
        {"packed": dataclasses.replace(spec.packed, nr=2 * spec.packed.nr)},
        {"packed": dataclasses.replace(spec.packed, gates=5)},
        {"outs": spec.outs[:1]},
        {"hidden": 0},
    ]
    for fields in wrong:
        with pytest.raises(VerificationError):
            verify_specs([dataclasses.replace(spec, **fields)], target)
