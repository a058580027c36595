"""Perplexity of SmolLM2-135M with weights of 4 bits against f32.

    python scripts/quantization_smollm2.py FILE.gguf [ALGORITHM:GROUP ...]

The reference is the file's weights in f32. Calibration reads 27 rows of 256 tokens of pages of the
documentation; the perplexity is that of the first 1024 tokens of two other pages, run by irc. The
seconds are those of quantization.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.llm import read_language_model

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEST = ("dev/architecture.md", "security.md")
CALIBRATION = (
    "quickstart.md", "python-api.md", "llms.md", "serving.md", "migrating.md",
    "troubleshooting.md", "numerics.md",
)  # fmt: skip
LENGTH, COLUMNS = 1024, 256
VARIANTS = ("rtn:32", "awq:32", "gptq:32", "awq-gptq:32", "awq-gptq:64", "awq-gptq:128")


def feed(rows: Any, past: int = 0) -> dict[str, Any]:
    """Inputs of one run over tokens [rows, columns]."""
    count, columns = rows.shape
    positions = np.arange(past, past + columns, dtype=np.int64)
    return {
        "input_ids": rows.astype(np.int64),
        "attention_mask": np.ones((count, past + columns), np.int64),
        "position_ids": np.tile(positions, (count, 1)),
        "beam_idx": np.arange(count, dtype=np.int32),
    }


def mean_loss(net: irc.CompiledModel, ids: list[int]) -> float:
    """The mean negative log-likelihood of all tokens but the first."""
    request, total = net.create_infer_request(), 0.0
    for at in range(0, len(ids), 256):
        part = np.array([ids[at : at + 256]])
        scores = request(feed(part, at))["logits"][0].astype(np.float64)
        scores -= scores.max(-1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        wanted = ids[at + 1 : at + 257]
        total -= float(logs[np.arange(len(wanted)), wanted].sum())
    return total / (len(ids) - 1)


def main(path: str, variants: list[str]) -> None:
    language = read_language_model(path, weights="f32")

    def read_tokens(names: tuple[str, ...]) -> list[list[int]]:
        texts = [(DOCS / name).read_text("utf-8") for name in names]
        encode = language.tokenizer.encode
        return [encode(text, add_special=False)[:LENGTH] for text in texts]

    test = read_tokens(TEST)
    tokens = [token for page in read_tokens(CALIBRATION) for token in page]
    rows = np.array(tokens[: len(tokens) // COLUMNS * COLUMNS]).reshape(-1, COLUMNS)
    batches = [feed(rows[at : at + 4]) for at in range(0, len(rows), 4)]

    def perplexity(model: irc.Model) -> float:
        with irc.compile_model(model) as net:
            return float(np.exp(np.mean([mean_loss(net, ids) for ids in test])))

    wanted = perplexity(language.model)
    print(f"{'f32':16} {wanted:8.3f}", flush=True)
    for variant in variants:
        algorithm, group = variant.split(":")
        start = time.perf_counter()
        made = irc.quantize(
            language.model, batches, weights="int4", group=int(group), algorithm=algorithm
        )
        seconds = time.perf_counter() - start
        found = perplexity(made.model)
        print(f"{variant:16} {found:8.3f} {found / wanted - 1:+8.2%} {seconds:7.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(VARIANTS))
