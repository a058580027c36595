"""benchmarks.compile on a product of two layers: every engine in a process of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module, whose models are all one small file."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import compile

    path = tmp_path / "tiny.onnx"
    weights = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [4, 16]), ("y", [4, 8]))
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "tiny", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    monkeypatch.setattr(compile, "model_path", lambda entry: path)
    return compile


def tiny_entry() -> Any:
    from benchmarks.workloads.zoo import Entry

    def inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"x": rng.standard_normal((4, 16)).astype(np.float32)}

    return Entry("tiny", "mlp", lambda: None, inputs)


@pytest.mark.slow
def test_every_kind_of_compile_is_timed_and_written_as_rows(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    best, error = benchmark.measure(tiny_entry(), 1, 1)
    assert list(best) == ["cold", "warm", "onnxruntime", "openvino"] and error < 1e-5
    assert all(b.start > 0 and b.seconds > 0 and b.cpu_seconds > 0 for b in best.values())
    # LLVM compiles for the cold one alone.
    assert best["warm"].cpu_seconds < best["cold"].cpu_seconds
    rows = benchmark.results(tiny_entry(), 1, best, error)
    assert [(r.suite, r.engine) for r in rows] == [
        (f"compile {kind}", engine)
        for kind in ("cold", "warm")
        for engine in ("irc", "onnxruntime", "openvino")
    ]
    for row in rows[1:3]:
        assert row.ratio == row.minimum / rows[0].minimum


@pytest.mark.slow
def test_wrong_answers_are_not_timed(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(benchmark, "largest_error", lambda found, wanted: 1.0)
    with pytest.raises(SystemExit, match="tiny is wrong: error 1.0e"):
        benchmark.measure(tiny_entry(), 1, 1)


def test_bars_are_held_against_every_model(benchmark: Any) -> None:
    def taken(**seconds: float) -> dict[str, Any]:
        one = benchmark.Taken(0.1, 1.0, 1.0, None)
        return {k: dataclasses.replace(one, seconds=s) for k, s in seconds.items()}

    good = {"a": taken(cold=0.5, warm=0.4, openvino=0.5), "b": taken(cold=1, warm=1, openvino=2)}
    assert [s.endswith(": met") for s in benchmark.conclusions(good)] == [True] * 3
    for bad, wrong in (
        (taken(cold=1.1, warm=0.1, openvino=0.5), 0),
        (taken(cold=0.1, warm=0.6, openvino=0.5), 1),
        (taken(cold=1.3, warm=0.1, openvino=1.2), 2),
    ):
        said = benchmark.conclusions({**good, "c": bad})
        assert [i for i, s in enumerate(said) if s.endswith("NOT met")] == [wrong], said
