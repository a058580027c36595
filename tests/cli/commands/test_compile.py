"""irc compile of language models: the file generates on its own; options that do not fit."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import pytest
from irc_compiler.cli.main import main

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from support.models.tiny_language_models import write_folder

GENERATE = ["-p", "hello", "--max-tokens", "8", "--threads", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("source") / "qwen2", "qwen2")


@pytest.mark.slow
def test_a_language_model_and_its_tokenizer_are_one_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "model.irc")
    assert main(["compile", str(folder), "-o", path, "--kv-cache", "f16"]) == 0
    report = capsys.readouterr().out
    assert path in report and "cache      f16" in report
    texts = list[str]()
    for model in (str(folder), path):
        form = ["--kv-cache", "f16"] if model != path else []
        assert main(["generate", model, *GENERATE, *form]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shape", "input_ids=1,8"], "--shape does not apply"),
        (["--denormals", "keep"], "--denormals does not apply"),
        (["--extension", "json"], "--extension does not apply"),
        (["--declared-shapes", "ignore"], "--declared-shapes does not apply"),
    ],
)
def test_options_of_other_models_are_refused(
    folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(folder), *options]) != 0
    assert message in capsys.readouterr().err


def test_a_cache_is_chosen_for_language_models_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = irc.ops.parameter("x", [2, 3])
    path = tmp_path / "m.xml"
    irc.save_model(irc.ops.model({"y": x + 1.0}), path)
    assert main(["compile", str(path), "--kv-cache", "u8"]) != 0
    assert "--kv-cache is for language models" in capsys.readouterr().err
