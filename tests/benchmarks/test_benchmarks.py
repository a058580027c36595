"""The commands that docs name, each on a small part of its work: they run, check and report.

Timings are never asserted here. A command that docs name and this table lacks fails a test.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS_TORCH = {
    *("benchmarks.compile", "benchmarks.models", "benchmarks.memory", "benchmarks.tokens"),
    "benchmarks.f16_models",
}
# Module -> a short run of it, and what its report must say.
SHORT: dict[str, tuple[list[str], str]] = {
    "benchmarks.gemm": (
        [
            "--against",
            "onnxruntime,openvino",
            "--work",
            "odd:13x257x511",
            "--threads",
            "1",
            "--seconds",
            "0.1",
        ],
        r"13x257x511 +1 .*geometric mean of the ratios",
    ),
    "benchmarks.serve": (
        ["--model", "copy64k", "--server", "irc", "--clients", "2", "--seconds", "0.5"],
        r"copy64k +irc +2 clients .* 0 wrong or lost",
    ),
    "benchmarks.coverage": (["--kind", "node", "--only", "gemm"], r"node +11 +11 +100.0%"),
    "benchmarks.interop": (["write", "--only", "test_gemm_d"], r"\d+ of \d+"),
    "benchmarks.f16_models": (
        ["--only", "mlp-small", "--seconds", "0.1"],
        r"mlp-small .*f16 models that take more than .*: (met|NOT met)",
    ),
    "benchmarks.compile": (
        ["--only", "mlp-small", "--rounds", "1"],
        r"mlp-small .*cold: openvino's time over irc's .*longest cold compile .*(met|NOT met)",
    ),
    "benchmarks.operations": ([], r"MatMul"),
    "benchmarks.kernels": (["--zoo", "none"], r"gemm +\d+ .*above the bar of 120 ms: \d+"),
    "benchmarks.memory": (["--only", "mlp-small"], r"mlp-small +\d"),
    "benchmarks.scaling": (
        ["--shape", "chain,fan-in", "--nodes", "100,200"],
        r"chain +203 nodes .*fan-in +201 nodes .* 1 kernels\n.*fan-in: .* (met|NOT met)",
    ),
    "benchmarks.tokens": (
        ["--tokens", "4", "--texts", "1", "--threads", "1"],
        r"irc +1 .*openvino +1",
    ),
    "benchmarks.render": (["--check"], r"^$"),
    "benchmarks.trees": (
        ["--rows", "1", "--threads", "1", "--seconds", "0.05"],
        r"forest classifier, 1 rows .*boosting, 1 rows .* times",
    ),
    "benchmarks.models": (
        [
            "--against",
            "onnxruntime",
            "--threads",
            "1",
            "--only",
            "mlp-small",
            "--seconds",
            "0.1",
            "--steps",
        ],
        r"mlp-small .*f32: geometric mean of the ratios .* (met|NOT met)\n"
        r"f32: . of 1 rows have a ratio of 1.15 .* (met|NOT met)\n"
        r"steps outside native code: 0 \(bar 0\): met",
    ),
}


def named_in_docs() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return {
        module
        for page in pages
        for module in re.findall(r"python -m ([\w.]+)", page.read_text(encoding="utf-8"))
    }


def test_every_command_of_the_docs_is_here() -> None:
    assert {m for m in named_in_docs() if m.startswith("benchmarks")} <= set(SHORT)


@pytest.mark.slow
@pytest.mark.extended(when=lambda params: params["module"] == "benchmarks.kernels")  # a minute
@pytest.mark.parametrize("module", SHORT)
def test_short_run(module: str) -> None:
    if module in NEEDS_TORCH and importlib.util.find_spec("torch") is None:
        pytest.skip("not run: PyTorch (the extra `bench`) is not installed")
    if module == "benchmarks.serve" and importlib.util.find_spec("uvicorn") is None:
        pytest.skip("not run: the extra `serve` is not installed")
    words, report = SHORT[module]
    done = subprocess.run(
        [sys.executable, "-m", module, *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(report, done.stdout, re.S), done.stdout


def test_bars_are_held_against_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.models import Row, conclusions

    def row(
        model: str,
        ratio: float,
        host: int = 0,
        kind: str = "f32",
        warm: float = 0.5,
        peak: float = 0.9,
    ) -> Row:
        took, limits = {"cold": 2.0, "warm": warm, "openvino": 1.0}, {"peak": peak, "memory": 0.1}
        return Row(
            model, "", kind, 1, {"irc": 1.0}, ratio, 0.0, host, 3, 3, took, limits=limits
        )  # fmt: skip

    good = [row("a", 1.0), row("b", 1.9), row("c", 1.2, kind="int8"), row("d", 1.3, kind="bf16")]
    assert [s.endswith(": met") for s in conclusions(good)] == [True] * 8
    for bad, wrong in (
        (row("e", 0.99), 0), (row("e", 1.14, peak=0.89), 1), (row("e", 1.0, kind="bf16"), 2),
        (row("e", 1.1, kind="int8"), 4), (row("e", 1.9, host=2), 6), (row("e", 1.9, warm=1.1), 7),
    ):  # fmt: skip
        said = conclusions([*good, bad])
        assert [i for i, s in enumerate(said) if s.endswith("NOT met")] == [wrong], said
    assert "2 (bar 0; e)" in conclusions([row("e", 1.9, host=2)])[2]
    assert "1 of 2 rows" in (said := conclusions([row("e", 1.1), row("f", 1.1, peak=0.5)])[1])
    assert "(bar all; f, 1 thr.)" in said


def test_wrong_answers_are_infinitely_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    import numpy as np

    from benchmarks.models import largest_error

    right = np.float32([[1, -4], [2, 0]])
    assert largest_error([right], [right]) == 0
    assert largest_error([right + np.float32(0.5)], [right]) == 0.125
    for wrong in (right[:1], right.astype(np.float64), np.where(right == 2, np.nan, right)):
        assert largest_error([wrong.astype(wrong.dtype)], [right]) == float("inf")


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx512", "avx2", "plain"])
def test_products_of_any_size_take_few_lines(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes some 0.03 ms a line; the bar is 120 ms
    (docs/dev/tuning/llvm-passes.md)."""
    monkeypatch.syspath_prepend(ROOT)
    from irc_compiler.plan.target import generic_target
    from irc_compiler.runtime.kernels.kernel_table import generate

    from benchmarks.kernels import compressed_products, open_products

    target = generic_target(isa)  # type: ignore[arg-type]
    specs = (*open_products(), *compressed_products(target))
    lines = [(generate(s, target, "k").text.count("\n"), n) for n, s in specs]
    assert len(lines) == 48 + 20 and max(lines)[0] < 4000, max(lines)
