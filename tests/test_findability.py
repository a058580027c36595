"""A stranger finds each subject by the field's words in file names and first docstring lines."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ir", "plan", "compiler", "runtime", "api")
# Words of a search over file names and first docstring lines -> the one file that has to be found.
QUESTIONS = {
    r"common.subexpression|\bCSE\b": "compiler/passes/canonicalize/common_subexpressions.py",
    r"thread.pool": "runtime/driver/thread_pool.py",
    r"im2col": "runtime/kernels/conv/im2col_amx.py",
    r"choose.*register tile": "runtime/kernels/gemm/tiling.py",
    r"forged": "plan/verify/plan.py",
    r"memory.planner": "runtime/machine/memory_planner.py",
}
# Words of the field that the code uses.
WORDS = ("canonicalize", "decompose", "thread pool", "im2col", "common.subexpression", "epilogue")


@cache
def sources() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@pytest.mark.parametrize("words", QUESTIONS)
def test_subject_is_found_by_names_and_first_lines(words: str) -> None:
    pattern = re.compile(words, re.IGNORECASE)
    found = [
        name
        for name, text in sources().items()
        if pattern.search(f"{name} {text.partition(chr(10))[0]}")
    ]
    assert QUESTIONS[words] in found and len(found) <= 2, found


def test_importer_of_an_onnx_operator_is_one_line_of_a_table() -> None:
    """`grep '"Resize"' compiler/frontends/onnx/ops` finds the file that imports Resize."""
    found = [
        name
        for name, text in sources().items()
        if name.startswith("compiler/frontends/onnx/ops/") and '"Resize": {' in text
    ]
    assert len(found) == 1, found


@pytest.mark.parametrize("word", WORDS)
def test_word_of_the_field_is_in_the_code(word: str) -> None:
    assert any(re.search(word, text, re.IGNORECASE) for text in sources().values())


def test_glossary_names_fifty_terms_and_files_that_exist() -> None:
    lines = (ROOT / "docs/dev/glossary.md").read_text("utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert len(rows) >= 50 and all(len(row) == 3 and all(row) for row in rows)
    assert [r[0].lower() for r in rows] == sorted({r[0].lower() for r in rows})
    for file in re.findall(r"`([\w/]+\.py)`", "\n".join(lines)):
        assert any(f"/{name}".endswith(f"/{file}") for name in sources()), file
