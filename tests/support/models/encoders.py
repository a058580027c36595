"""A transformer encoder with BERT's layer structure, as PyTorch's ONNX export writes it.

Names, order and forms of the nodes are those of `encoder_torch_legacy.onnx`, which PyTorch wrote
(export_encoder.py); test_encoders.py compares them node by node.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from support.models.onnx_graph import OnnxGraph

EPSILON = 1e-12
Norm = Literal["primitive", "op"]
Gelu = Literal["erf", "tanh", "op"]
Mask = Literal["mul", "where"]


def bert(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    intermediate: int = 3072,
    vocab: int = 30522,
    batch: int | str = "batch",
    sequence: int | str = "sequence",
    opset: int = 14,
    seed: int = 0,
    *,
    positions: int = 512,
    norm: Norm | None = None,
    gelu: Gelu | None = None,
    mask: Mask = "mul",
    scale: float = 0.04,
) -> onnx.ModelProto:
    """BERT with random weights; the defaults are BERT-base (110 million parameters, 440 MB).

    Inputs `input_ids`, `attention_mask` (1 attended, 0 not), `token_type_ids` (0 or 1): int64
    [batch, sequence], sequence <= `positions`. Outputs `last_hidden_state`
    [batch, sequence, hidden] and `pooler_output` [batch, hidden], float32. A string for `batch` or
    `sequence` is a symbol.

    `norm`: "primitive" (the default before opset 17) or the "op" LayerNormalization. `gelu`: "erf"
    or "tanh" in primitive operations, or the "op" Gelu (the default from opset 20). `mask`: "mul"
    adds (1 - mask) * -10000 to the scores; "where" puts the lowest float in place of scores.
    `scale` is the standard deviation of the weights.
    """
    if opset < 11:
        raise ValueError(f"opset={opset}: Slice needs its bounds as inputs, so 11 or newer")
    if (norm == "op" and opset < 17) or (gelu == "op" and opset < 20):
        raise ValueError(f"norm={norm!r}, gelu={gelu!r}: opset {opset} has no such operation")
    if hidden % heads:
        raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}")
    writer = _Encoder(
        OnnxGraph(opset),
        np.random.default_rng(seed),
        hidden=hidden,
        heads=heads,
        norm=norm or ("op" if opset >= 17 else "primitive"),
        gelu=gelu or ("op" if opset >= 20 else "erf"),
        mask=mask,
        scale=scale,
    )
    graph = writer.graph
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        graph.input(name, [batch, sequence], np.int64)
    graph.output("last_hidden_state", [batch, sequence, hidden], np.float32)
    graph.output("pooler_output", [batch, hidden], np.float32)

    zero = graph.constant(0, np.int64)
    attended = writer.additive_mask() if mask == "mul" else "attention_mask"
    x = writer.embeddings(vocab, positions)
    with graph.scope("encoder"):
        for number in range(layers):
            last = number == layers - 1
            with graph.scope(f"layer.{number}"):
                x = writer.layer(x, attended, intermediate, "last_hidden_state" if last else None)
    writer.pooler(x, zero)
    return graph.model("main_graph", check=False)  # it would copy every weight


def bert_inputs(
    batch: int, sequence: int, vocab: int, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Random inputs of `bert`: every row but the first ends in padding, the types change once."""
    rng = np.random.default_rng(seed)
    place = np.arange(sequence)
    used = rng.integers((sequence + 1) // 2, sequence + 1, size=(batch, 1))
    used[:1] = sequence
    split = rng.integers(0, sequence + 1, size=(batch, 1))
    return {
        "input_ids": rng.integers(0, vocab, size=(batch, sequence), dtype=np.int64),
        "attention_mask": (place < used).astype(np.int64),
        "token_type_ids": (place >= split).astype(np.int64),
    }


class _Encoder:
    """Writes the parts of the encoder; parameters are called by the path of their module."""

    def __init__(
        self,
        graph: OnnxGraph,
        rng: np.random.Generator,
        *,
        hidden: int,
        heads: int,
        norm: Norm,
        gelu: Gelu,
        mask: Mask,
        scale: float,
    ) -> None:
        self.graph, self.rng = graph, rng
        self.hidden, self.heads, self.depth = hidden, heads, hidden // heads
        self.norm, self.gelu, self.mask, self.scale = norm, gelu, mask, scale
        self.allowzero = 0 if graph.opset >= 14 else None

    def random(self, *shape: int, scale: float | None = None) -> NDArray[np.float32]:
        scale = self.scale if scale is None else scale
        array = self.rng.standard_normal(shape, np.float32)
        array *= np.float32(scale)
        return array

    def integers(self, *values: int) -> str:
        return self.graph.constant(values, np.int64)

    def scalar(self, value: float) -> str:
        return self.graph.constant(value, np.float32)

    def parameter(self, name: str, array: NDArray[np.float32]) -> str:
        return self.graph.weight(f"{self.graph.path}.{name}", array)

    # Operations and small modules.

    def view(self, x: str, *sizes: int) -> str:
        """Reshapes [batch, sequence, ...] to [batch, sequence, *sizes], read from x at run time."""
        g = self.graph
        indices = [
            g.op("Gather", g.op("Shape", x), g.constant(i, np.int64), axis=0) for i in (0, 1)
        ]
        dims = [g.axes_op("Unsqueeze", index, [0]) for index in indices]
        target = g.op("Concat", *dims, *(self.integers(size) for size in sizes), axis=0)
        return g.op("Reshape", x, target, allowzero=self.allowzero)

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        with self.graph.scope(name):
            weight = self.parameter("weight", self.random(inputs, outputs))
            product = self.graph.op("MatMul", x, weight)
            return self.graph.op("Add", self.parameter("bias", self.random(outputs)), product)

    def layer_norm(self, x: str, result: str | None = None) -> str:
        g = self.graph
        with g.scope("LayerNorm"):
            weight = self.parameter("weight", 1 + self.random(self.hidden, scale=0.2))
            bias = self.parameter("bias", self.random(self.hidden, scale=0.2))
            if self.norm == "op":
                inputs = (x, weight, bias)
                return g.op("LayerNormalization", *inputs, result=result, axis=-1, epsilon=EPSILON)
            centred = g.op("Sub", x, self.mean(x))
            squares = g.op("Pow", centred, self.scalar(2.0))
            variance = g.op("Add", self.mean(squares), self.scalar(EPSILON))
            normal = g.op("Div", centred, g.op("Sqrt", variance))
            return g.op("Add", g.op("Mul", normal, weight), bias, result=result)

    def mean(self, x: str) -> str:
        """Over the last axis, kept; the axes are an attribute before opset 18, an input since."""
        if self.graph.opset < 18:
            return self.graph.op("ReduceMean", x, axes=[-1])
        return self.graph.op("ReduceMean", x, self.integers(-1))

    def activation(self, x: str) -> str:
        g = self.graph
        with g.scope("intermediate_act_fn"):
            if self.gelu == "op":
                return g.op("Gelu", x, approximate="none")
            if self.gelu == "erf":
                erf = g.op("Erf", g.op("Div", x, self.scalar(math.sqrt(2.0))))
                return g.op(
                    "Mul", g.op("Mul", x, g.op("Add", erf, self.scalar(1.0))), self.scalar(0.5)
                )
            half = g.op("Mul", x, self.scalar(0.5))
            cube = g.op("Mul", g.op("Pow", x, self.scalar(3.0)), self.scalar(0.044715))
            inner = g.op("Mul", g.op("Add", x, cube), self.scalar(math.sqrt(2.0 / math.pi)))
            return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), self.scalar(1.0)))

    # Parts of the model, in its order.

    def additive_mask(self) -> str:
        """0 where attended and -10000 elsewhere, [batch, 1, 1, sequence]."""
        g = self.graph
        x = g.axes_op("Unsqueeze", g.axes_op("Unsqueeze", "attention_mask", [1]), [2])
        x = g.op("Sub", self.scalar(1.0), g.op("Cast", x, to=onnx.TensorProto.FLOAT))
        return g.op("Mul", x, self.scalar(-10000.0))

    def embeddings(self, vocab: int, positions: int) -> str:
        g = self.graph
        with g.scope("embeddings"):
            ids = self.graph.weight("embeddings.position_ids", np.arange(positions)[None])
            length = g.op("Gather", g.op("Shape", "input_ids"), g.constant(1, np.int64), axis=0)
            start, end = self.integers(0), g.axes_op("Unsqueeze", length, [0])
            ids = g.op("Slice", ids, start, end, self.integers(1), self.integers(1))
            words = self.embedding("word_embeddings", vocab, "input_ids")
            words = g.op("Add", words, self.embedding("token_type_embeddings", 2, "token_type_ids"))
            words = g.op("Add", words, self.embedding("position_embeddings", positions, ids))
            return self.layer_norm(words)

    def embedding(self, name: str, rows: int, indices: str) -> str:
        with self.graph.scope(name):
            table = self.parameter("weight", self.random(rows, self.hidden))
            return self.graph.op("Gather", table, indices)

    def layer(self, x: str, mask: str, intermediate: int, result: str | None) -> str:
        g = self.graph
        with g.scope("attention"):
            with g.scope("self"):
                context = self.attention(x, mask)
            with g.scope("output"):
                dense = self.linear("dense", context, self.hidden, self.hidden)
                x = self.layer_norm(g.op("Add", dense, x))
        with g.scope("intermediate"):
            wide = self.activation(self.linear("dense", x, self.hidden, intermediate))
        with g.scope("output"):
            dense = self.linear("dense", wide, intermediate, self.hidden)
            return self.layer_norm(g.op("Add", dense, x), result)

    def attention(self, x: str, mask: str) -> str:
        g = self.graph
        query = self.linear("query", x, self.hidden, self.hidden)
        key = self.view(self.linear("key", x, self.hidden, self.hidden), self.heads, self.depth)
        value = self.view(self.linear("value", x, self.hidden, self.hidden), self.heads, self.depth)
        value = g.op("Transpose", value, perm=[0, 2, 1, 3])
        query = g.op("Transpose", self.view(query, self.heads, self.depth), perm=[0, 2, 1, 3])
        key = g.op("Transpose", key, perm=[0, 2, 3, 1])
        scores = g.op("Div", g.op("MatMul", query, key), self.scalar(math.sqrt(self.depth)))
        scores = g.op("Add", scores, mask) if self.mask == "mul" else self.masked(scores, mask)
        context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
        return self.view(g.op("Transpose", context, perm=[0, 2, 1, 3]), self.hidden)

    def masked(self, scores: str, mask: str) -> str:
        """masked_fill: the lowest float in place of scores where `mask` [batch, sequence] is 0."""
        g = self.graph
        unattended = g.op("Equal", mask, g.constant(0, np.int64))
        indices = [
            g.op("Gather", g.op("Shape", mask), g.constant(i, np.int64), axis=0) for i in (0, 1)
        ]
        rows, columns = (g.axes_op("Unsqueeze", index, [0]) for index in indices)
        target = g.op("Concat", rows, self.integers(1), self.integers(1), columns, axis=0)
        unattended = g.op("Reshape", unattended, target, allowzero=self.allowzero)
        unattended = g.op("Expand", unattended, g.op("Shape", scores))
        unattended = g.op("Cast", unattended, to=onnx.TensorProto.BOOL)
        return g.op("Where", unattended, self.scalar(float(np.finfo(np.float32).min)), scores)

    def pooler(self, x: str, zero: str) -> None:
        g = self.graph
        with g.scope("pooler"):
            first = g.op("Gather", x, zero, axis=1)
            with g.scope("dense"):
                weight = self.parameter("weight", self.random(self.hidden, self.hidden))
                bias = self.parameter("bias", self.random(self.hidden))
                dense = g.op("Gemm", first, weight, bias, alpha=1.0, beta=1.0, transB=1)
            with g.scope("activation"):
                g.op("Tanh", dense, result="pooler_output")
