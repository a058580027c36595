"""irc demo: a trained classifier on real handwritten digits, from ONNX to checked answers."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ...api import CompiledModel, compile_model, read_model, save_model
from ...ir.interpret import interpret
from ..console import print_result
from ..formatting import fit_lines, format_bytes, format_microseconds, terminal_columns
from ..logging import print_json

SCHEMA = 1
SHADES = " .:-=+*#%@"
DRAWN_PICTURES = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, no pictures")


def run(args: argparse.Namespace) -> int:
    """Convert, compile, run, draw, compare, time. Exit code 1 if the answers disagree."""
    folder = Path(__file__).parents[2] / "samples" / "digits"
    held_out = np.load(folder / "held_out.npz", allow_pickle=False)
    pictures, labels = held_out["images"], held_out["labels"]
    images = (pictures.reshape(len(pictures), -1) / 16).astype(np.float32)
    say = (lambda *lines: None) if args.json else _print_fitted
    say(f"irc demo: {len(images)} handwritten digits (UCI) that the network has never seen", "")

    with tempfile.TemporaryDirectory(prefix="irc-demo-") as temporary:
        xml = Path(temporary) / "digits.xml"
        save_model(read_model(folder / "digits.onnx"), xml)
        size = xml.stat().st_size + xml.with_suffix(".bin").stat().st_size
        say(f"converted  digits.onnx -> digits.xml and digits.bin ({format_bytes(size)})")
        started = time.perf_counter()
        net = compile_model(xml)
        compiled = time.perf_counter() - started
        say(f"compiled   in {format_microseconds(compiled * 1e6)}")

        probabilities = net(images)[0]
        predicted = probabilities.argmax(axis=1)
        wanted = interpret(read_model(xml).graph, [images])[0]
    say("", *draw_pictures(pictures, predicted, labels), "")
    accuracy = float((predicted == labels).mean())
    worst = float(np.abs(probabilities - wanted).max())
    agree = bool((wanted.argmax(axis=1) == predicted).all()) and worst < 1e-5
    same = "same digits" if agree else "NOT the same answers"
    say(f"accuracy   {accuracy:.2%} of {len(labels)} images")
    say(f"agreement  with the reference evaluation: largest difference {worst:.1e}, {same}")
    one, batch = timings(net, images)
    one_text, batch_text = format_microseconds(one * 1e6), format_microseconds(batch * 1e6)
    say(f"time       {one_text} for one image, {batch_text} an image in a batch")
    say("", "the fused plan", *plan_table(net))
    if args.json:
        figures = {
            "schema": SCHEMA,
            "images": len(labels),
            "converted_bytes": size,
            "compile_s": compiled,
            "accuracy": accuracy,
            "largest_difference": worst,
            "agree": agree,
            "one_image_us": one * 1e6,
            "image_in_batch_us": batch * 1e6,
            "native_steps": len(net.plan.kernel_steps()),
            "python_steps": len(net.plan.host_steps()),
        }
        print_json(figures)
    return 0 if agree else 1


def _print_fitted(*lines: str) -> None:
    print_result(*fit_lines(lines, 11))


def draw_pictures(pictures: Any, predicted: Any, labels: Any) -> list[str]:
    """A few images in a row, drawn with characters, with prediction and label below; one that the
    network gets wrong is among them if there is one."""
    wrong = [int(i) for i in np.flatnonzero(predicted != labels)[:1]]
    width = 2 * pictures.shape[2]
    columns = terminal_columns() or DRAWN_PICTURES * (width + 2)
    chosen = [*range(min(DRAWN_PICTURES, (columns + 2) // (width + 2)) - len(wrong)), *wrong]
    lines = []
    for row in range(pictures.shape[1]):
        cells = []
        for i in chosen:
            levels = (pictures[i, row].astype(int) * (len(SHADES) - 1) + 8) // 16
            cells.append("".join(SHADES[v] * 2 for v in levels))
        lines.append("  ".join(cells))
    says = [
        f"says {predicted[i]}" + ("" if predicted[i] == labels[i] else f", is {labels[i]}")
        for i in chosen
    ]
    return [*lines, "  ".join(f"{s:^{width}}" for s in says)]


def timings(net: CompiledModel, images: Any) -> tuple[float, float]:
    """Seconds for one image (a bound call), and per image for all of them."""
    return best_time(net.bind(images[:1])), best_time(net.bind(images)) / len(images)


def best_time(call: Any, seconds: float = 0.1) -> float:
    """Median seconds of a call over about `seconds`, after a warm-up."""
    for _ in range(10):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def plan_table(net: CompiledModel) -> list[str]:
    """The steps with the model's operations that each one computes."""
    lines = []
    for number, step in enumerate(net.plan.kernel_steps(), 1):
        lines.append(f"  {number}  {step.spec.family:<11}  {' + '.join(step.sources)}")
    for step in net.plan.host_steps():
        lines.append(f"  -  in Python    {step.name}: {step.reason}")
    return lines
