"""Every command and program that README and docs show is executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from irc_compiler.cli.main import main
from support.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for i, block in enumerate(re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)):
            found.append((f"{page.stem}-{i}", block))
    return found


SHELL = [b for b in blocks("bash") if "-m venv" not in b[1]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the pages' examples find next to them: model.onnx, batch.npy, samples.npz and the module
    `quality`."""
    digits = ROOT / "samples" / "digits"
    shutil.copy(digits / "digits.onnx", tmp_path / "model.onnx")
    images = np.load(digits / "held_out.npz")["images"]
    np.save(tmp_path / "batch.npy", (images[:9].reshape(9, 64) / 16).astype(np.float32))
    rows = (images[:200].reshape(200, 64) / 16).astype(np.float32)
    np.savez(tmp_path / "samples.npz", image=rows)
    labels = np.load(digits / "held_out.npz")["labels"][:200]
    np.savez(tmp_path / "test.npz", image=rows, label=labels)
    for name, block in blocks("python"):
        if block.startswith("# quality.py\n"):
            (tmp_path / "quality.py").write_text(block, encoding="utf-8")
            assert name.startswith("quantization")
    return tmp_path


# Runs commands of irc one after the other: one process imports the package once.
RUN_COMMANDS = """
import json, sys
from irc_compiler.cli.main import main
for words in json.loads(sys.argv[1]):
    if code := main(words):
        sys.exit(f"irc {' '.join(words)}: exit code {code}")
"""


def programs_of(block: str) -> list[tuple[dict[str, str], str, list[list[str]]]]:
    """The lines of a block as (environment, `irc` or `python`, arguments of each line). Lines of
    irc in the same environment are one program."""
    found: list[tuple[dict[str, str], str, list[list[str]]]] = []
    for line in block.strip().splitlines():
        words, environment = shlex.split(line, comments=True), dict[str, str]()
        if not words:
            continue
        while "=" in words[0] and words[0].split("=")[0].isupper():
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        assert words[0] in ("irc", "python"), f"a page shows a command that no test runs: {line}"
        if found and words[0] == "irc" and found[-1][:2] == (environment, "irc"):
            found[-1][2].append(words[1:])
        else:
            found.append((environment, words[0], [words[1:]]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("block", [b for _, b in SHELL], ids=[n for n, _ in SHELL])
def test_commands(block: str, folder: Path) -> None:
    # As in an active virtual environment: `irc shim` starts its `python`.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for environment, program, lines in programs_of(block):
        is_irc = program == "irc"
        words = ["-c", RUN_COMMANDS, json.dumps(lines)] if is_irc else lines[0]
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder if is_irc else ROOT,
            env={**os.environ, "PATH": path, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [b for _, b in blocks("python")], ids=[n for n, _ in blocks("python")]
)
def test_programs(block: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", block], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_prose_has_at_most_100_columns() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in text.splitlines():
            table = line.startswith(("|", "<!--"))
            assert table or len(line) <= 100, f"{page.name}: {line}"


def test_files_that_pages_name_exist() -> None:
    """A name in backticks that ends in .py is a file of the repository, or the end of its path."""
    listed = "\n".join(
        f"/{path.relative_to(ROOT).as_posix()}"
        for folder in (*PACKAGES, "benchmarks", "docs", "fuzz", "samples", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
    )
    names = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text("utf-8"))
    }
    missing = [at for at in sorted(names) if f"/{at[1]}\n" not in f"{listed}\n"]
    assert names and not missing


def test_graph_page_of_the_sample_is_current(tmp_path: Path) -> None:
    """docs/graph.html is what `irc graph` writes of the digits sample."""
    page = tmp_path / "graph.html"
    assert main(["graph", str(ROOT / "samples/digits/digits.onnx"), "-o", str(page)]) == 0
    assert page.read_text("utf-8") == (ROOT / "docs/graph.html").read_text("utf-8"), (
        "irc graph samples/digits/digits.onnx -o docs/graph.html writes it again"
    )
