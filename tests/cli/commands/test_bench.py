"""bench: figures from times that are known, turns, calls at the same time, engines that
disagree."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.commands import bench, compare
from irc_compiler.cli.main import main
from irc_compiler.cli.reference_engines import ENGINES, ReferenceEngine, Task

DIGITS = str(Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx")
Captured = pytest.CaptureFixture[str]


def test_figures() -> None:
    times = np.random.default_rng(0).permutation(np.arange(1, 102)) * 1e-6
    found = bench.row("e", 2, 3, list(times), 8, 0.5)
    assert found.min_us == pytest.approx(1) and found.median_us == pytest.approx(51)
    assert found.p90_us == pytest.approx(91) and found.p99_us == pytest.approx(100)
    # 3 calls of 8 items at the same time, each of 51 us on average.
    assert found.items_per_second == pytest.approx(3 * 8 / 51e-6)
    assert found.error == 0.5
    assert (found.engine, found.threads, found.requests, found.calls) == ("e", 2, 3, 101)


@pytest.mark.slow
def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(bench, "_block", lambda call: [call() or 1e-3])
    calls = [[lambda n=n: order.append(n)] for n in "ab"]
    taken = bench.take_turns(calls, 0.5)
    warm = ["a"] * 3 + ["b"] * 3
    assert order[:6] == warm and order[6:10] == ["a", "b", "a", "b"]
    assert [len(t) for t in taken] == [order.count(n) - 3 for n in "ab"]


def test_requests_run_at_the_same_time() -> None:
    """Each call, its warm-up done, waits once for the two others."""
    together = threading.Barrier(3)

    def made() -> Callable[[], None]:
        count = [0]

        def call() -> None:
            count[0] += 1
            if count[0] == 4:
                together.wait(timeout=30)

        return call

    engines = [[made() for _ in range(3)]]
    (taken,) = bench.take_turns(engines, 0)
    assert len(taken) >= 3 and not together.broken


@pytest.mark.slow
def test_every_request_is_a_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """irc's and the engines': as many as asked for, and none of them is another's."""
    seen: list[list[Callable[[], object]]] = []
    real = bench.take_turns

    def spy(engines: Any, seconds: float) -> Any:
        seen.extend(engines)
        return real(engines, seconds)

    monkeypatch.setattr(bench, "take_turns", spy)
    words = ["bench", DIGITS, "--requests", "3", "--seconds", "0"]
    assert main([*words, "--against", "onnxruntime,openvino", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["requests"] for row in rows] == [3, 3, 3]
    assert [len(set(calls)) for calls in seen] == [3, 3, 3]
    assert all(isinstance(call, irc.BoundCall) for call in seen[0][1:])


@pytest.mark.slow
def test_throughput_compares_items_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Of calls of 1 and 3 ms against calls of 4 ms: the means count, the medians do not."""
    asked: list[Task] = []

    def make(task: Task) -> ReferenceEngine:
        asked.append(task)
        wanted = run_irc(task.path, task.inputs)
        return ReferenceEngine("other", lambda: None, lambda: [wanted], lambda: lambda: None)

    monkeypatch.setitem(ENGINES, "openvino", make)
    monkeypatch.setattr(bench, "usable_cores", lambda: 3)
    monkeypatch.setattr(bench, "take_turns", lambda *_: [[1e-3, 1e-3, 4e-3], [4e-3, 4e-3, 4e-3]])
    words = ["bench", DIGITS, "--hint", "throughput", "--against", "openvino"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hint"] == "throughput"
    assert [row["ratio"] for row in found["rows"]] == [1, pytest.approx(2)]
    assert [(row["threads"], row["requests"]) for row in found["rows"]] == [(1, 3)] * 2
    assert asked[0].throughput and asked[0].threads == 1 and asked[0].requests == 3
    assert main(words) == 0
    assert "items a second of irc over the engine's" in capsys.readouterr().out


def test_throughput_takes_one_thread_a_call(capsys: Captured) -> None:
    assert main(["bench", DIGITS, "--hint", "throughput", "--threads", "2"]) == 2
    assert "have one thread each" in capsys.readouterr().err


def engine_class(seen: list[Any], answer: Callable[[Any], Any]) -> Callable[..., ReferenceEngine]:
    """An engine that says how it was made, and answers what it is told to."""

    def make(task: Task) -> ReferenceEngine:
        inputs = dict(task.inputs)
        seen.append((task.path.name, inputs, task.threads, task.precision, task.requests))
        wanted = run_irc(task.path, inputs)
        return ReferenceEngine(
            "other", lambda: None, lambda: [answer(wanted)], lambda: lambda: None
        )

    return make


def run_irc(path: Path, inputs: Any) -> Any:
    return irc.compile_model(path, num_threads=1)(inputs)[0]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16", "f16"])
def test_reference_engines_get_the_same_task(
    precision: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    made: list[Any] = []
    real, counts = bench.compile_model, list[Any]()

    def spy(*args: Any, **options: Any) -> Any:
        counts.append(options["num_threads"])
        return real(*args, **options)

    monkeypatch.setattr(bench, "compile_model", spy)
    monkeypatch.setitem(ENGINES, "openvino", engine_class(made, lambda y: y))
    words = ["bench", DIGITS, "--threads", "1,2", "--requests", "2", "--seconds", "0"]
    words += ["--precision", precision, "--against", "openvino"]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["engine"], r["threads"], r["requests"]) for r in rows] == [
        ("irc", 1, 2), ("other", 1, 2), ("irc", 2, 2), ("other", 2, 2)
    ]  # fmt: skip
    assert counts == [1, 2]
    assert [m[2:] for m in made] == [(1, precision, 2), (2, precision, 2)]
    assert all(
        name == "digits.onnx" and inputs["image"].shape == (1, 64) for name, inputs, *_ in made
    )
    assert main(words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split()[:3] == ["engine", "threads", "requests"]
    assert [line.split()[0] for line in shown[2:6]] == ["irc", "other"] * 2
    assert shown[0].startswith("sizes: N=1, chosen by irc; --shape and --input set others")


DISAGREE = {
    "a value": lambda y: y + 0.01,
    "a shape": lambda y: y[:, :3],
    "no number": lambda y: y * np.float32("nan"),
    "an infinity": lambda y: y / np.float32(0),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", DISAGREE)
@pytest.mark.parametrize("verb", ["bench", "compare"])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_answers_that_disagree(
    verb: str, how: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(ENGINES, "openvino", engine_class([], DISAGREE[how]))
    words = [verb, DIGITS, "--against", "openvino"]
    words += ["--seconds", "0"] if verb == "bench" else []
    assert main([*words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    if verb == "bench":
        wrong = found["rows"][1]["error"]
        assert found["rows"][0]["error"] == 0
        assert wrong > 1e-3 if how == "a value" else wrong == "inf"
    else:
        assert not found["equal"] and found["first_different"] == "probabilities"
    assert main(words) == 1
    assert ("different" in capsys.readouterr().out) == (verb == "compare")


def test_openvino_computes_in_the_precision_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left alone it takes bf16 where the machine has units for it."""
    from irc_compiler.cli import reference_engines as engines

    package = engines._package("openvino")
    asked: list[dict[str, Any]] = []
    real = package.Core.compile_model

    def spy(self: Any, model: Any, device: str, settings: dict[str, Any]) -> Any:
        asked.append(settings)
        return real(self, model, device, settings)

    monkeypatch.setattr(package.Core, "compile_model", spy)
    inputs = {"image": np.zeros((2, 64), np.float32)}
    engine = engines.openvino(Task(Path(DIGITS), inputs, 2, "f32", 3))
    others = [engine.another() for _ in range(2)]
    for run in (engine.run, *others):
        run()
    assert engine.outputs()[0].shape == (2, 10)
    (settings,) = asked
    assert settings["INFERENCE_PRECISION_HINT"] == "f32"
    assert settings["INFERENCE_NUM_THREADS"] == 6 and settings["NUM_STREAMS"] == 3


def test_onnxruntime_gets_its_threads_and_f32_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from irc_compiler.cli import reference_engines as engines

    package = engines._package("onnxruntime")
    asked: list[int] = []
    real = package.InferenceSession

    def spy(source: Any, options: Any, **more: Any) -> Any:
        asked.append(options.intra_op_num_threads)
        return real(source, options, **more)

    monkeypatch.setattr(package, "InferenceSession", spy)
    inputs = {"image": np.zeros((2, 64), np.float32)}
    engine = engines.onnxruntime(Task(Path(DIGITS), inputs, 2, "f32"))
    engine.run()
    assert engine.outputs()[0].shape == (2, 10) and asked == [2]
    with pytest.raises(irc.Error, match="precision"):
        engines.onnxruntime(Task(Path(DIGITS), inputs, 2, "bf16"))


def test_items_are_rows_of_the_first_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """And their rate is that of all calls, not of the median's alone."""
    monkeypatch.setattr(
        bench, "take_turns", lambda calls, seconds: [[1e-3, 1e-3, 4e-3]] * len(calls)
    )
    np.save(tmp_path / "x.npy", np.zeros((5, 64), np.float32))
    words = ["bench", DIGITS, "--input", f"image={tmp_path / 'x.npy'}", "--json"]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["items_per_second"] == pytest.approx(5 / 2e-3)


def test_the_table_has_every_figure_under_its_title() -> None:
    shown = bench.BenchRow("onnxruntime", 2, 3, 99, 1.25, 20.5, 300.5, 4000.5, 55555.0, 1.75, 2e-6)
    head, line, *meaning = bench.as_text([shown], [], bench.RATIO_MEANINGS["latency"])
    assert " ".join(meaning).startswith("ratio: median time over irc's")
    titles = ["threads", "requests", "min", "median", "p90", "p99", "items/s"]
    titles += ["ratio", "error"]
    ends = [head.index(t) + len(t) for t in titles]
    starts = [len("onnxruntime "), *ends]
    cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=False)]
    assert cells == [
        *("2", "3", "1.25 us", "20.5 us", "300 us", "4.00 ms", "55,555", "1.75", "2e-06")
    ]


def test_layers_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """In execution order, none of those before alive any more: their statistics are all that is
    kept."""
    import weakref

    real, seen = compare.difference, list[Any]()
    alive: list[int] = []

    def watch(name: str, got: Any, wanted: Any, rtol: float) -> compare.Difference:
        alive.append(sum(r() is not None for pair in seen for r in pair))
        seen.append((weakref.ref(got), weakref.ref(wanted)))
        return real(name, got, wanted, rtol)

    monkeypatch.setattr(compare, "difference", watch)
    assert main(["compare", DIGITS, "--layers", "--json"]) == 0
    names = [t["name"] for t in json.loads(capsys.readouterr().out)["tensors"]]
    assert names[:3] == ["Relu_hidden1", "Relu_hidden2", "Relu_hidden3"] and len(names) == 5
    # At most the pair before is still held, by the loop that hands them over.
    assert len(alive) == 5 and max(alive) <= 2
