"""docs/dev/add-a-kernel.md builds a kernel family: its blocks are applied to a copy of the package.

A block with a title is a file; one of the language diff edits the file of its title. Nothing else
of the package is changed, so the page names every place that a family touches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dev" / "add-a-kernel.md"
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"fuzz"}
_BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.M | re.S)
# Spec, lowering and generator; and one line of each table.
TOUCHED = {
    "plan/specs/bucketize.py",
    "plan/specs/__init__.py",
    "compiler/lowering/ops/bucketize.py",
    "compiler/lowering/op_table.py",
    "runtime/kernels/indexing/bucketize.py",
    "runtime/kernels/kernel_table.py",
}


def apply_diff(path: Path, diff: str) -> None:
    """Replace the lines of a diff that are there before by those that are there after."""
    lines = diff.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = path.read_text("utf-8")
    assert text.count(before) == 1, f"{path.name} does not have these lines once:\n{before}"
    path.write_text(text.replace(before, after), "utf-8")


def test_the_page_names_the_files_of_a_family() -> None:
    titles = {title for _, title, _ in _BLOCK.findall(PAGE.read_text("utf-8"))}
    assert {t for t in titles if not t.startswith("tests/")} == TOUCHED


@pytest.mark.slow
def test_the_page_builds_a_kernel(tmp_path: Path) -> None:
    package = tmp_path / "irc_compiler"
    package.mkdir()
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, package / name, ignore=ignored)
    for path in ROOT.glob("*.py"):
        shutil.copy(path, package)
    program = ""
    for language, title, body in _BLOCK.findall(PAGE.read_text("utf-8")):
        if title.startswith("tests/"):
            program = body
        elif language == "diff":
            apply_diff(package / title, body)
        else:
            assert not (package / title).exists(), title
            (package / title).write_text(body, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "IRC_VERIFY": "1"}
    source = f"import irc_compiler; assert {str(tmp_path)!r} in irc_compiler.__file__\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
