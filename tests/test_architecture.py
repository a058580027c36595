"""The architecture's rules, checked on the syntax trees (docs/dev/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    p for name in PACKAGES for p in (ROOT / name).rglob("*.py") if "__pycache__" not in p.parts
) + [ROOT / f"{name}.py" for name in ("__init__", "__main__")]

# Allowed imports between packages: the first part of a module's path -> the packages it may import.
ARROWS = {
    "ir": {"ir"},
    "plan": {"plan", "ir"},
    "compiler": {"compiler", "plan", "ir"},
    "runtime": {"runtime", "plan", "ir"},
    "builder": {"builder", "compiler", "ir"},
    "api": {"api", "compiler", "runtime", "plan", "ir"},
    "compat": {"compat", "llm", "api", "builder", "compiler", "ir"},
    "serve": {"serve", "llm", "api", "runtime", "plan", "ir", ""},
    "llm": {"llm", "api", "builder", "compiler", "ir"},
    "quantization": {"quantization", "api", "builder", "compiler", "ir"},
    "cli": {
        *("cli", "llm", "serve", "compat", "quantization", "api", "compiler", "runtime", "plan"),
        *("ir", "samples", ""),
    },
    "": {"api", "ir", "builder", "compat", "serve", "cli", "quantization", "llm", ""},
}
# Imports that no module of a folder may make, inside one package.
FORBIDDEN = (("compiler.passes", "compiler.lowering"), ("compiler.frontends", "compiler.passes"))
# Third-party packages that only these paths may import.
FENCES = {
    "networkx": ("ir/graph.py",),
    "lxml": ("compiler/frontends/xml/", "compiler/export/"),
    "llvmlite": ("runtime/jit/",),
    "onnx": (
        "compiler/export/onnx/",
        "compiler/frontends/onnx/",
        "ir/ops/control_flow/onnx_node.py",
        "quantization/",
    ),
    "rich": ("cli/",),
    "starlette": ("serve/",),
    "uvicorn": ("serve/",),
    "httptools": ("serve/rest/",),
    "uvloop": ("serve/server.py",),
    "msgspec": ("serve/",),
    "orjson": ("serve/",),
    "prometheus_client": ("serve/metrics.py", "serve/workers/worker_group.py"),
    "grpc": ("serve/rpc/",),
    "tokenizers": ("llm/",),
    "jinja2": ("llm/",),
    "llguidance": ("llm/constraint.py",),
    "torch": ("api/torch_backend.py", "api/torch_models.py"),
    "optimum": ("compat/optimum_intel.py",),
}
# Import circles that may stay, each by one of its modules and its size. Imports that type checkers
# alone see (TYPE_CHECKING) count as well.
CIRCLES = {
    "ir.graph": 2,  # an operation's bodies are graphs: a type, no call
}
# The packages that a compiled model needs.
LAZY = ("ir", "plan", "compiler", "runtime", "api", "llm")
# Where a person meets irc: an error here is about what that person gave.
FACED = ("cli", "compat", "builder", "api", "serve", "quantization", "llm")
ERRORS = {"Error", "UsageError", "InputError", "InputFileError", "ExecutionError", "ShapeError"}
MAX_MODULES = 20  # in one folder
MAX_LINES = 500  # in one file


def top_package(path: Path) -> str:
    relative = path.relative_to(ROOT)
    if len(relative.parts) == 1:
        return ""
    return relative.parts[0]


@dataclass(frozen=True)
class Facts:
    """What the tests below read of a file's syntax tree, which is not kept."""

    imports: list[tuple[int, str]]
    decorators: list[tuple[int, str]]
    errors: list[tuple[int, frozenset[str | None]]]


@cache
def facts_of(path: Path) -> Facts:
    """Imports as (level, module), relative ones resolved to a path from the root; decorators; and
    calls of errors with the names of their arguments; the last two with their lines."""
    package = path.relative_to(ROOT).parts[:-1]
    found = Facts([], [], [])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.imports.extend((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.imports.append((0, node.module or ""))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            module = [*base, *(node.module or "").split(".")]
            names = [alias.name for alias in node.names]
            found.imports.extend((1, ".".join(x for x in [*module, n] if x)) for n in names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            texts = map(ast.unparse, node.decorator_list)
            found.decorators.extend((node.lineno, text) for text in texts)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ERRORS:
                found.errors.append((node.lineno, frozenset(k.arg for k in node.keywords)))
    return found


@pytest.mark.parametrize("here", ARROWS)
def test_arrows_and_fences(here: str) -> None:
    found = [(p, *i) for p in SOURCES if top_package(p) == here for i in facts_of(p).imports]
    assert found
    for path, level, module in found:
        first = module.split(".")[0]
        if level:
            part = first if first in (*PACKAGES, "samples") else ""
            assert part in ARROWS[here], f"{path}: {here or 'the root'} must not import {module}"
            for folder, banned in FORBIDDEN:
                inside = dotted(path).startswith(folder + ".")
                assert not (inside and module.startswith(banned)), f"{path} imports {module}"
            continue
        assert first != "irc_compiler", f"{path}: imports inside the package are relative"
        allowed = FENCES.get(first)
        if allowed is not None:
            where = path.relative_to(ROOT).as_posix()
            assert where.startswith(allowed), f"{where}: {first} is imported outside its fence"


def test_files_have_one_subject() -> None:
    long = {p.name: n for p in SOURCES if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long
    vague = [p for p in SOURCES if p.stem in ("utils", "helpers", "common", "misc")]
    assert not vague


def test_folders_are_small() -> None:
    counts = Counter(p.parent.relative_to(ROOT).as_posix() for p in SOURCES)
    assert {folder: n for folder, n in counts.items() if n > MAX_MODULES} == {}


def dotted(path: Path) -> str:
    """The module's path from the root, with dots."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_import_circles() -> None:
    """No circle but the listed ones; a listed one that is cut leaves the list."""
    import networkx as nx

    modules = {dotted(p) for p in SOURCES}
    graph = nx.DiGraph()
    for path in SOURCES:
        for level, module in facts_of(path).imports:
            found = module if module in modules else module.rpartition(".")[0]
            if level and found in modules and found != dotted(path):
                graph.add_edge(dotted(path), found)
    circles = [c for c in nx.strongly_connected_components(graph) if len(c) > 1]
    sizes = {next((m for m in CIRCLES if m in c), min(c)): len(c) for c in circles}
    assert sizes == CIRCLES, [sorted(c) for c in circles]


def test_import_is_light() -> None:
    code = (
        "import sys, irc_compiler; "
        "heavy = {'onnx', 'llvmlite', 'lxml', 'rich', 'networkx', 'irc_compiler.ir.ops.catalog'}; "
        "heavy &= set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("word", ["--version", "--help", "unknown-verb"])
def test_the_command_answers_without_numpy(word: str) -> None:
    code = (
        "import sys; sys.argv = ['irc', {!r}]; from irc_compiler.cli.main import main; main(); "
        "sys.exit('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code.format(word)], capture_output=True, text=True)
    assert not done.returncode and "irc" in done.stdout + done.stderr


def test_a_program_loads_all_at_once_and_the_command_later() -> None:
    """Memory and time of the first call are the model's; Ctrl-C finds somebody (cli/entry.py)."""
    code = (
        "import sys; sys.argv[0] = {!r}; import irc_compiler; "
        "print('irc_compiler.runtime.execution.bound_call' in sys.modules)"
    )
    for program, loaded in (("program.py", "True"), ("/usr/bin/irc", "False"), ("-m", "False")):
        words = [sys.executable, "-c", code.format(program)]
        assert subprocess.run(words, capture_output=True, text=True).stdout.split() == [loaded]


def test_every_package_is_listed() -> None:
    """pyproject.toml's explicit list holds every folder with Python files of the package."""
    text = (ROOT / "pyproject.toml").read_text()
    folders = {p.parent.relative_to(ROOT) for p in SOURCES if len(p.relative_to(ROOT).parts) > 1}
    for folder in folders:
        name = "irc_compiler." + ".".join(folder.parts)
        assert f'"{name}"' in text, f"{name} is missing from pyproject.toml"


def test_no_import_has_side_effects_by_decorator() -> None:
    """Tables are visible: nothing registers itself in a table of another module."""
    for path in SOURCES:
        for line, decorator in facts_of(path).decorators:
            assert "register" not in decorator, f"{path}:{line}"


def test_no_import_generates_methods_of_frozen_dataclasses() -> None:
    """What a compiled model needs starts faster so (ir/lazy_dataclass.py)."""
    for path in SOURCES:
        if top_package(path) not in LAZY:
            continue
        decorators = [text for _, text in facts_of(path).decorators]
        if "dataclass(frozen=True)" in decorators:
            assert "lazy_dataclass import" in path.read_text(encoding="utf-8"), path


def test_a_skip_says_what_was_not_run() -> None:
    """Reasons begin with "not run: ", so that nobody takes a skip for a test."""
    found = 0
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\b(skip|skipif|importorskip|xfail)\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in ("skip", "skipif", "importorskip", "xfail"):
                continue
            reasons = [k.value for k in node.keywords if k.arg == "reason"]
            reasons += node.args[:1] if node.func.attr == "skip" else []
            said = ast.unparse(reasons[0]).lstrip("f").strip("'\"") if reasons else ""
            assert said.startswith("not run: "), f"{path}:{node.lineno}: {said or 'no reason'}"
            found += 1
    assert found > 10


def test_errors_say_what_to_do() -> None:
    """What was expected, or how to mend it: a message without either leaves the reader guessing."""
    seen, silent = 0, list[str]()
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] not in FACED:
            continue
        for line, arguments in facts_of(path).errors:
            seen += 1
            if not arguments & {"expected", "fix"}:
                silent.append(f"{path.relative_to(ROOT)}:{line}")
    assert seen > 40 and silent == []
