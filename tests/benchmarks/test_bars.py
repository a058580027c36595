"""What a benchmark of products promises: its bars, who is compared, how turns are taken, verdicts.

No time of this machine is looked at: engines and clocks are made up.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Group: (the least geometric mean of ratios, the least ratio of a row, peers, names of its rows).
ALL = ("onnxruntime", "openvino", "numpy")
BARS = {
    "f32": (1.12, 1.0, ALL, "64x768x3072 128x768x768 256x1024x1024 512x512x512 1024x1024x1024 "
            "2048x2048x2048"),
    "odd": (1.15, 1.0, ALL, "13x257x511 100x300x77 33x1000x65 200x147x64"),
    "skinny": (1.1, 0.97, ALL, "1x1024x1000 1x4096x4096 8x1024x1024 10x1024x1000 1000x1024x1"),
    "batched": (1.3, 1.0, ALL, "12x(128x64x128) 96x(32x64x32,B^T) 64x(16x16x16)"),
    "bf16": (1.5, 1.2, ("openvino",), "64x768x3072 128x768x768 256x1024x1024 1024x1024x1024 "
             "2048x2048x2048"),
    "chain": (1.3, 1.3, ("openvino",), "16of128x768x768"),
    "int8": (1.5, 1.2, ("onnxruntime", "openvino"), "64x768x3072 128x768x768 1024x1024x1024"),
    "weight-only": (1.3, 1.0, ("onnxruntime", "openvino"), "1x4096x4096int8 "
                    "1x4096x4096int4by128 16x4096x4096int8 16x4096x4096int4by128"),
    "f64": (1.1, 1.0, ("numpy",), "256x256x256 1024x1024x1024"),
}  # fmt: skip


@pytest.fixture
def gemm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import gemm

    return gemm


def test_the_bars(gemm: Any) -> None:
    found = {
        name: (g.ratio, g.floor, g.peers, " ".join(w.name.replace(" ", "") for w in g.works))
        for name, g in gemm.GROUPS.items()
    }
    assert found == BARS
    streams = [name for name, g in gemm.GROUPS.items() if g.streams]
    assert streams == ["skinny", "weight-only"] and gemm.ENOUGH == 0.9


def test_reference_engines_take_turns_and_medians_count(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn begins when all threads sleep. One slow call in three does not move a median."""
    from benchmarks.measurement import timing

    now, log = [0.0], list[str]()

    def engine(name: str, *seconds: float) -> Callable[[], None]:
        lasts = itertools.cycle(seconds)

        def run() -> None:
            log.append(name)
            now[0] += next(lasts)

        return run

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(timing, "wait_until_idle", lambda: log.append("settled"))
    engines = {"a": engine("a", 1, 1, 100), "b": engine("b", 2), "c": engine("c", 3)}
    times = timing.alternate(engines, seconds=6000, rounds=5)
    turns = [name for name, _ in itertools.groupby(log)]
    assert turns == ["a", "b", "c", *["settled", "a", "settled", "b", "settled", "c"] * 5]
    assert [times[n].median for n in "abc"] == [1, 2, 3]
    assert times["a"].best == 1 and min(t.calls for t in times.values()) >= 5


@pytest.mark.parametrize(
    "ratio, peak, bandwidth, reached",
    [
        (1.12, 0.1, None, "ratio"), (1.11, 0.89, None, ""), (1.11, 0.9, None, "peak"),
        (1.0, 0.1, 0.9, "bandwidth"), (1.0, 0.1, 0.89, ""), (0.99, 0.95, None,
        "peak (below the floor)"), (0.99, 0.5, 0.5, ""),
    ],
)  # fmt: skip
def test_what_a_row_reaches(
    gemm: Any, ratio: float, peak: float, bandwidth: float | None, reached: str
) -> None:
    assert gemm.verdict(gemm.GROUPS["f32"], ratio, peak, bandwidth) == reached


def test_what_a_group_reaches(gemm: Any) -> None:
    """By its mean, or by each of its rows; never below the floor, nor without a peer."""
    group = gemm.GROUPS["f32"]

    def say(*rows: tuple[float, str], peers: tuple[str, ...] = ALL) -> str:
        void = ", ".join(gemm.missing(group, peers))
        made = [gemm.Row("f32", "s", 1, {}, 0.0, 0.0, None, r, holds, void) for r, holds in rows]
        return gemm.conclusion(group, made)

    assert "mean of the ratios 1.120, least 1.000" in say((1.0, ""), (1.2545, "ratio"))
    for rows, met in (
        ([(1.0, ""), (1.2545, "ratio")], True),
        ([(1.0, ""), (1.24, "ratio")], False),
        ([(1.0, "peak"), (1.01, "peak")], True),
        ([(0.99, "peak (below the floor)"), (2.0, "ratio")], False),
    ):
        assert ("NOT met" in say(*rows)) != met and " met)" in say(*rows)
    assert "(no verdict without numpy)" in say((2.0, "ratio"), peers=ALL[:2])


def measured(gemm: Any, monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, float]) -> Any:
    """(row, names that took turns) of a small product of which engines "take" so many seconds."""
    from benchmarks.measurement.timing import Times
    from benchmarks.peers import Peer

    turns: list[str] = []

    def engines(data: Any, *_: object) -> dict[str, Peer]:
        answer = data.answer.astype(np.float32)
        names = [n for n in seconds if n not in ("peak", "bandwidth")]
        return {n: Peer(n, lambda: None, lambda: [answer]) for n in names}

    def alternate(runs: Mapping[str, Any], **_: object) -> dict[str, Times]:
        turns.extend(runs)
        return {n: Times(seconds[n], seconds[n], 1) for n in runs}

    monkeypatch.setattr(gemm, "engines_of", engines)
    monkeypatch.setattr(gemm, "alternate", alternate)
    ((name, group),) = gemm.chosen("skinny:4x8x16", None)
    peers = [n for n in seconds if n not in ("irc", "peak", "bandwidth")]
    return gemm.Meter().measure(name, group, group.works[0], 1, peers, 0.1), turns


def test_the_fastest_peer_counts_and_defaults_do_not(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peak and the bandwidth take their turns among the engines of a row."""
    seconds = {"irc": 1.0, "onnxruntime": 3.0, "openvino": 1.5, "numpy": 2.0}
    seconds |= {"openvino defaults": 0.5, "peak": 1.0, "bandwidth": 1.0}
    row, turns = measured(gemm, monkeypatch, seconds)
    assert math.isclose(row.ratio, 1.5) and turns == list(seconds)
    assert row.seconds["openvino defaults"] == 0.5 and row.bandwidth is not None


def test_reference_engines_get_the_precision_and_the_threads(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO computes in bf16 where irc does, and in f32 where it does not; NumPy's threads."""
    monkeypatch.setattr(gemm, "irc_engine", lambda data, *more: more)
    monkeypatch.setattr(gemm, "numpy_layer", lambda inputs, weights, threads: (threads,))
    peers = {n: lambda model, inputs, *more: more for n in gemm.PEERS}
    monkeypatch.setattr(gemm, "PEERS", peers)
    data = SimpleNamespace(model=b"", forms={}, inputs={}, weights={})
    for name, group in gemm.GROUPS.items():
        hint = "bf16" if name in ("bf16", "chain") else "f32"
        found = gemm.engines_of(data, group, 2, ALL)
        wanted = {"irc": (2, group.precision), "onnxruntime": (2,), "openvino": (2, hint)}
        assert found == wanted | {"numpy": (2,)}


def test_irc_computes_in_the_precision_of_its_group(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import irc_compiler as irc

    given: list[dict[str, object]] = []
    net = SimpleNamespace(bind=lambda **inputs: lambda: [inputs["a"]])
    monkeypatch.setattr(irc, "compile_model", lambda model, **how: given.append(how) or net)
    data = SimpleNamespace(model=b"", inputs={"a": np.ones(3)})
    for precision in ("f32", "bf16", "f64", "int8"):
        assert gemm.irc_engine(data, 2, precision).outputs()[0].tolist() == [1, 1, 1]
    assert [how["precision"] for how in given] == ["f32", "bf16", "f32", "f32"]
    assert all(how["num_threads"] == 2 for how in given)


def test_rows_are_held_against_the_best_peak_of_the_run(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of the peak's loops counts, not its median, and for rows before it, too; of the
    bandwidth the best of a row's own."""
    from irc_compiler.runtime.machine import roofline as peak

    from benchmarks.measurement.timing import Times
    from benchmarks.peers import Peer

    loop = SimpleNamespace(flops=8e9, run=None)
    monkeypatch.setattr(peak, "Peak", lambda unit: loop)
    reading = SimpleNamespace(run=None, rate=lambda s: 1e9 / s)
    monkeypatch.setattr(peak, "Bandwidth", lambda size, threads: reading)

    def engines(data: Any, *_: object) -> dict[str, Peer]:
        answers: dict[str, np.ndarray] = dict.fromkeys(("irc", *ALL), data.answer)
        answers |= {"numpy": data.answer + wrong}
        return {n: Peer(n, lambda: None, lambda a=a: [a]) for n, a in answers.items()}

    def alternate(runs: Mapping[str, Any], **_: object) -> dict[str, Times]:
        loops = ("peak", "bandwidth")
        return {n: Times(5.0 if n in loops else 1e-6, best, 1) for n in runs}

    monkeypatch.setattr(gemm, "engines_of", engines)
    monkeypatch.setattr(gemm, "alternate", alternate)
    ((name, group),) = gemm.chosen("skinny:4x8x16", None)
    meter, rows, wrong, work = gemm.Meter(), [], 0.0, group.works[0]
    for best in (2.0, 1.0, 4.0):
        rows.append(meter.measure(name, group, work, 2, ALL, 0.1))
        read = 4 * (4 * 8 + 8 * 16 + 16) / (1e9 / best) / 1e-6
        assert math.isclose(rows[-1].bandwidth, read)
    for row in meter.checked(rows):
        assert math.isclose(row.peak, work.flops / 1e-6 / 8e9 / 2)
        assert row.holds == gemm.verdict(group, row.ratio, row.peak, row.bandwidth)
    wrong = 1.0
    with pytest.raises(SystemExit, match="numpy is wrong"):
        meter.measure(name, group, work, 2, ALL, 0.1)


@pytest.fixture
def asked(gemm: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int, list[str]]]:
    """What a command would measure: rows of it are made up, each 1.6 times as fast as peers."""
    found: list[tuple[str, str, int, list[str]]] = []

    class Made(gemm.Meter):
        def measure(self, name: str, group: Any, work: Any, threads: int, peers: Any, _: float):
            found.append((name, work.name, threads, list(peers)))
            self._best[group.peak] = 10.0
            seconds = {"irc": 1e-3} | dict.fromkeys(peers, 1.6e-3)
            void = ", ".join(gemm.missing(group, peers))
            return gemm.Row(name, work.name, threads, seconds, 1, 0, None, 1.6, "", void)

    monkeypatch.setattr(gemm, "Meter", Made)
    return found


def test_the_bare_command_is_the_whole_table(
    gemm: Any, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks.gemm"])
    assert gemm.main() == 0
    wanted = [
        (name, work.name, threads, [*g.peers, *["openvino defaults"] * ("openvino" in g.peers)])
        for name, g in gemm.GROUPS.items()
        for threads in (1, 2)
        for work in g.works
    ]
    assert asked == wanted


@pytest.mark.usefixtures("asked")
def test_a_row_without_a_peer_of_its_bar_holds_nothing(
    gemm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--work", "skinny:4x8x16", "--threads", "1", "--no-defaults"]
    for peers, end in ((ALL, "1.60  ratio"), (ALL[:2], "1.60  -")):
        chosen = [*words, "--against", ",".join(peers)]
        assert gemm.main(chosen) == 0
        assert capsys.readouterr().out.splitlines()[1].endswith(end)
        assert gemm.main([*chosen, "--json"]) == 0
        row = json.loads(capsys.readouterr().out)
        whole = peers == ALL
        assert (row["void"], row["holds"]) == (("", "ratio") if whole else ("numpy", ""))


@pytest.mark.usefixtures("asked")
def test_results_are_added_to_a_file(gemm: Any, tmp_path: Path) -> None:
    from benchmarks.measurement.result_files import Bar, read_results

    path = tmp_path / "results.json"
    for threads in ("1", "2"):
        words = ["--work", "f64:2x2x2", "--threads", threads, "--results", str(path)]
        assert gemm.main(words) == 0
    results = read_results(path)
    assert results.bars == (Bar("gemm f64", "f64", 1.1, 1.0),)
    found = [(r.name, r.engine, r.threads, r.median, r.ratio) for r in results.rows]
    assert found == [
        row
        for threads in (1, 2)
        for row in (
            ("2x2x2", "irc", threads, 1e-3, None),
            ("2x2x2", "numpy", threads, 1.6e-3, 1.6),
        )
    ]


def test_wrong_answers_are_not_timed(gemm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.peers import Peer

    for name, group in gemm.GROUPS.items():
        (_, small), = gemm.chosen(f"{name}:3x128x128", None)  # fmt: skip
        work = small.works[0]
        data = gemm.DATA[group.kind](work, group.precision)
        near = data.answer + 0.4 * data.tolerance * np.abs(data.answer).max()
        gemm.check(Peer("right", lambda: None, lambda near=near: [near]), work, data)
        far = data.answer.copy()
        far.flat[-1] += (2 * data.tolerance + 1e-9) * np.abs(data.answer).max()
        for wrong in (far, np.full_like(far, np.nan)):
            with pytest.raises(SystemExit, match="wrong is wrong"):
                gemm.check(Peer("wrong", lambda: None, lambda w=wrong: [w]), work, data)


def test_openvino_computes_in_the_precision_that_is_compared(
    gemm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openvino

    configs: dict[str, dict[str, object]] = {}

    class Core:
        def read_model(self, *_: object) -> None: ...

        def compile_model(self, _: object, __: str, config: dict[str, object]) -> None:
            configs[name] = config
            raise KeyError(name)

    monkeypatch.setattr(openvino, "Core", Core)
    for name, hint in (("openvino", "bf16"), ("openvino defaults", "bf16")):
        with pytest.raises(KeyError):
            gemm.PEERS[name](b"", {}, 2, hint)
    plain: dict[str, object] = {"INFERENCE_NUM_THREADS": 2, "NUM_STREAMS": 1}
    told = {"INFERENCE_PRECISION_HINT": "bf16", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    assert configs == {"openvino": plain | told, "openvino defaults": plain}
