"""Fixtures of several folders of tests: a tiny compiled model, its artifact, a cold cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import pytest
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.options import Options
from irc_compiler.ir.graph import Graph
from irc_compiler.runtime.jit import program

from support.models.small import mlp


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A code cache of the module's own: forged specs leave nothing in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_net() -> irc.CompiledModel:
    """Two layers, integers, a symbolic batch."""
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


@pytest.fixture
def compile_graph() -> Callable[..., irc.CompiledModel]:
    def compile_(
        graph: Graph,
        optimised: bool,
        threads: int,
        precision: str = "f32",
        denormals: str = "auto",
    ) -> irc.CompiledModel:
        stop = None if optimised else 0
        options = Options(precision, denormals=denormals, verify=True, stop_after=stop)
        return compile_with_options(irc.Model(graph), options, threads)

    return compile_


class ModelLookups:
    """Which lookups of compiled models in the cache found one, in order."""

    def __init__(self) -> None:
        self.found: list[bool] = []


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModelLookups:
    """Of an empty cache that takes models of files that were just written as well."""
    from irc_compiler.api import model_cache

    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IRC_MODEL_CACHE", "1")
    monkeypatch.setattr(model_cache, "_MIN_AGE_NS", 0)
    # An operation that another test registered keeps models out of the cache.
    monkeypatch.setattr(model_cache, "has_extensions", lambda: False)
    counted, find = ModelLookups(), model_cache.ModelEntry.find

    def count(entry: model_cache.ModelEntry) -> Any:
        stored = find(entry)
        counted.found.append(stored is not None)
        return stored

    monkeypatch.setattr(model_cache.ModelEntry, "find", count)
    return counted
