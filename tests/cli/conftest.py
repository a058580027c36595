"""A folder of one's own with an input file, for commands as a person types them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 64), np.float32))
    return tmp_path
