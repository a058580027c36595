"""Type checkers see arrays in results: a user's program, and the annotations of the public API."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import pytest

PROGRAM = """
from typing import Any, assert_type

import irc_compiler as irc
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
x = np.zeros((1, 64), np.float32)
net = irc.compile_model("model.onnx", progress=False)
y = net(x)["name"]
assert_type(y, Array)
assert_type(net(x)[0], Array)
assert_type(net(x)[:2], tuple[Array, ...])
for array in net(image=x):
    assert_type(array, Array)
(first,) = net([x])
assert_type(first, Array)
call = net.bind(x)
assert_type(call, irc.BoundCall[irc.Outputs])
assert_type(call()["name"], Array)
request = net.create_infer_request()
assert_type(request(x)[0], Array)
assert_type(request.query_state()[0].state, Array)
assert_type(irc.Predictor("model.onnx")({"image": x}), dict[str, Array])
model = irc.read_model("model.onnx", progress=None)
assert_type(model.inputs[0].shape, tuple[int | str, ...] | None)
irc.save_model(model, "model.xml", progress=True)
"""
CHECKERS = {
    "pyright": ["--pythonpath", sys.executable],
    "mypy": ["--strict", "--follow-imports=silent", "--python-executable", sys.executable],
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_results_are_arrays_to_a_type_checker(checker: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"not run: {checker} is not installed")
    # As a user sees it: an installed package with py.typed, not an editable checkout.
    (tmp_path / "irc_compiler").symlink_to(Path(irc.__file__).parent, target_is_directory=True)
    (tmp_path / "program.py").write_text(PROGRAM)

    def check() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", checker, *CHECKERS[checker], "program.py"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "program.py").write_text(PROGRAM + "assert_type(y, int)\n")
    assert check().returncode != 0, "nothing is checked"


def annotations(path: Path) -> list[tuple[str, str]]:
    """(name, result's annotation) of the public functions and methods of a module."""
    body = ast.parse(path.read_text("utf-8")).body
    body += [inner for node in body if isinstance(node, ast.ClassDef) for inner in node.body]
    return [
        (node.name, ast.unparse(node.returns) if node.returns else "nothing")
        for node in body
        if isinstance(node, ast.FunctionDef)
        and (not node.name.startswith("_") or node.name in ("__call__", "__getitem__"))
    ]


def test_public_results_are_not_any() -> None:
    root = Path(irc.__file__).parent
    modules = [root / "api" / f"{m}.py" for m in ("__init__", "compiled_model", "infer_request")]
    modules += [root / "api" / "predictor.py", root / "compiler" / "model.py"]
    modules += [root / "runtime" / "execution" / "bound_call.py"]
    for path in modules:
        for name, result in annotations(path):
            bare = re.sub(r"(?:NDArray|ndarray)\[Any(?:, Any)?\]", "array", result)
            # A data frame's parts are typed by the library that made them.
            if name not in ("columns", "to_numpy"):
                assert not re.search(r"\bAny\b", bare), f"{path.name}: {name} -> {result}"
