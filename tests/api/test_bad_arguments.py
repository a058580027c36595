"""Arguments of the public functions that are wrong: a UsageError names each, nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import pytest
from irc_compiler.compiler.options import Options, from_recipe, to_compile_config

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
WRONG: list[dict[str, Any]] = [
    {"precision": "f8"},
    {"num_threads": 0},
    {"num_threads": "2"},
    {"num_threads": 1.5},
    {"num_threads": True},
    {"num_threads": 10**9},
    {"max_memory": -1},
    {"max_memory": "1G"},
    {"declared_shapes": "maybe"},
    {"shapes": [2, 64]},
    {"shapes": {"image": 2}},
    {"shapes": {"image": "N64"}},
    {"shapes": {"image": [2.5, 64]}},
    {"shapes": {"image": [-1, 64]}},
    {"shapes": {"picture": [2, 64]}},
]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_compile_model(wrong: dict[str, Any]) -> None:
    with pytest.raises(irc.Error) as caught:
        irc.compile_model(DIGITS, **wrong)
    assert type(caught.value).__name__ == "UsageError" and caught.value.got is not None


@pytest.mark.slow
def test_a_model_is_not_written_over_another_kind_of_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(DIGITS.read_bytes())
    with pytest.raises(irc.Error, match="ending"):
        irc.save_model(DIGITS, path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.tflite"]
    assert path.read_bytes() == DIGITS.read_bytes()


def test_options_of_an_older_irc_are_read() -> None:
    recipe = to_compile_config(Options(precision="bf16"), {"x": [1, "n", None]})
    del recipe["options"]["conv_algorithm"]
    options, shapes = from_recipe(recipe)
    assert options == Options(precision="bf16") and shapes == {"x": [1, "n", None]}
