"""The repository on disk: names, versions, links, config.json."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.serve.errors import ModelLoadError
from irc_compiler.serve.model_config import VersionPolicy, parse_config
from irc_compiler.serve.repository import Repository
from support.serving import save_model


def test_only_models_of_the_layout_are_found(tmp_path: Path) -> None:
    save_model(tmp_path, "a", b"1", 1)
    save_model(tmp_path, "a", b"1", 12)
    for folder in ("a/0", "a/x", "a/01", "a/-1", ".hidden/1", "spa ce/1", "-dash/1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model.onnx").write_bytes(b"1")
    (tmp_path / "a" / "3").mkdir()
    (tmp_path / "a" / "3" / "other.onnx").write_bytes(b"1")
    (tmp_path / "b").mkdir()
    (tmp_path / "file").write_bytes(b"1")
    found = Repository(tmp_path).scan()
    assert {n: sorted(m.versions) for n, m in found.items()} == {"a": [1, 12], "b": []}


def test_a_file_is_version_one_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "my model.onnx").write_bytes(b"1")
    found = Repository(tmp_path / "my model.onnx").scan()
    assert list(found) == ["my_model"] and list(found["my_model"].versions) == [1]


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no model repository"):
        Repository(tmp_path / "nowhere")
    (tmp_path / "model.txt").write_bytes(b"1")
    with pytest.raises(UsageError, match="not a model file"):
        Repository(tmp_path / "model.txt")


def test_links_out_of_the_repository_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    save_model(outside, "m", b"1")
    save_model(inside, "a", b"1")
    (inside / "linked").symlink_to(outside / "m")
    (inside / "a" / "2").symlink_to(outside / "m" / "1")
    (inside / "a" / "3").mkdir()
    (inside / "a" / "3" / "model.onnx").symlink_to(outside / "m" / "1" / "model.onnx")
    (inside / "a" / "4").mkdir()
    (inside / "a" / "4" / "model.xml").write_bytes(b"1")
    (inside / "a" / "4" / "model.bin").symlink_to("/etc/passwd")
    (inside / "b").mkdir()
    (inside / "b" / "config.json").symlink_to("/etc/passwd")
    found = Repository(inside).scan()
    assert sorted(found) == ["a", "b"] and sorted(found["a"].versions) == [1, 3, 4]
    errors = {n: v.error for n, v in found["a"].versions.items()}
    assert errors[1] is None
    assert "leads out" in str(errors[3]) and "leads out" in str(errors[4])
    assert found["b"].error and "not in the repository" in found["b"].error


def test_a_signature_changes_with_each_file(tmp_path: Path) -> None:
    path = save_model(tmp_path, "a", b"1")
    repository = Repository(tmp_path)
    seen = [repository.scan()["a"].versions[1].signature]
    (tmp_path / "a" / "config.json").write_text("{}")
    seen.append(repository.scan()["a"].versions[1].signature)
    (path.parent / "weights.bin").write_bytes(b"2")
    seen.append(repository.scan()["a"].versions[1].signature)
    path.write_bytes(b"22")
    seen.append(repository.scan()["a"].versions[1].signature)
    assert len(set(seen)) == 4


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "config.json")
    assert "plain file" in str(Repository(tmp_path).scan()["a"].error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "truncated"),
        ("[]", "object"),
        ('{"bathcing": {}}', "bathcing"),
        ('{"precision": "f8"}', "f8"),
        ('{"instances": 0}', "instances"),
        ('{"threads": "all"}', "threads"),
        ('{"batching": {"max_size": -1}}', "max_size"),
        ('{"batching": {"preferred_sizes": [0]}}', "preferred_sizes"),
        ('{"shapes": {"x": [-1]}}', "shapes"),
        ('{"version_policy": {"latest": 1, "all": true}}', "takes one of"),
        ("[" * 5000, "deep"),
        (" " * (2 << 20), "too large"),
    ],
)
def test_a_wrong_config_names_the_field(text: str, message: str) -> None:
    with pytest.raises(ModelLoadError) as caught:
        parse_config(text.encode(), "m/config.json")
    assert message in str(caught.value) or message == "deep"
    assert "m/config.json" in str(caught.value)


def test_version_policies() -> None:
    versions = [1, 2, 5, 10]
    assert VersionPolicy().choose(versions) == [10]
    assert VersionPolicy(latest=2).choose(versions) == [5, 10]
    assert VersionPolicy(all=True).choose(versions) == versions
    assert VersionPolicy(specific=(2, 3, 10)).choose(versions) == [2, 10]
