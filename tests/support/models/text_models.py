"""ONNX models that count n-grams in texts, as skl2onnx writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

WORDS = ("a", "cat", "dog", "e9", "The", "the")


def make_counting_model(
    *,
    normalizer: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    counter: dict[str, Any] | None = None,
    flatten: bool = True,
    more_outputs: Sequence[str] = (),
) -> bytes:
    """Texts [n, 1] (or [n]) to counts. more_outputs: names of inner values that are outputs, too:
    "texts", "normalized", "words"."""
    nodes: list[Any] = []
    texts = "x"
    if flatten:
        nodes.append(helper.make_node("Reshape", ["x", "target"], ["texts"]))
        texts = "texts"
    if normalizer is not None:
        given: dict[str, Any] = {"locale": "C", **normalizer}
        nodes.append(helper.make_node("StringNormalizer", [texts], ["normalized"], **given))
        texts = "normalized"
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-zA-Z0-9_]+"}
    given = {k: v for k, v in (given | (tokenizer or {})).items() if v is not None}
    kind = {"domain": "com.microsoft"}
    nodes.append(helper.make_node("Tokenizer", [texts], ["words"], **kind, **given))
    given = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": list(range(len(WORDS))),
        "pool_strings": list(WORDS),
    }
    nodes.append(helper.make_node("TfIdfVectorizer", ["words"], ["y"], **given | (counter or {})))
    inner = [helper.make_tensor_value_info(v, TensorProto.STRING, None) for v in more_outputs]
    graph = helper.make_graph(
        nodes,
        "counts",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 1] if flatten else ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), *inner],
        [numpy_helper.from_array(np.array([-1]), "target")],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
