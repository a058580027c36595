"""Compare irc's quantization with onnxruntime's and NNCF's on models that pip packages hold.

    python scripts/quantization_packages.py FOLDER [--nncf PYTHON] [--models NAME ...]

FOLDER holds the packages, at any depth: rapidocr-onnxruntime's recognizer and detector, magika,
silero-vad. PYTHON is an interpreter that has nncf, openvino and onnx; without it NNCF is not run.
Data are lines of text drawn with Pillow, files of this tree, and sentences that espeak-ng speaks
in noise. The metric is the share of samples (of silero-vad: frames of 32 ms) for which the
quantized model gives the float model's answer.
"""

from __future__ import annotations

import argparse
import io
import logging
import shutil
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parents[1]
CALIBRATION, TEST = 48, 64
# Quantizes the model as NNCF does without options, from ONNX or as IR.
NNCF = """
import sys, time
import nncf, numpy as np, onnx, openvino as ov

form, source, samples, target = sys.argv[1:]
batches = {}
for name, array in np.load(samples).items():
    number, port = name.split(":", 1)
    batches.setdefault(number, {})[port] = array
rows = list(batches.values())
start = time.perf_counter()
if form == "onnx":
    onnx.save(nncf.quantize(onnx.load(source), nncf.Dataset(rows), subset_size=len(rows)), target)
else:
    model = ov.convert_model(source)
    ov.save_model(nncf.quantize(model, nncf.Dataset(rows), subset_size=len(rows)), target)
print(time.perf_counter() - start)
"""
Array = np.ndarray[Any, Any]


def text_lines(width: int, height: int) -> Array:
    """Images of words of a page of the documentation, [N, 3, height, width] from -1 to 1."""
    rng = np.random.default_rng(0)
    words = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split()
    made: list[Array] = []
    for _ in range(CALIBRATION + TEST):
        paper = tuple(int(v) for v in rng.integers(180, 256, 3))
        image = Image.new("RGB", (width, height), paper)
        draw = ImageDraw.Draw(image)
        for top in range(0, height - 40, 48):
            ink = tuple(int(v) for v in rng.integers(0, 90, 3))
            line = " ".join(rng.choice(words, 4))[:28]
            font = ImageFont.load_default(int(rng.integers(22, 36)))
            draw.text((4, top + int(rng.integers(2, 10))), line, fill=ink, font=font)
        made.append((np.asarray(image, np.float32) / 127.5 - 1).transpose(2, 0, 1))
    return np.stack(made)


def file_contents() -> Array:
    """The first and last 1024 bytes of files of this tree, as magika reads them; [N, 2048]."""
    files = sorted(p for p in ROOT.rglob("*") if p.is_file() and ".git" not in p.parts)
    np.random.default_rng(0).shuffle(files)
    made: list[Array] = []
    for path in files[: CALIBRATION + 4 * TEST]:
        data = np.frombuffer(path.read_bytes(), np.uint8).astype(np.int32)
        size = min(1024, len(data))
        row = np.full(2048, 256, np.int32)
        row[:size], row[2048 - size :] = data[:size], data[len(data) - size :]
        made.append(row)
    return np.stack(made)


def decode(probabilities: Array) -> list[Any]:
    """The labels of each line without repetitions and blanks."""
    lines: list[Any] = []
    for row in probabilities.argmax(axis=2):
        kept = row[np.flatnonzero(np.diff(row, prepend=-1))]
        lines.append(tuple(kept[kept != 0].tolist()))
    return lines


@dataclass(frozen=True)
class Comparison:
    """What is done with a model: inputs to calibrate, inputs to time, and a net's answers."""

    batches: list[dict[str, Array]]
    timed: dict[str, Array]
    answers: Callable[[irc.CompiledModel], list[Any]]


def compare_samples(port: str, data: Array, read: Callable[[Array], list[Any]]) -> Comparison:
    """Answers are what `read` makes of the output for samples that do not calibrate."""
    batches = [{port: data[i : i + 8]} for i in range(0, CALIBRATION, 8)]
    held = data[CALIBRATION:]
    return Comparison(batches, {port: held[:8]}, lambda net: read(net(held)[0]))


def speak(words: str, voice: int) -> Array:
    """A sentence at 16 kHz, from -1 to 1."""
    voices = ("en-us", "en-gb", "de", "es", "ru", "en-us+f3", "en-gb+f4", "de+f2")
    line = ["espeak-ng", "-v", voices[voice % 8], "-s", str(130 + 10 * (voice % 7)), "--stdout"]
    done = subprocess.run([*line, "--stdin"], input=words.encode(), capture_output=True, check=True)
    with wave.open(io.BytesIO(done.stdout)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(1 << 24), np.int16) / 32768
    times = np.arange(int(len(samples) * SPEECH_RATE / rate)) * rate / SPEECH_RATE
    return np.interp(times, np.arange(len(samples)), samples).astype(np.float32)


def noisy_speech(count: int, seconds: int) -> Array:
    """[count, samples]: sentences with pauses between them, in noise of 5 to 25 dB."""
    rng = np.random.default_rng(0)
    words = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split()
    words = [word for word in words if word.isalpha()]
    made = np.zeros((count, seconds * SPEECH_RATE), np.float32)
    for n, row in enumerate(made):
        start = int(rng.integers(0, SPEECH_RATE))
        while start < len(row):
            part = speak(" ".join(rng.choice(words, 5)), n)[: len(row) - start]
            row[start : start + len(part)] = part
            start += len(part) + int(rng.integers(SPEECH_RATE // 3, 2 * SPEECH_RATE))
        level = np.sqrt(np.mean(row**2)) * 10 ** (-rng.uniform(5, 25) / 20)
        row += level * rng.standard_normal(len(row)).astype(np.float32)
    return made


def compare_speech(net: irc.CompiledModel) -> Comparison:
    """silero-vad reads frames of 512 samples behind 64 samples of the frame before, and a state."""
    audio = noisy_speech(16, 16)
    rate = np.array(SPEECH_RATE, np.int64)

    def run(net: irc.CompiledModel, rows: Array) -> tuple[Array, list[dict[str, Array]]]:
        padded = np.pad(rows, ((0, 0), (64, 0)))
        state = np.zeros((2, len(rows), 128), np.float32)
        scores: list[Array] = []
        feeds: list[dict[str, Array]] = []
        for start in range(0, rows.shape[1] - 511, 512):
            frame = np.ascontiguousarray(padded[:, start : start + 576])
            feeds.append({"input": frame, "state": state, "sr": rate})
            score, state = net(feeds[-1])
            scores.append(score[:, 0])
        return np.stack(scores), feeds

    feeds = run(net, audio[:8])[1]
    return Comparison(
        feeds[::10], feeds[-1], lambda net: (run(net, audio[8:])[0] > 0.5).ravel().tolist()
    )


def make_comparison(name: str, source: Path) -> Comparison:
    """The comparison of one of MODELS."""
    if name == SPEECH:
        return compare_speech(irc.compile_model(source, num_threads=1))
    make_data, read = MODELS[name]
    return compare_samples(irc.read_model(source).inputs[0].name, make_data(), read)


SPEECH, SPEECH_RATE = "silero_vad_16k_op15.onnx", 16000
MODELS: dict[str, tuple[Callable[[], Array], Callable[[Array], list[Any]]]] = {
    "ch_PP-OCRv4_rec_infer.onnx": (lambda: text_lines(320, 48), decode),
    "ch_PP-OCRv4_det_infer.onnx": (
        lambda: text_lines(160, 96),
        lambda p: [(m > 0.3) for m in p[:, 0]],
    ),
    "standard_v3_3/model.onnx": (file_contents, lambda p: p.argmax(axis=1).tolist()),
}


def agreement(found: list[Any], wanted: list[Any]) -> float:
    """The mean share of equal answers, of masks intersection over union."""
    if isinstance(wanted[0], np.ndarray):
        pairs = [(f & w, f | w) for f, w in zip(found, wanted, strict=True)]
        return float(np.mean([both.sum() / max(1, one.sum()) for both, one in pairs]))
    return float(np.mean([f == w for f, w in zip(found, wanted, strict=True)]))


class Reader(CalibrationDataReader):
    """Batches for onnxruntime.quantization."""

    def __init__(self, batches: list[dict[str, Array]]) -> None:
        self.left = list(batches)

    def get_next(self) -> dict[str, Array] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.left.pop(0) if self.left else None


def quantize_onnxruntime(source: Path, target: Path, batches: list[dict[str, Array]]) -> None:
    """onnxruntime's static quantization of the preprocessed model."""
    prepared = target.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(target),
        Reader(batches),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def quantize_nncf(
    python: str, form: str, source: Path, target: Path, batches: list[dict[str, Array]]
) -> str:
    """NNCF's post-training quantization in its own environment; the error's last line, or ""."""
    samples = target.with_name("samples.npz")
    arrays: dict[str, Any] = {
        f"{n}:{port}": array for n, batch in enumerate(batches) for port, array in batch.items()
    }
    np.savez(samples, **arrays)
    words = [python, "-c", NNCF, form, str(source), str(samples), str(target)]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def compare_model(name: str, source: Path, nncf: str) -> None:
    """Print a row for each tool."""
    case = make_comparison(name, source)
    wanted = case.answers(irc.compile_model(source))

    def row(tool: str, model: Any, seconds: float) -> None:
        net = irc.compile_model(model, num_threads=1)
        share = agreement(case.answers(net), wanted)
        taken: list[float] = []
        for _ in range(5):
            start = time.perf_counter()
            net(case.timed)
            taken.append(time.perf_counter() - start)
        spent = min(taken) * 1e3
        print(f"{name:28} {tool:14} {share:9.3f} {spent:8.1f} {seconds:8.1f}", flush=True)

    row("float", source, 0.0)
    for method in ("minmax", "percentile", "mse"):
        start = time.perf_counter()
        made = irc.quantize(source, case.batches, calibrate=method)
        row(f"irc {method}", made.to_onnx(), time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        target, start = Path(folder) / "peer.onnx", time.perf_counter()
        try:
            quantize_onnxruntime(source, target, case.batches)
            row("onnxruntime", target, time.perf_counter() - start)
        except Exception as error:
            print(f"{name:28} onnxruntime    ends in {type(error).__name__}: {str(error)[:80]}")
        for form in ("onnx", "xml") if nncf else ():
            target, start = Path(folder) / f"nncf.{form}", time.perf_counter()
            failed = quantize_nncf(nncf, form, source, target, case.batches)
            if failed:
                print(f"{name:28} NNCF {form:9} ends in {failed[:120]}", flush=True)
            else:
                row(f"NNCF {form}", target, time.perf_counter() - start)


def main() -> None:
    """Compare the tools on each model that is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nncf", default="", help="an interpreter that has nncf")
    parser.add_argument("--models", nargs="+", default=[*MODELS, SPEECH], help="some of the models")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'model':28} {'tool':14} {'agreement':>9} {'ms of 8':>8} {'seconds':>8}")
    files = sorted(args.folder.rglob("*.onnx"))
    for name in args.models:
        found = next((p for p in files if p.as_posix().endswith(f"/{name}")), None)
        if found is None:
            print(f"{name:28} not run: it is not in {args.folder}")
        elif name == SPEECH and shutil.which("espeak-ng") is None:
            print(f"{name:28} not run: espeak-ng is not installed")
        else:
            compare_model(name, found, args.nncf)


if __name__ == "__main__":
    main()
