"""docs/dev/add-a-kernel.md builds a kernel family: its blocks are applied to a copy of the package.

A block with a title is a file; one of the language diff edits the file of its title. Nothing else
of the package is changed, so the page names every place that a family touches. Then the page's test
runs, on the copy.
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
# Spec, lowering and generator; and one line of each of two tables.
TOUCHED = {
    "plan/specs/bucketize.py",
    "compiler/lowering/ops/indexing/bucketize.py",
    "compiler/lowering/op_table.py",
    "runtime/kernels/indexing/bucketize.py",
    "runtime/kernels/kernel_table.py",
}
# The page's model of the fuzzer has a step of the family.
FUZZED = """
import irc_compiler as irc
from fuzz.step_models import BUILT, build
steps = [s for n in BUILT for s in irc.compile_model(build(*BUILT[n])).plan.regions[0].steps]
assert "bucketize" in {s.spec.family for s in steps}
"""


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
    assert {t for t in titles if not t.startswith(("tests/", "fuzz/"))} == TOUCHED


@pytest.mark.slow
def test_the_page_builds_a_kernel(tmp_path: Path) -> None:
    package, tests = tmp_path / "irc_compiler", list[str]()
    package.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, package / name, ignore=ignored)
    for path in ROOT.glob("*.py"):
        shutil.copy(path, package)
    shutil.copytree(ROOT / "fuzz", tmp_path / "fuzz", ignore=ignored)
    for language, title, body in _BLOCK.findall(PAGE.read_text("utf-8")):
        path = (package if title in TOUCHED else tmp_path) / title
        if language == "diff":
            apply_diff(path, body)
            continue
        assert not path.exists(), title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, "utf-8")
        tests += [title] if title.startswith("tests/") else []
    assert tests
    run_python(tmp_path, "-m", "pytest", "-q", "--rootdir=.", "-p", "no:cacheprovider", *tests)
    run_python(tmp_path, "-c", FUZZED)


def run_python(folder: Path, *arguments: str) -> None:
    """Run Python with the copy of the package in `folder`, and with tests/support."""
    (folder / "conftest.py").write_text(
        f"import irc_compiler\nassert {str(folder)!r} in irc_compiler.__file__\n", "utf-8"
    )
    paths = os.pathsep.join([str(folder), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "IRC_VERIFY": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
