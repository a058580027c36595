"""Sources of compiled models: what they keep, and what they make again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.api.model_source import ArtifactSource, FileSource, InMemorySource, ModelSource
from support.models.small import mlp

X = np.array([[1, -2, 3], [0, 1, 2]], np.float32)


def model() -> irc.Model:
    x = ops.parameter("x", ["N", 3])
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    return ops.model({"y": ops.relu(ops.matmul(x, w) + np.arange(4, dtype=np.float32))})


def from_files(folder: Path) -> irc.CompiledModel:
    irc.save_model(model(), folder / "m.xml")
    return irc.compile_model(folder / "m.xml")


def from_artifact(folder: Path) -> irc.CompiledModel:
    irc.compile_model(model()).export(folder / "m.irc")
    return irc.compile_model(folder / "m.irc")


def from_other_options(folder: Path) -> irc.CompiledModel:
    from_artifact(folder).close()
    return irc.CompiledModel.load(folder / "m.irc", shapes={"x": [2, 3]})


MAKERS: dict[str, tuple[Callable[[Path], irc.CompiledModel], type[ModelSource], set[str]]] = {
    # How to compile, the source's class, and what it keeps.
    "memory": (
        lambda _: irc.compile_model(model()),
        InMemorySource,
        {"model", "graph", "lowering"},
    ),
    "bytes": (
        lambda _: irc.compile_model(mlp((3, 5, 2)).SerializeToString()),
        InMemorySource,
        {"model", "graph", "lowering"},
    ),
    "files": (from_files, FileSource, set()),
    "artefact": (from_artifact, ArtifactSource, set()),
    "artefact without the plan": (
        from_other_options,
        ArtifactSource,
        {"model", "graph"},
    ),
}


def kept(net: irc.CompiledModel) -> set[str]:
    return {"model", "graph", "lowering"} & set(vars(net._source))


@pytest.mark.slow
@pytest.mark.parametrize("how", MAKERS)
def test_what_a_source_keeps_and_makes_again(how: str, tmp_path: Path) -> None:
    make, kind, wanted = MAKERS[how]
    net = make(tmp_path)
    source = net._source
    assert type(source) is kind and kept(net) - {"lowering"} == wanted - {"lowering"}
    assert (net.trace is None) == (how == "artefact")
    plan, weights = source.lowering
    assert plan == net.plan and sorted(weights) == sorted({c.source for c in plan.constants})
    assert net.model is net.model and net.graph is net.graph and net.trace is not None
    assert net.graph is not net.model.graph and len(net.graph) <= len(net.model.graph)
    net.export(tmp_path / "again.irc")
    again = irc.compile_model(tmp_path / "again.irc")
    assert again.plan == net.plan and (again(X)[0] == net(X)[0]).all()


@pytest.mark.parametrize("how", MAKERS)
def test_a_closed_model_keeps_nothing_but_its_trace(how: str, tmp_path: Path) -> None:
    net = MAKERS[how][0](tmp_path)
    trace = net.trace
    net.close()
    assert not kept(net) and net.trace is trace and not net.has_stored_code
    for use in (lambda: net.model, lambda: net.graph, lambda: net._source.lowering):
        with pytest.raises(irc.ExecutionError, match="the model is closed"):
            use()


def test_files_are_compiled_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the plan, for all who ask; what makes code is not asked."""
    from irc_compiler.runtime.jit import program

    net = from_files(tmp_path)
    reads: list[Any] = []
    origin = net._source._read
    monkeypatch.setattr(net._source, "_read", lambda: reads.append(0) or origin())
    monkeypatch.setattr(program, "build_program", lambda *_, **__: pytest.fail("made code"))
    for name in ("a.irc", "b.irc"):
        net.export(tmp_path / name)
    assert len(net.graph) and net.model.inputs[0].name == "x" and len(reads) == 1
    assert (tmp_path / "a.irc").read_bytes() == (tmp_path / "b.irc").read_bytes()
