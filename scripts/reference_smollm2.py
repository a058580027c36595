"""Write tests/data/llm/smollm2.json: what llama.cpp makes of SmolLM2-135M-Instruct.

    python scripts/reference_smollm2.py FILE.gguf    (needs llama-cpp-python and gguf)

Tokens of tests/data/llm/hard_text.txt by line, 32 greedy tokens of each prompt, and the perplexity
of 1024 tokens. Weights of a copy of the file are widened to f32, for llama.cpp rounds activations
to 8 bits where weights are quantized.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "llm"
PROMPTS = (
    "The capital of France is",
    "Once upon a time",
    "def fibonacci(n):",
    "The three laws of motion are",
    "Water boils at",
)
LENGTH, GENERATED = 1024, 32


def widen(source: Path, target: Path) -> Path:
    """A copy of a GGUF file with f32 weights."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind, inner = field.types[0], field.types[-1]
        is_array = kind == gguf.GGUFValueType.ARRAY
        writer.add_key_value(key, field.contents(), kind, inner if is_array else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def perplexity(model: Any, ids: list[int]) -> float:
    """exp of the mean negative log-likelihood of all tokens but the first."""
    model.reset()
    for at in range(0, len(ids), 512):
        model.eval(ids[at : at + 512])
    scores = np.array(model.scores[: len(ids)]).astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return float(np.exp(-np.mean([logs[i, ids[i + 1]] for i in range(len(ids) - 1)])))


def main(source: Path) -> None:
    from llama_cpp import Llama

    def load(path: Path) -> Any:
        return Llama(str(path), n_ctx=2048, logits_all=True, verbose=False, n_threads=1)

    stored = load(source)
    lines = (DATA / "hard_text.txt").read_text("utf-8").split("\n")

    def tokenize(text: str, special: bool = True) -> list[int]:
        return stored.tokenize(text.encode(), add_bos=False, special=special)

    text = (ROOT / "docs" / "dev" / "architecture.md").read_text("utf-8")
    ids = tokenize(text, special=False)[:LENGTH]
    found: dict[str, Any] = {
        "text_tokens": [tokenize(line) for line in lines],
        "perplexity_tokens": ids,
        "perplexity": perplexity(stored, ids),
    }
    with tempfile.TemporaryDirectory() as folder:
        wide = load(widen(source, Path(folder) / "f32.gguf"))
        found["perplexity_f32"] = perplexity(wide, ids)
        found["greedy"] = {p: greedy(wide, tokenize(p)) for p in PROMPTS}
    (DATA / "smollm2.json").write_text(json.dumps(found) + "\n")
    print(found["perplexity"], found["perplexity_f32"])


def greedy(model: Any, ids: list[int]) -> list[int]:
    """The tokens that follow, each the most likely one."""
    model.reset()
    model.eval(ids)
    found: list[int] = []
    for _ in range(GENERATED):
        found.append(int(np.array(model.scores[model.n_tokens - 1]).argmax()))
        model.eval(found[-1:])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
