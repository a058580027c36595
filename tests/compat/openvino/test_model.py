"""Models of files that were read before: read again only when their graph is asked for."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import irc_compiler.compat.openvino as ov
import numpy as np
import pytest
from irc_compiler.ir.errors import ModelFormatError
from support.fixtures import ModelLookups
from support.models import small

X = np.ones((2, 3), np.float32)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    irc.save_model(small.mlp((3, 4), 2), tmp_path / "m.xml")
    return tmp_path / "m.xml"


def compile_file(path: Path) -> np.ndarray:
    core = ov.Core()
    return core.compile_model(core.read_model(path), "CPU")(X)[0]


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irc_compiler.api.read_model", lambda path: pytest.fail("the file is read"))


def test_a_file_that_was_compiled_is_not_read(
    lookups: ModelLookups, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = compile_file(path)
    assert lookups.found == []
    np.testing.assert_array_equal(compile_file(path), want)
    with monkeypatch.context() as inside:
        forbid_reading(inside)
        np.testing.assert_array_equal(compile_file(path), want)
    assert lookups.found == [False, True]
    model = ov.Core().read_model(path)
    assert [p.any_name for p in model.inputs] == [
        p.any_name for p in ov.Core().read_model(path).inputs
    ]
    assert len(model.get_ops()) == len(irc.read_model(path).graph)


def test_an_edited_model_is_compiled_as_it_is(lookups: ModelLookups, path: Path) -> None:
    for _ in range(2):
        compile_file(path)
    model = ov.Core().read_model(path)
    model.reshape([7, 3])
    compiled = ov.Core().compile_model(model, "CPU")
    assert list(compiled.input(0).shape) == [7, 3]
    assert lookups.found == [False]


@pytest.mark.parametrize("ending", [".xml", ".bin"])
def test_a_changed_file_is_an_error_of_what_needs_it(
    lookups: ModelLookups, path: Path, ending: str
) -> None:
    for _ in range(2):
        compile_file(path)
    model = ov.Core().read_model(path)
    changed = path.with_suffix(ending)
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(ModelFormatError, match="not what it was"):
        ov.Core().compile_model(model, "CPU")
    with pytest.raises(ModelFormatError, match="not what it was"):
        model.get_ops()
    assert compile_file(path).shape == (2, 4)


def test_a_file_without_its_weights_is_refused_at_once(lookups: ModelLookups, path: Path) -> None:
    compile_file(path)
    path.with_suffix(".bin").unlink()
    with pytest.raises(ModelFormatError):
        ov.Core().read_model(path)
    assert lookups.found == []
