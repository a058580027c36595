"""Which of ONNX's own cases run: CI's part of them, or all with `--exhaustive`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--exhaustive"):
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        in_ci = getattr(getattr(item, "module", None), "in_ci", None)
        name = item.name.removesuffix("_cpu")
        case = isinstance(item, pytest.Function) and item.cls is not None
        (left if in_ci and case and not in_ci(name) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
