"""One server for the tests that only ask it questions."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.serving import Server

_MISSING = [
    name
    for name in ("grpc", "httptools", "msgspec", "orjson", "prometheus_client", "starlette")
    + ("tritonclient", "uvicorn")
    if importlib.util.find_spec(name) is None
]
if _MISSING:
    collect_ignore_glob = ["*.py", "*/*.py"]


def pytest_report_header() -> str:
    return f"not run: tests/serve, which needs {', '.join(_MISSING)}" if _MISSING else ""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Models: affine (batched), counting, growing (stateful), identities (datatypes), broken."""
    from support.models.stateful import growing
    from support.serving import affine, counting, identities, save_model, serving

    folder = tmp_path_factory.mktemp("models")
    save_model(folder, "affine", affine())
    (folder / "affine" / "config.json").write_text(
        json.dumps({"batching": {"max_size": 8, "max_delay_us": 2000}})
    )
    save_model(folder, "counting", counting())
    save_model(folder, "identities", identities())
    save_model(folder, "broken", b"this is not a model")
    (folder / "growing" / "1").mkdir(parents=True)
    growing(folder / "growing" / "1" / "model.xml")
    with serving(folder) as running:
        yield running
