"""Graphs drawn by hypothesis from the whole vocabulary, as a file of OpenVINO would bring them.

Attributes and inputs of an operation are drawn from what its class declares, with a hint per port
name where random arrays would never fit (axes, shapes, filters); what inference refuses is left
out. An operation that joins the vocabulary is drawn without a line here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from irc_compiler.compiler.frontends.xml.enum_values import choices
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_node
from irc_compiler.ir.op import Attribute, Op, Port
from irc_compiler.ir.ops import ALL_OPS, Constant, If, Parameter, Result
from irc_compiler.ir.types import TensorType

from .fitting import Misfit
from .recipes import RECIPES
from .structures import STRUCTURES

# Made otherwise: ends of a graph, what needs a graph or another value that no port can say, and
# what a model file never holds (passes and the ONNX frontend make it).
_NOT_DRAWN = frozenset(
    "Parameter TypedParameter Constant Result If Loop TensorIterator ReadValue Assign OnnxNode "
    "Group RandomUniform NonMaxSuppression TreeEnsemble LabelEncoder SupportVotes Einsum Optional "
    "OptionalGetElement OptionalHasElement SequenceEmpty SequenceAt SequenceInsert SequenceErase "
    "SequenceLength SplitToSequence SequenceConstruct ConcatFromSequence FakeConvert "
    "ZipMap DictVectorizer CastMap CountTextNgrams "
    # Boxes and bags: what random arrays give depends on ties, or is refused.
    "DetectionOutput Proposal GenerateProposals MatrixNms MulticlassNms NMSRotated PriorBox "
    "PriorBoxClustered Multinomial Inverse StringTensorPack StringTensorUnpack SparseFillEmptyRows "
    "SegmentMax SearchSorted Bucketize CTCLoss CTCGreedyDecoder CTCGreedyDecoderSeqLen GatherTree "
    "ROIPooling PSROIPooling "
    "DeformablePSROIPooling ROIAlignRotated ExperimentalDetectronDetectionOutput "
    "ExperimentalDetectronGenerateProposalsSingleImage ExperimentalDetectronTopKROIs "
    "ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronPriorGridGenerator "
    # Rows of codes have sizes that random shapes have not.
    "QuantizeRows DequantizeRows".split()
)
DRAWN: tuple[type[Op], ...] = tuple(c for c in ALL_OPS if c.kind not in _NOT_DRAWN)
TYPES = [DType.f32] * 8 + [
    *(DType.f16, DType.f64, DType.i64, DType.i32, DType.boolean, DType.u8, DType.i8, DType.bf16)
]
# Ports that take a few small integers.
_SMALL_INTS = frozenset(
    "axis axes order shape target_shape repeats start stop step begin end strides pads_begin "
    "pads_end k depth split_lengths shift seq_lengths block_shape crops_begin crops_end "
    "output_shape signal_size axes_mapping batch_shape num_rows num_columns diagonal_index "
    "output_size kernel_size indices sequence_lengths batch_indices".split()
)
FLOATS = [0.0, 1.0, 0.5, -1.0, 2.0, 0.1, 1e-5, 3.0]


@dataclasses.dataclass
class Maker:
    """Draws a graph node by node."""

    random: random.Random
    graph: Graph = dataclasses.field(default_factory=lambda: Graph("drawn"))
    values: list[Value] = dataclasses.field(default_factory=list[Value])

    def int(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, options: Sequence[Any]) -> Any:
        if not options:
            raise Misfit
        return self.random.choice(options)

    def shuffled(self, count: int) -> list[int]:
        return self.random.sample(range(count), count)

    def type(self, value: Value) -> TensorType:
        found = self.graph.type(value)
        assert isinstance(found, TensorType)
        return found

    def value(self, fits: Callable[[TensorType], bool] = lambda _: True) -> Value | None:
        """One of the values made so far, a late one more often."""
        good = [v for v in self.values if fits(self.type(v))]
        if not good:
            return None
        return good[max(0, len(good) - 1 - self.pick([0, 0, 0, 1, 1, 2, 3, 5, 9]))]

    def constant(self, array: Any, dtype: DType) -> Value:
        node = self.graph.add(Constant.of(np.asarray(array).astype(dtype.numpy), dtype))
        infer_node(self.graph, node)
        return Value(node)

    def numbers(self, dtype: DType, shape: Sequence[int]) -> Value:
        """A constant of small numbers."""
        rng = np.random.default_rng(self.int(0, 9))
        if dtype is DType.boolean:
            return self.constant(rng.integers(0, 2, shape), dtype)
        low = -3 if dtype.is_signed else 0
        values = rng.integers(low, 4, shape)
        return self.constant(values / 2 if dtype.is_float and self.int(0, 1) else values, dtype)

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def add(self, op: Op, *inputs: Value | None) -> Value | None:
        """A node, if its inputs fit: an Error of inference is the only way not to."""
        node = self.graph.add(op, inputs, name=f"{op.kind}_{len(self.values)}")
        try:
            infer_node(self.graph, node)
        except Error:
            self.graph.remove(node)
            return None
        for v in self.graph.values(node):
            if self._useful(v):
                self.values.append(v)
        return Value(node)

    def _useful(self, value: Value) -> bool:
        found = self.graph.type(value)
        if not isinstance(found, TensorType) or found.dtype in (DType.string, DType.dynamic):
            return False
        try:
            count = found.element_count
        except Error:  # of sizes that are too long an expression when multiplied
            return False
        return not isinstance(count, int) or count <= 4096

    def parameter(self, number: int) -> None:
        rank = self.pick([2, 2, 3, 3, 4, 4, 1, 0, 5])
        shape: list[Any] = [self.pick([1, 2, 3, 3, 4, 5, 7, 8]) for _ in range(rank)]
        if rank and self.int(0, 3) == 0:  # wider than a vector
            shape[self.int(0, rank - 1)] = self.pick([16, 17, 33, 40])
        if rank and self.int(0, 2):
            shape[self.int(0, rank - 1)] = symbol(self.pick("NMN"), 0, 64)
        name = f"in{number}"
        node = self.graph.add(
            Parameter(self.pick(TYPES), tuple(shape)), name=name, names=[frozenset({name})]
        )
        infer_node(self.graph, node)
        self.values.append(Value(node))

    def step(self) -> None:
        if self.int(0, 7) == 0:
            with contextlib.suppress(Misfit):
                return self.pick(STRUCTURES)(self)
        cls = self.pick(DRAWN)
        recipe = RECIPES.get(cls.kind)
        if self.int(0, 24) == 0:
            self._branch()
        for _ in range(3):
            with contextlib.suppress(Misfit):
                made = recipe(self, cls) if recipe and self.int(0, 4) else self._reflected(cls)
                if made is not None:
                    return

    # From what a class declares ---------------------------------------------------------------

    def attributes(self, cls: type[Op], **given: Any) -> Op | None:
        """An instance with drawn attributes."""
        fields = {a.name: given[a.name] if a.name in given else self._attribute(cls, a)
                  for a in cls.attributes()}  # fmt: skip
        if any(v is _NONE for v in fields.values()):
            return None
        try:
            return cls(**fields)
        except Error:
            return None

    def _attribute(self, cls: type[Op], a: Attribute) -> Any:
        if not a.required and not self.int(0, 2):
            return a.default
        kind = a.annotation
        if kind is bool:
            return bool(self.int(0, 1))
        if kind is int:
            return self.pick([1, 0, 2, -1, 3, 1, 2, -2])
        if kind is float:
            return self.pick(FLOATS)
        if kind is DType:
            return self.pick([*TYPES, DType.i64, DType.i32])
        if kind is str:
            words = choices(cls.kind, a.xml)
            return self.pick(words) if words else _NONE if a.required else a.default
        if str(kind).startswith("tuple[int"):
            return tuple(self.ints(self.pick([0, 2, 2, 1, 3]), 0, 2))
        return _NONE if a.required else a.default

    def _reflected(self, cls: type[Op]) -> Value | None:
        op = self.attributes(cls)
        if op is None:
            return None
        first: TensorType | None = None
        inputs: list[Value | None] = []
        for port in cls.inputs:
            if port.optional and self.int(0, 1):
                inputs.append(None)
                continue
            for _ in range(self.int(1, 3) if port.variadic else 1):
                made = self._input(port, first)
                if made is None:
                    return None
                first = first or self.type(made)
                inputs.append(made)
        return self.add(op, *inputs)

    def _input(self, port: Port, first: TensorType | None) -> Value | None:
        rank = len(first.shape) if first is not None and first.shape is not None else 2
        if port.name in _SMALL_INTS and self.int(0, 5):
            whole = DType.i64 if self.int(0, 3) else DType.i32
            if port.name in ("axis", "k", "depth", "num_rows", "num_columns") or not self.int(0, 5):
                return self.constant(self.int(-1, max(1, rank - 1)), whole)
            if port.name == "order":
                return self.constant(self.shuffled(rank), whole)
            count = self.pick([rank, rank, rank, 1, max(0, rank - 1), 2])
            low, high = (0, max(0, rank - 1)) if port.name == "axes" else (-1, 3)
            return self.constant(self.ints(count, low, high), whole)
        if first is None:
            return self.value()
        if port.name in ("condition", "cond"):
            return self.value(lambda t: t.dtype is DType.boolean)
        if self.int(0, 2):
            found = self.value(lambda t: t.dtype is first.dtype)
            if found is not None:
                return found
        return self.numbers(first.dtype, self._broadcastable(first))

    def _broadcastable(self, like: TensorType) -> list[int]:
        shape = [d if isinstance(d, int) else 1 for d in like.shape or ()]
        shape = [d if self.int(0, 2) else 1 for d in shape]
        return shape[self.int(0, len(shape)) if shape else 0 :]

    def _branch(self) -> None:
        """An If whose branches do one operation each on a value from outside."""
        condition = self.value(lambda t: t.dtype is DType.boolean and t.shape in ((), (1,)))
        condition = condition or self.constant(bool(self.int(0, 1)), DType.boolean)
        x = self.value()
        if x is None:
            return
        bodies: list[Graph] = []
        for _ in range(2):
            body = Graph("body")
            found = self.type(x)
            p = body.add(Parameter(found.dtype, found.shape), name="p")
            infer_node(body, p)
            last = Value(p)
            cls = self.pick([c for c in DRAWN if len(c.inputs) == 1 and not c.attributes()])
            n = body.add(cls(), [last], name="inner")
            try:
                infer_node(body, n)
                last = Value(n)
            except Error:
                body.remove(n)
            infer_node(body, body.add(Result(), [last]))
            bodies.append(body)
        self.add(If(*bodies, (1,), (1,), (0,), (0,)), condition, x)


_NONE = object()


@st.composite
def graphs(draw: Any, most: int = 12) -> Graph:
    """An inferred graph of up to `most` drawn operations, with one to three results."""
    # Hypothesis draws numbers that were drawn before, and small ones: half of the vocabulary would
    # be met in a hundred graphs. So it draws the source of randomness only, of so many bytes that
    # hardly any graph comes twice.
    maker = Maker(random.Random(draw(st.binary(min_size=16, max_size=16))))
    for n in range(maker.int(1, 3)):
        maker.parameter(n)
    for _ in range(most - maker.pick([0, 1, 2, 4, 6, most - 1])):
        maker.step()
    wanted = dict.fromkeys([maker.values[-1], maker.pick(maker.values), maker.pick(maker.values)])
    for value in wanted:
        node = maker.graph.add(Result(), [value], name=f"out{value.node}_{value.port}")
        infer_node(maker.graph, node)
    _prune(maker.graph)
    return maker.graph


def _prune(graph: Graph) -> None:
    """Remove what no result needs: it would only make inputs unfit."""
    for n in reversed(graph.order()):
        if not graph.has_uses(n) and graph.op(n).kind not in ("Parameter", "Result"):
            graph.remove(n)
