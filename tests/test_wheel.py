"""What `python -m build` makes: twine accepts it, and the wheel, installed alone, runs the demo."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `python -m build` makes of the files that git lists, tests left out: an
    sdist, and a wheel that is built from the sdist. Processes of one run of pytest share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "distributions"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            build_distributions(folder).rename(folder / "made")
    return folder / "made"


def build_distributions(folder: Path) -> Path:
    sources = folder / "sources"
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
    made = folder / "unfinished"
    build = [sys.executable, "-m", "build", "-o", made, sources]
    subprocess.run(build, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("irc_compiler-*.whl")
    return found


@pytest.mark.slow
def test_distributions_pass_twine(distributions: Path) -> None:
    made = sorted(distributions.iterdir())
    assert [p.suffix for p in made] == [".whl", ".gz"]
    words = [sys.executable, "-m", "twine", "check", "--strict", *made]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout + done.stderr


@pytest.mark.slow
def test_pip_on_musl_says_what_to_do(distributions: Path, tmp_path: Path) -> None:
    """pip's build process sees the ABI of a Python for musl."""
    pytest.importorskip("setuptools", reason="not run: no setuptools to build without isolation")
    (source,) = distributions.glob("*.tar.gz")
    abi = "cpython-312-x86_64-linux-musl"
    (tmp_path / "sitecustomize.py").write_text(
        f"import sysconfig; sysconfig.get_config_vars()['SOABI'] = {abi!r}"
    )
    words = ["wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    for part in (abi, "no wheel of llvmlite", "python:3.11-slim", "docs/platforms.md"):
        assert part in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.slow
def test_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    # A new environment that sees our dependencies (as plain folders: no editable irc) and the
    # wheel's content, nothing else.
    home = tmp_path / "env"
    venv.create(home)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(str(Path(numpy.__file__).parent.parent))
    code = "import irc_compiler as irc, pathlib; print(pathlib.Path(irc.__file__).parent)"
    python = home / "bin" / "python"
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [python, *words], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", code).strip() == str(site / "irc_compiler")
    assert "97.78% of 360 images" in run("-m", "irc_compiler", "demo")
    run(
        "-c",
        "import irc_compiler.compat.onnxruntime.capi.onnxruntime_pybind11_state, "
        "irc_compiler.compat.openvino",
    )
    names = zipfile.ZipFile(wheel).namelist()
    assert "irc_compiler/py.typed" in names
    assert not any(n.startswith("irc_compiler/tests/") for n in names)


@pytest.fixture(scope="module")
def chat_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the distribution `irc`, a chat library, from the package index."""
    folder = tmp_path_factory.mktemp("chat")
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "irc"]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("not run: the package index has no distribution irc")
    (found,) = folder.glob("irc-*.whl")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", ["irc", "irc-compiler"])
def test_wheel_installs_next_to_the_chat_library(
    first: str, wheel: Path, chat_library: Path, tmp_path: Path
) -> None:
    """Both distributions import in either order of installation, and uninstalling one leaves the
    other whole."""
    wheels = {"irc": chat_library, "irc-compiler": wheel}
    home = tmp_path / "env"
    venv.create(home)
    (site,) = home.glob("lib/python*/site-packages")
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def pip(*words: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "-q", *words]
        subprocess.run(command, check=True, capture_output=True, env=clean)

    def files(name: str) -> dict[str, bytes]:
        return {
            str(p.relative_to(site)): p.read_bytes()
            for p in (site / name).rglob("*")
            if p.is_file() and p.suffix != ".pyc"
        }

    second = next(name for name in wheels if name != first)
    folders = {"irc": "irc", "irc-compiler": "irc_compiler"}
    pip("install", "--no-deps", wheels[first])
    alone = files(folders[first])
    pip("install", "--no-deps", wheels[second])
    assert files(folders[first]) == alone
    (site / "dependencies.pth").write_text(str(Path(numpy.__file__).parent.parent))
    code = "import irc, irc_compiler; print(irc.__file__, irc_compiler.compile_model.__name__)"
    done = subprocess.run(
        [home / "bin" / "python", "-c", code],
        cwd=tmp_path, env=clean, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(site / "irc" / "__init__.py"), "compile_model"], done.stderr
    (site / "dependencies.pth").unlink()
    whole = files(folders[second])
    pip("uninstall", "-y", first)
    assert files(folders[second]) == whole and not files(folders[first])
