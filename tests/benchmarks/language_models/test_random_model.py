"""Models with random weights: irc reads the file, whatever the type of its matrices."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest

from benchmarks.language_models.random_model import KINDS, Shape, write_random_model

FORMS = {
    "Q4_0": "Q4_0 as u4 by 32",
    "Q4_1": "Q4_1 as u4 by 32",
    "Q8_0": "Q8_0 as i8 by 32",
    "F16": "F16",
    "F32": "F32",
}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_read(kind: str, architecture: str, tmp_path: Path) -> None:
    shape = Shape(architecture, 64, 2, 4, 2, 96, 320)
    llm = irc.LLM(write_random_model(tmp_path / "tiny.gguf", shape, kind), num_threads=1)
    assert llm.weight_forms == {FORMS[kind]: 15}
    logits = llm.decoder.start().read(np.array([[1, 2, 3]], np.int64))
    assert logits.shape == (1, 1, 320)
    assert np.isfinite(logits).all() and logits.std() > 0
    assert llm.tokenizer.encode("ab") == [256]
