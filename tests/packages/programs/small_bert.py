"""A BERT encoder of random weights with its tokenizer, in the files of sentence-transformers.

The graph has the operations that torch's exporter writes for all-MiniLM-L6-v2, and its sizes.
"""

import json
import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

TEXTS = [
    "A graph compiler reads a model, rewrites it and runs it with generated kernels.",
    "The cat sat on the mat.",
    "Inference on the CPU: matrix products, attention, normalization and softmax!",
    "short",
    "",
    "Vectors of sentences are compared by the cosine of their angle. " * 6,
]
HIDDEN, HEADS, LAYERS, POSITIONS = 384, 12, 6, 512


def write_folder(folder, layers=LAYERS, onnx_path="model.onnx"):
    """Write the model, its tokenizer and their configurations into a folder."""
    folder = Path(folder)
    (folder / onnx_path).parent.mkdir(parents=True, exist_ok=True)
    words = sorted({w for t in TEXTS for w in re.findall(r"\w+|[^\w\s]", t.lower())})
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    pieces = [*letters, *("##" + c for c in letters), *words]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(pieces)]
    onnx.save(_make_model(len(vocabulary), layers), folder / onnx_path)
    _make_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    configurations = {
        "config.json": {
            "model_type": "bert",
            "architectures": ["BertModel"],
            "hidden_size": HIDDEN,
            "num_hidden_layers": layers,
            "num_attention_heads": HEADS,
            "vocab_size": len(vocabulary),
            "max_position_embeddings": POSITIONS,
            "pad_token_id": 0,
        },
        "tokenizer_config.json": {
            **special,
            "model_max_length": 256,
            "do_lower_case": True,
            "tokenizer_class": "BertTokenizer",
        },
        "special_tokens_map.json": special,
    }
    for name, content in configurations.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")


def _make_tokenizer(vocabulary):
    numbers = {word: at for at, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


class _Graph:
    """Nodes and initializers of a graph in the making."""

    def __init__(self):
        self.nodes, self.initializers, self.rng = [], [], np.random.default_rng(7)

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape, scale=0.05):
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def number(self, value):
        return self.constant(np.float32(value))

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def project(self, x, inputs, outputs):
        return self.add(
            "Add", self.random(outputs), self.add("MatMul", x, self.random(inputs, outputs))
        )

    def normalize(self, x):
        centred = self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))
        square = self.add("Pow", centred, self.number(2))
        variance = self.add("ReduceMean", square, axes=[-1])
        deviation = self.add("Sqrt", self.add("Add", variance, self.number(1e-12)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.constant(_ones()))
        return self.add("Add", scaled, self.random(HIDDEN))

    def split_heads(self, x, permutation):
        parts = self.add("Reshape", x, self.integers(0, 0, HEADS, HIDDEN // HEADS))
        return self.add("Transpose", parts, perm=permutation)


def _ones():
    return np.ones(HIDDEN, np.float32)


def _make_model(words, layers):
    g = _Graph()
    length = g.add("Gather", g.add("Shape", "input_ids"), g.constant(np.int64(1)), axis=0)
    end = g.add("Unsqueeze", length, g.integers(0))
    places = g.constant(np.arange(POSITIONS)[None])
    places = g.add("Slice", places, g.integers(0), end, g.integers(1))
    x = g.add("Gather", g.random(words, HIDDEN, scale=1.0), "input_ids")
    x = g.add("Add", x, g.add("Gather", g.random(2, HIDDEN), "token_type_ids"))
    x = g.normalize(g.add("Add", x, g.add("Gather", g.random(POSITIONS, HIDDEN), places)))
    mask = g.add("Unsqueeze", "attention_mask", g.integers(1, 2))
    hidden = g.add("Sub", g.number(1), g.add("Cast", mask, to=TensorProto.FLOAT))
    hidden = g.add("Mul", hidden, g.number(np.finfo(np.float32).min))
    for _ in range(layers):
        query, key, value = (g.project(x, HIDDEN, HIDDEN) for _ in range(3))
        query, value = g.split_heads(query, [0, 2, 1, 3]), g.split_heads(value, [0, 2, 1, 3])
        scores = g.add("MatMul", query, g.split_heads(key, [0, 2, 3, 1]))
        scores = g.add("Div", scores, g.number((HIDDEN // HEADS) ** 0.5))
        scores = g.add("Softmax", g.add("Add", scores, hidden), axis=-1)
        mixed = g.add("Transpose", g.add("MatMul", scores, value), perm=[0, 2, 1, 3])
        mixed = g.add("Reshape", mixed, g.integers(0, 0, HIDDEN))
        x = g.normalize(g.add("Add", g.project(mixed, HIDDEN, HIDDEN), x))
        wide = g.project(x, HIDDEN, 4 * HIDDEN)
        erf = g.add("Erf", g.add("Div", wide, g.number(2**0.5)))
        gelu = g.add("Mul", g.add("Mul", wide, g.add("Add", erf, g.number(1))), g.number(0.5))
        x = g.normalize(g.add("Add", g.project(gelu, 4 * HIDDEN, HIDDEN), x))
    g.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    sizes = ["batch_size", "sequence_length"]
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, sizes) for n in names]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*sizes, HIDDEN])
    graph = helper.make_graph(g.nodes, "bert", inputs, [output], g.initializers)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8, producer_name="irc"
    )
