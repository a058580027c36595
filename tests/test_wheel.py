"""The wheel holds everything: built from the sources git knows, installed alone, the demo runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent


def test_wheel_runs_the_demo(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, sources / name)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, sources]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("irc_compiler-*.whl")

    # A new environment that sees our dependencies (as plain folders: no editable irc) and the
    # wheel's content, nothing else.
    home = tmp_path / "env"
    venv.create(home)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(str(Path(numpy.__file__).parent.parent))
    code = "import irc, pathlib; print(pathlib.Path(irc.__file__).parent)"
    python = home / "bin" / "python"
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [python, *words], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", code).strip() == str(site / "irc")
    assert "97.78% of 360 images" in run("-m", "irc", "demo")
    run("-c", "import irc.compat.onnxruntime.capi.onnxruntime_pybind11_state, irc.compat.openvino")
    names = zipfile.ZipFile(wheel).namelist()
    assert "irc/py.typed" in names
    assert not any(n.startswith("irc/tests/") for n in names)
