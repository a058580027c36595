"""A decoder of a known shape with random weights, as a .gguf file that peers read, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder of an architecture: qwen2, whose products of attention have biases, or
    llama."""

    architecture: str
    width: int
    layers: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int


SHAPES: Final = {
    "qwen2-0.5b": Shape("qwen2", 896, 24, 14, 2, 4864, 151936),
    "llama-3.2-1b": Shape("llama", 2048, 16, 32, 8, 8192, 128256),
}
_GROUP: Final = 32
_SPREAD: Final = 0.02
_CONTEXT: Final = 4096


def write_random_model(path: Path, shape: Shape, kind_name: str = "Q4_1") -> Path:
    """Write the file: matrices in a type of KINDS, one for the table of tokens and the last
    product."""
    import gguf

    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(path, shape.architecture)
    w.add_name(path.stem)
    w.add_block_count(shape.layers)
    w.add_context_length(_CONTEXT)
    w.add_embedding_length(shape.width)
    w.add_feed_forward_length(shape.inner)
    w.add_head_count(shape.heads)
    w.add_head_count_kv(shape.key_heads)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e6)
    w.add_rope_dimension_count(shape.width // shape.heads)
    file_type = "ALL_F32" if kind_name == "F32" else f"MOSTLY_{kind_name}"
    w.add_file_type(gguf.LlamaFileType[file_type])
    _add_tokenizer(w, shape.vocabulary)
    head = shape.width // shape.heads
    sizes = {
        "attn_q": (shape.width, shape.width),
        "attn_k": (shape.key_heads * head, shape.width),
        "attn_v": (shape.key_heads * head, shape.width),
        "attn_output": (shape.width, shape.width),
        "ffn_gate": (shape.inner, shape.width),
        "ffn_up": (shape.inner, shape.width),
        "ffn_down": (shape.width, shape.inner),
    }
    kind, make = gguf.GGMLQuantizationType[kind_name], KINDS[kind_name]

    def add_matrix(name: str, rows: int, columns: int) -> None:
        w.add_tensor(f"{name}.weight", make(rng, rows, columns), raw_dtype=kind)

    add_matrix("token_embd", shape.vocabulary, shape.width)
    for layer in range(shape.layers):
        for name, (rows, columns) in sizes.items():
            add_matrix(f"blk.{layer}.{name}", rows, columns)
        for name in ("attn_q", "attn_k", "attn_v") if shape.architecture == "qwen2" else ():
            w.add_tensor(f"blk.{layer}.{name}.bias", np.zeros(sizes[name][0], np.float32))
        for name in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{layer}.{name}.weight", np.ones(shape.width, np.float32))
    w.add_tensor("output_norm.weight", np.ones(shape.width, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def _make_q4_1(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Blocks of a scale and an offset in f16, and 32 codes of 4 bits."""
    blocks, scale = _random_blocks(rng, rows * columns // _GROUP, 4, _GROUP // 2, _SPREAD / 4)
    # The mean of the codes, 7.5, is the value 0.
    offset = (-7.5 * scale.astype(np.float32)).astype(np.float16)
    blocks[:, :4] = np.stack([scale, offset], 1).view(np.uint8)
    return blocks.reshape(rows, -1)


def _make_q4_0(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Blocks of a scale in f16, and 32 codes of 4 bits, of which 8 is the value 0."""
    blocks, scale = _random_blocks(rng, rows * columns // _GROUP, 2, _GROUP // 2, _SPREAD / 4)
    blocks[:, :2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def _make_q8_0(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Blocks of a scale in f16, and 32 integers of 8 bits."""
    blocks, scale = _random_blocks(rng, rows * columns // _GROUP, 2, _GROUP, _SPREAD / 64)
    blocks[:, :2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def _make_f32(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return rng.standard_normal((rows, columns), np.float32) * np.float32(_SPREAD)


def _make_f16(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return _make_f32(rng, rows, columns).astype(np.float16)


def _random_blocks(
    rng: np.random.Generator, count: int, head: int, codes: int, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of `head` bytes and random codes, and scales of about `step` to be written there."""
    blocks = rng.integers(0, 256, (count, head + codes), np.uint8)
    return blocks, (step * (0.5 + rng.random(count))).astype(np.float16)


# By the type of GGUF's matrices. OpenVINO GenAI reads Q4_0 and Q8_0 as they are; it rounds the
# offsets of Q4_1 to whole codes, and refuses F32.
KINDS: Final[dict[str, Callable[[np.random.Generator, int, int], np.ndarray]]] = {
    "Q4_0": _make_q4_0,
    "Q4_1": _make_q4_1,
    "Q8_0": _make_q8_0,
    "F16": _make_f16,
    "F32": _make_f32,
}


def _add_tokenizer(w: object, size: int) -> None:
    """Bytes, one merge, and made-up tokens."""
    import gguf

    assert isinstance(w, gguf.GGUFWriter)
    tokens = [_name_byte(b) for b in range(256)]
    tokens.append(tokens[97] + tokens[98])
    tokens += [f"token{n}" for n in range(len(tokens), size)]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([1] * (size - 1) + [3])
    w.add_token_merges([f"{tokens[97]} {tokens[98]}"])
    w.add_bos_token_id(size - 1)
    w.add_eos_token_id(size - 1)
    w.add_pad_token_id(size - 1)
    w.add_chat_template("{{ messages[0].content }}")


def _name_byte(byte: int) -> str:
    """The character of a byte in byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in shown:
        return chr(byte)
    return chr(256 + sum(b not in shown for b in range(byte)))
