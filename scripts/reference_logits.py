"""Write tests/data/llm/logits.npz: transformers' logits of the tiny decoders of the tests.

    python scripts/reference_logits.py        (needs torch and transformers, run from the root)

For each case: `{case}.tokens`, the prompt and 64 tokens chosen greedily, and `{case}.logits`, f32
[tokens, 8]: logits of every position at 8 tokens, `{case}.columns` says which.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    import torch
    import transformers
    from support.models.tiny_language_models import CONFIGS, GENERATED, PROMPT, write_folder

    arrays: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in CONFIGS:
            place = write_folder(Path(folder) / case, case)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                place, dtype=torch.float32, attn_implementation="eager"
            ).eval()
            tokens = list(PROMPT)
            with torch.no_grad():
                for _ in range(GENERATED):
                    logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
                    tokens.append(int(logits[-1].argmax()))
            found = logits.numpy()
            margin = np.sort(found, -1)[:, -2:]
            print(case, found.std(), (margin[:, 1] - margin[:, 0]).min())
            columns = np.linspace(0, found.shape[1] - 1, 8).astype(int)
            arrays[f"{case}.tokens"] = np.array(tokens, np.int16)
            arrays[f"{case}.columns"] = columns.astype(np.int16)
            arrays[f"{case}.logits"] = found[:, columns]
    np.savez_compressed(ROOT / "tests" / "data" / "llm" / "logits.npz", **arrays)


if __name__ == "__main__":
    main()
