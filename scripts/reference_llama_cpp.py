"""Write tests/data/llm/llama_cpp.npz: llama.cpp's logits of the tiny decoders of the tests.

    python scripts/reference_llama_cpp.py    (needs llama-cpp-python and gguf, run from the root)

f32 weights and cache. For each case: `{case}.logits`, f32 [tokens, 8], at 8 columns of `TOKENS`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    from llama_cpp import Llama
    from support.models.tiny_gguf import LLAMA_CPP_CASES, LLAMA_CPP_CHANGES, write_gguf
    from support.models.tiny_language_models import PROMPT

    tokens = [*PROMPT, *reversed(PROMPT)]
    arrays: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in LLAMA_CPP_CASES:
            path = write_gguf(
                Path(folder) / f"{case}.gguf", case, "F32", LLAMA_CPP_CHANGES.get(case)
            )
            model = Llama(str(path), n_ctx=256, logits_all=True, verbose=False, n_threads=1,
                          type_k=0, type_v=0, flash_attn=False)  # fmt: skip
            model.eval(tokens)
            found = np.array(model.scores[: len(tokens)], np.float32)
            arrays[f"{case}.logits"] = found[:, :: found.shape[1] // 8]
    np.savez_compressed(ROOT / "tests" / "data" / "llm" / "llama_cpp.npz", **arrays)


if __name__ == "__main__":
    main()
