"""Recurrent cells and sequences: RNN, GRU, LSTM.

A sequence runs a cell over the time axis of [N, T, I] in one or two directions. Gates are in
OpenVINO's order: f i c o (LSTM), z r h (GRU). Steps compute in f64 and round their results once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..math.activation_table import ACTIVATIONS, activate
from ..math.elementwise import FLOATS, INTEGERS, sizes_of
from ..shape_inference import fresh_symbol, one_dtype, require_dtype, require_rank, same_size

# Names of the format to those of the table, and how many parameters the lists hold for each.
_ACTIVATIONS = {
    "hardsigmoid": ("hard_sigmoid", 2),
    "leakyrelu": ("leaky_relu", 1),
    "elu": ("elu", 1),
    "thresholdedrelu": ("thresholded_relu", 1),
    "affine": ("linear", 2),
    "scaledtanh": ("scaled_tanh", 2),
}


@dataclass(frozen=True)
class _RecurrentOp(Op):
    """Base. `activations` are names, with parameters by position in activations_alpha and _beta;
    `clip` > 0 limits what goes into them."""

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    defaults: ClassVar[tuple[str, ...]] = ("tanh",)
    hidden_size: int
    activations: tuple[str, ...] = ()
    activations_alpha: tuple[float, ...] = ()
    activations_beta: tuple[float, ...] = ()
    clip: float = 0.0

    def _f(self, number: int, x: Array) -> Array:
        """Activation `number` of an f64 array, clipped before."""
        return self._activate_unclipped(
            number, np.clip(x, -self.clip, self.clip) if self.clip > 0 else x
        )

    def _activate_unclipped(self, number: int, x: Array) -> Array:
        name, parameters = self.activation(number)
        return activate(name, parameters, x)

    def activation(self, number: int) -> tuple[str, list[float]]:
        """Name and parameters of an activation, as the table of activations has them."""
        name_text = (self.activations or self.defaults)[number].strip().lower()
        name, count = _ACTIVATIONS.get(name_text, (name_text, 0))
        lists = (self.activations_alpha, self.activations_beta)[:count]
        return name, [values[number] for values in lists if number < len(values)]

    def unknown_activation(self) -> str | None:
        """The first of its activations that the table has not."""
        names = (self.activation(n)[0] for n in range(len(self.defaults)))
        return next((n for n in names if n not in ACTIVATIONS), None)

    def step(self, x: Array, states: list[Array], w: Array, r: Array, b: Array) -> list[Array]:
        """States [N, H] after one step, from x [N, I], w [G*H, I], r [G*H, H], b [G*H or more]."""
        raise UnsupportedOperationError(f"{self.kind} is not defined")

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # All in f64, and each gate of a step before and after what is done to it.
        known = sum(t.elements for t in (*inputs, *outputs) if t is not None)
        data = inputs[0]
        batch = 0 if data is None or not data.is_static else sizes_of(data.shape)[0]
        return 8 * known + 80 * self.gates * batch * self.hidden_size

    def bias_rows(self) -> int:
        """Rows of the bias per hidden element."""
        return self.gates

    def _check(self, dtype_facts: Sequence[Fact | None], names: Sequence[str]) -> DType:
        dtype = one_dtype(*dtype_facts)
        for fact, name in zip(dtype_facts, names, strict=True):
            require_dtype(fact, name, FLOATS, "a float type")
        if len(self.activations or self.defaults) < len(self.defaults):
            raise ShapeError(
                f"{self.kind} needs more activations",
                got=self.activations,
                expected=len(self.defaults),
            )
        return dtype

    def _check_sizes(self, lead: int, x: Fact, w: Fact, r: Fact, b: Fact | None) -> None:
        """Weights [D]?, gates * H, then I or H; `lead` is 1 where directions come first."""
        rows, hidden = self.gates * self.hidden_size, f"hidden_size {self.hidden_size}"
        for name, fact, last in (("W", w, x.tensor.shape), ("R", r, (self.hidden_size,))):
            require_rank(fact, name, 2 + lead)
            shape = fact.tensor.shape
            if shape is not None:
                what = f"{self.kind}'s {name} has not {self.gates} rows for each of {hidden}"
                same_size(shape[lead], rows, what)
                what = (
                    f"{self.kind}'s {name} has not the columns of its {'X' if name == 'W' else 'H'}"
                )
                if last is not None:
                    same_size(shape[lead + 1], last[-1], what)
        shape = None if b is None else b.tensor.shape
        if shape is not None:
            what = f"{self.kind}'s B has not {self.bias_rows()} numbers for each of {hidden}"
            same_size(shape[-1], self.bias_rows() * self.hidden_size, what)


def _batch(*facts: Fact) -> Dim | None:
    found: Dim | None = None
    for fact in facts:
        shape = fact.tensor.shape
        if shape:
            what = "recurrent inputs differ in batch"
            found = shape[0] if found is None else same_size(found, shape[0], what)
    return found


class _RecurrentCell(_RecurrentOp):
    """Base. One step: X [N, I], states [N, H], W [G*H, I], R [G*H, H], B [G*H]."""

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        names = [p.name for p in self.inputs]
        dtype = self._check(facts, names)
        x, *rest = facts
        states, (w, r, b) = rest[: self.states], rest[self.states : self.states + 3]
        assert x is not None and w is not None and r is not None
        require_rank(x, "X", 2)
        self._check_sizes(0, x, w, r, b)
        batch = _batch(x, *(s for s in states if s is not None))
        shape = (fresh_symbol(self) if batch is None else batch, self.hidden_size)
        return (TensorType(dtype, shape),) * self.states

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        wide = [None if a is None else a.astype(np.float64) for a in arrays]
        x, rest = wide[0], wide[1:]
        states = [s for s in rest[: self.states] if s is not None]
        w, r, b = rest[self.states : self.states + 3]
        assert x is not None and w is not None and r is not None and arrays[0] is not None
        bias = np.zeros(self.bias_rows() * self.hidden_size) if b is None else b
        dtype = DType.from_numpy(arrays[0].dtype)
        return tuple(cast_array(s, dtype) for s in self.step(x, states, w, r, bias))


@dataclass(frozen=True)
class _Sequence(_RecurrentOp):
    """Base. X [N, T, I], states [N, D, H], sequence_lengths [N], W [D, G*H, I], R [D, G*H, H],
    B [D, G*H]; outputs Y [N, D, T, H] and the last states. Y is 0 after a sequence's end, the last
    states of an empty sequence are 0 (as onnxruntime and OpenVINO have them)."""

    version: ClassVar[int] = 5
    direction: str = "forward"

    def directions(self) -> int:
        return 2 if self.direction.lower() == "bidirectional" else 1

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        x, *rest = facts
        states, (lengths, w, r, b) = rest[: self.states], rest[self.states : self.states + 4]
        assert x is not None and w is not None and r is not None and lengths is not None
        dtype = self._check([x, *states, w, r, b], ["X", *["state"] * self.states, "W", "R", "B"])
        require_dtype(lengths, "sequence_lengths", INTEGERS, "an integer type")
        require_rank(x, "X", 3)
        self._check_sizes(1, x, w, r, b)
        shape = w.tensor.shape
        if shape is not None:
            same_size(shape[0], self.directions(), "weights and direction do not fit")
        batch = _batch(x, lengths, *(s for s in states if s is not None))
        n = fresh_symbol(self) if batch is None else batch
        time = fresh_symbol(self) if x.tensor.shape is None else x.tensor.shape[1]
        d, h = self.directions(), self.hidden_size
        last = TensorType(dtype, (n, d, h))
        return (TensorType(dtype, (n, d, time, h)), *(last,) * self.states)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        given = [np.asarray(a) if a is not None else None for a in arrays]
        x, rest = given[0], given[1:]
        states: Any = rest[: self.states]
        lengths, w, r, b = rest[self.states : self.states + 4]
        more = rest[self.states + 4 :]
        assert x is not None and lengths is not None and w is not None and r is not None
        h, d = self.hidden_size, self.directions()
        bias = np.zeros((d, self.bias_rows() * h)) if b is None else b
        out = np.zeros((x.shape[0], d, x.shape[1], h))
        last = [np.zeros((x.shape[0], d, h)) for _ in range(self.states)]
        for k in range(d):
            backwards = self.direction.lower() == "reverse" or k == 1
            start = [s[:, k].astype(np.float64) for s in states]
            weights = [a[k].astype(np.float64) for a in (w, r, bias, *more) if a is not None]
            ends = self._run(
                x.astype(np.float64), start, lengths, weights, out[:, k], backwards=backwards
            )
            for target, end in zip(last, ends, strict=True):
                target[:, k] = end
        dtype = DType.from_numpy(x.dtype)
        return tuple(cast_array(a, dtype) for a in (out, *last))

    def _run(
        self,
        x: Array,
        states: list[Array],
        lengths: Array,
        weights: list[Array],
        out: Array,
        *,
        backwards: bool,
    ) -> list[Array]:
        count = int(x.shape[0])
        rows = np.arange(count)
        for t in range(x.shape[1]):
            alive = t < lengths
            at = np.where(alive, lengths - 1 - t, t) if backwards else np.full(count, t)
            fresh = self.step(x[rows, at], states, *weights)
            states = [np.where(alive[:, None], a, s) for a, s in zip(fresh, states, strict=True)]
            out[rows, at] = np.where(alive[:, None], fresh[0], 0)
        begun = np.minimum(lengths, x.shape[1])[:, None] > 0
        return [np.where(begun, s, 0) for s in states]


class _RNN(_RecurrentOp):
    def step(self, x: Array, states: list[Array], w: Array, r: Array, b: Array) -> list[Array]:
        return [self._f(0, x @ w.T + states[0] @ r.T + b)]


@dataclass(frozen=True)
class _GRU(_RecurrentOp):
    gates: ClassVar[int] = 3
    defaults: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh")
    linear_before_reset: bool = False

    def bias_rows(self) -> int:
        return 4 if self.linear_before_reset else 3

    def step(self, x: Array, states: list[Array], w: Array, r: Array, b: Array) -> list[Array]:
        h, size = states[0], self.hidden_size
        parts = [slice(i * size, (i + 1) * size) for i in range(4)]
        wx = x @ w.T
        z, reset = (self._f(0, wx[:, p] + h @ r[p].T + b[p]) for p in parts[:2])
        p = parts[2]
        if self.linear_before_reset:
            inner = reset * (h @ r[p].T + b[parts[3]]) + b[p]
        else:
            inner = (reset * h) @ r[p].T + b[p]
        return [(1 - z) * self._f(1, wx[:, p] + inner) + z * h]


class _LSTM(_RecurrentOp):
    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2
    defaults: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh", "tanh")

    def step(self, x: Array, states: list[Array], w: Array, r: Array, b: Array) -> list[Array]:
        h, c = states
        forget, take, new, out = np.split(x @ w.T + h @ r.T + b, 4, axis=1)
        cell = self._f(0, forget) * c + self._f(0, take) * self._f(1, new)
        # The clip belongs to the gates, not to the cell state.
        return [self._f(0, out) * self._activate_unclipped(2, cell), cell]


_WEIGHTS = (Port("W"), Port("R"), Port("B", optional=True))
_TIMED = (Port("sequence_lengths"), Port("W"), Port("R"), Port("B", optional=True))


@dataclass(frozen=True)
class RNNCell(_RNN, _RecurrentCell):
    kind: ClassVar[str] = "RNNCell"
    inputs: ClassVar[tuple[Port, ...]] = (Port("X"), Port("initial_hidden_state"), *_WEIGHTS)


@dataclass(frozen=True)
class GRUCell(_GRU, _RecurrentCell):
    kind: ClassVar[str] = "GRUCell"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (Port("X"), Port("initial_hidden_state"), *_WEIGHTS)


@dataclass(frozen=True)
class LSTMCell(_LSTM, _RecurrentCell):
    kind: ClassVar[str] = "LSTMCell"
    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("X"),
        Port("initial_hidden_state"),
        Port("initial_cell_state"),
        *_WEIGHTS,
    )
    outputs: ClassVar[tuple[Port, ...]] = (Port("Ho"), Port("Co"))


@dataclass(frozen=True)
class RNNSequence(_RNN, _Sequence):
    kind: ClassVar[str] = "RNNSequence"
    inputs: ClassVar[tuple[Port, ...]] = (Port("X"), Port("initial_hidden_state"), *_TIMED)
    outputs: ClassVar[tuple[Port, ...]] = (Port("Y"), Port("Ho"))


@dataclass(frozen=True)
class GRUSequence(_GRU, _Sequence):
    kind: ClassVar[str] = "GRUSequence"
    inputs: ClassVar[tuple[Port, ...]] = (Port("X"), Port("initial_hidden_state"), *_TIMED)
    outputs: ClassVar[tuple[Port, ...]] = (Port("Y"), Port("Ho"))


@dataclass(frozen=True)
class LSTMSequence(_LSTM, _Sequence):
    kind: ClassVar[str] = "LSTMSequence"
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("X"),
        Port("initial_hidden_state"),
        Port("initial_cell_state"),
        *_TIMED,
    )
    outputs: ClassVar[tuple[Port, ...]] = (Port("Y"), Port("Ho"), Port("Co"))


@dataclass(frozen=True)
class PeepholeLSTM(_LSTM, _Sequence):
    """LSTM whose gates look at the cell state: P [D, 3*H] are factors of it for the input gate and
    the forget gate (the state before the step) and the output gate (the one after), in the order
    input, output, forget. `coupled`: what the input gate lets in, the forget gate lets go. As
    LSTMSequence in everything else. (ONNX LSTM-7; arXiv:1503.04069: peepholes, coupled gates.)"""

    kind: ClassVar[str] = "PeepholeLSTM"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (*LSTMSequence.inputs, Port("P", optional=True))
    outputs: ClassVar[tuple[Port, ...]] = LSTMSequence.outputs
    coupled: bool = False

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        *others, p = facts if len(facts) == len(self.inputs) else (*facts, None)
        if p is not None:
            require_dtype(p, "P", FLOATS, "a float type")
            require_rank(p, "P", 2)
            if p.tensor.shape is not None:
                what = "peepholes do not fit"
                same_size(p.tensor.shape[0], self.directions(), what)
                same_size(p.tensor.shape[1], 3 * self.hidden_size, what)
        return super().infer(*others)

    def step(
        self, x: Array, states: list[Array], w: Array, r: Array, b: Array, *p: Array
    ) -> list[Array]:
        h, c = states
        of_input, of_output, of_forget = np.split(p[0], 3) if p else (0, 0, 0)
        forget, take, new, out = np.split(x @ w.T + h @ r.T + b, 4, axis=1)
        opened = self._f(0, take + of_input * c)
        forget_gate = 1 - opened if self.coupled else self._f(0, forget + of_forget * c)
        cell = forget_gate * c + opened * self._f(1, new)
        return [self._f(0, out + of_output * cell) * self._activate_unclipped(2, cell), cell]
