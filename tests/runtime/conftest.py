"""Makes this folder's helper modules importable (import mode importlib adds no path)."""

import sys
from collections.abc import Iterator
from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.runtime.jit import program
from models.small import mlp

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A code cache of the module's own: forged specs leave nothing in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_net() -> irc.CompiledModel:
    """Two layers, whole numbers, a symbolic batch."""
    return irc.compile_model(mlp((3, 5, 2), integers=True))


@pytest.fixture(scope="session")
def tiny_artifact(tiny_net: irc.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What it exports."""
    path = tmp_path_factory.mktemp("artefact") / "tiny.irc"
    tiny_net.export(path)
    return path.read_bytes()


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No code is at hand: an empty cache, and nothing in memory."""
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(program, "_loaded", {})
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def with_code(tiny_net: irc.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("artefact") / "code.irc"
    tiny_net.export(path, code=True)
    return path.read_bytes()
