"""Counts of n-grams in texts as one operation: the words between its parts are strings, which take
longer to store in arrays than to find."""

from __future__ import annotations

from ....ir.graph import Graph, Value
from ....ir.ops import CountTextNgrams, OnnxNode
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import shape_of


def fuse_counted_words(graph: Graph, node: int, op: OnnxNode) -> Patch | MatchFailure | None:
    """TfIdfVectorizer of a Tokenizer's words, with the StringNormalizer and the Reshape to one axis
    before it."""
    if op.op_type != "TfIdfVectorizer":
        return None
    words = graph.input(node, 0)
    tokenizer = _read_node(graph, words, "Tokenizer")
    if tokenizer is None:
        return None
    if not has_one_use(graph, words):
        return MatchFailure("the words have other readers")
    texts = graph.input(words.node, 0)
    if not _is_list(graph, texts):
        return MatchFailure("the texts are not a list")
    normalizer = _read_node(graph, texts, "StringNormalizer")
    if normalizer is not None and has_one_use(graph, texts):
        inner = graph.input(texts.node, 0)
        if _is_list(graph, inner):
            texts = inner
        else:
            normalizer = None
    else:
        normalizer = None
    if _is_flattening(graph, texts.node):
        texts = graph.input(texts.node, 0)
    patch = Patch()
    fused = CountTextNgrams(
        "" if normalizer is None else normalizer.node, tokenizer.node, op.node, op.types[0]
    )
    return patch.replace(Value(node), patch.add(fused, texts))


def _read_node(graph: Graph, value: Value, op_type: str) -> OnnxNode | None:
    """The ONNX node of this type that makes the value."""
    op = graph.op(value.node)
    return op if isinstance(op, OnnxNode) and op.op_type == op_type else None


def _is_list(graph: Graph, value: Value) -> bool:
    shape = shape_of(graph, value)
    return shape is not None and len(shape) == 1


def _is_flattening(graph: Graph, node: int) -> bool:
    """Whether a node is a Reshape to [-1]."""
    if graph.op(node).kind != "Reshape":
        return False
    target = graph.known_value(graph.input(node, 1))
    return target is not None and target.tolist() == [-1]


_RULES = (op_rule("fuse_counted_words", (OnnxNode,), fuse_counted_words),)

fuse_text_ngrams = Pass("fuse_text_ngrams", lambda options: _RULES)
