"""Models with random weights: irc reads the file, whose matrices have 4 bits."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest

from benchmarks.language_models.random_model import Shape, write_random_model


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
def test_the_file_is_read(architecture: str, tmp_path: Path) -> None:
    shape = Shape(architecture, 64, 2, 4, 2, 96, 320)
    llm = irc.LLM(write_random_model(tmp_path / "tiny.gguf", shape), num_threads=1)
    assert llm.weight_forms == {"Q4_1 as u4 by 32": 15}
    logits = llm.decoder.start().read(np.array([[1, 2, 3]], np.int64))
    assert logits.shape == (1, 1, 320)
    assert np.isfinite(logits).all() and logits.std() > 0
    assert llm.tokenizer.encode("ab") == [256]
