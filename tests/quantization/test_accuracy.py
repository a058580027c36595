"""Errors by layer, the search for layers that return to float, times and the page."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.quantization.accuracy import LayerResult, measure_metric, sqnr
from irc_compiler.quantization.html_report import render_report
from irc_compiler.quantization.timing import Times
from support.quantization import nets


def test_sqnr_in_decibels() -> None:
    wanted = np.array([3.0, 4.0])
    assert sqnr([wanted], [wanted]) == 200
    assert sqnr([wanted + [0.5, 0]], [wanted]) == pytest.approx(20)
    assert sqnr([wanted, wanted * 1.1], [wanted, wanted]) == pytest.approx(20)


@pytest.fixture(scope="module")
def fragile() -> tuple[onnx.ModelProto, nets.Batches]:
    """A net whose first product reads an activation with a range that 8 bits do not resolve: one
    channel is 200 times as large as the others, and its weights are as much smaller."""
    model, data = nets.mlp()
    weight = next(t for t in model.graph.initializer if t.name == "w1")
    array = onnx.numpy_helper.to_array(weight).copy()
    array[5] /= 200
    weight.CopyFrom(onnx.numpy_helper.from_array(array, "w1"))
    factor = np.where(np.arange(64) == 5, np.float32(200), np.float32(1))
    return model, [{"x": batch["x"] * factor} for batch in data]


def relative_error(model: onnx.ModelProto, data: nets.Batches) -> Any:
    wanted = irc.compile_model(model)(data[0])[0]

    def metric(run: Any) -> float:
        return -float(np.abs(run(data[0])[0] - wanted).max() / np.abs(wanted).max())

    return metric


@pytest.mark.slow
def test_worst_layers_return_to_float_until_the_metric_holds(
    fragile: tuple[onnx.ModelProto, nets.Batches],
) -> None:
    model, data = fragile
    metric = relative_error(model, data)
    whole = irc.quantize(model, data, metric=metric)
    assert whole.evaluation is not None and whole.evaluation.quantized_metric is not None
    assert len(whole.quantized_layers) == 4 and whole.evaluation.float_metric == 0
    drop = -whole.evaluation.quantized_metric / 3
    made = irc.quantize(model, data, metric=metric, max_drop=drop, analyze=True)
    found = made.evaluation
    assert found is not None and found.quantized_metric is not None
    assert found.quantized_metric >= -drop
    assert 0 < len(made.quantized_layers) < 4
    assert metric(irc.compile_model(made.model)) == found.quantized_metric
    # The layers that went back have the largest errors, and the page shows it.
    errors = {r.name: r.sqnr for r in found.layers}
    gone = {r.name for r in found.layers if r.verdict.startswith("float")}
    assert gone == set(errors) - set(made.quantized_layers)
    assert max(errors[n] for n in gone) <= min(errors[n] for n in made.quantized_layers)
    assert render_report(made, "m.onnx").count("float: the metric falls too far") == len(gone)


@pytest.mark.slow
def test_a_drop_that_nothing_reaches_leaves_the_float_model(
    fragile: tuple[onnx.ModelProto, nets.Batches],
) -> None:
    model, data = fragile
    made = irc.quantize(model, data, metric=relative_error(model, data), max_drop=0.0)
    assert made.quantized_layers == []
    wanted, found = irc.compile_model(model)(data[1])[0], irc.compile_model(made.model)(data[1])[0]
    assert wanted.tobytes() == found.tobytes()


@pytest.mark.slow
def test_errors_and_times_of_each_layer() -> None:
    model, data = nets.convnet()
    made = irc.quantize(model, data, analyze=True)
    found = made.evaluation
    assert found is not None and found.times is not None
    assert [r.name for r in found.layers] == [layer.name for layer in made.layers]
    assert all(15 < r.sqnr < 100 for r in found.layers)
    assert all(r.float_us and r.quantized_us for r in found.layers)
    assert found.times.float_us > 0 and found.times.quantized_us > 0
    assert 0 < found.times.depthwise_share < 1


def test_metrics_that_fail() -> None:
    with pytest.raises(irc.Error, match="the metric raises an error"):
        measure_metric(lambda run: 1 / 0, lambda x: x)
    with pytest.raises(irc.Error, match="the metric is not finite"):
        measure_metric(lambda run: float("inf"), lambda x: x)
    assert measure_metric(lambda run: np.float32(0.5), lambda x: x) == 0.5


@pytest.mark.parametrize(
    ("other", "depthwise", "words"),
    [
        (0.1, 0.82, "82% of the float time is depthwise convolutions"),
        (0.7, 0.1, "70% of the float time is operations that stay float"),
        (0.1, 0.1, "8 bits do not help this model on this machine"),
    ],
)
def test_no_gain_has_a_reason(other: float, depthwise: float, words: str) -> None:
    lines = Times(100.0, 99.0, {}, other, depthwise).describe()
    assert lines[1].endswith(words) and "1.01 times as fast" in lines[0]
    assert len(Times(100.0, 40.0, {}, other, depthwise).describe()) == 1


def test_the_page_escapes_names() -> None:
    model, _ = nets.mlp()
    made = irc.quantize(model, weights="int4")
    row = LayerResult("<b>&", "MatMul", (2, 3), 12.34, None, 5.0, "int4")
    from irc_compiler.quantization.accuracy import Evaluation

    made.evaluation = Evaluation(made.plan, [row])
    page = render_report(made, "<script>.onnx")
    assert "<b>&" not in page and "<script>" not in page
    assert "&lt;b&gt;&amp;" in page and "12.3" in page and "[2, 3]" in page
