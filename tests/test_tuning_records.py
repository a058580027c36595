"""docs/dev/tuning: each record has its four sections and names code that exists; pages list all."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "dev" / "tuning"
RECORDS = sorted(p for p in FOLDER.glob("*.md") if p.name != "index.md")
SECTIONS = ["Question", "Options", "Decision", "Code"]
_CODE = re.compile(r"- `([\w/.]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?")


@cache
def defined_names(path: Path) -> frozenset[str]:
    """Names that a module defines at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return frozenset(found)


@pytest.mark.parametrize("page", RECORDS, ids=lambda p: p.stem)
def test_record_states_question_options_decision_and_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ") and re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.M)[1:])
    assert len(text.splitlines()) <= 60, "a record is one question"
    lines = re.sub(r"\n +", " ", text.partition("## Code\n")[2]).strip().splitlines()
    for line in lines:
        match = _CODE.fullmatch(line)
        assert match, f"{page.name}: {line}"
        module = ROOT / match[1]
        assert module.is_file(), f"{page.name}: no module {match[1]}"
        missing = set(re.findall(r"`(\w+)`", match[2] or "")) - defined_names(module)
        assert not missing, f"{page.name}: {match[1]} defines no {', '.join(missing)}"


def test_index_and_navigation_list_every_record() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(([\w-]+\.md)\)", index)
    assert sorted(listed) == [p.name for p in RECORDS]
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"dev/tuning/([\w-]+\.md)", navigation)
    assert sorted(named) == sorted(["index.md", *listed])


def test_code_points_to_records_that_exist() -> None:
    folders = ("ir", "plan", "compiler", "runtime", "api", "cli", "benchmarks", "tests")
    for path in (p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        for name in re.findall(r"docs/dev/tuning/([\w-]+\.md)", path.read_text("utf-8")):
            assert (FOLDER / name).is_file(), f"{path.relative_to(ROOT)}: {name}"
