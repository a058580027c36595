"""docs/operations.md says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("o", ROOT / "benchmarks" / "operations.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert text == module.page(), "run python -m benchmarks.operations --write"
