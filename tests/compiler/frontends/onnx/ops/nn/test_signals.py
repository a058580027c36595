"""ONNX's STFT in all its forms against onnxruntime, and what it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.models import small
from support.models.oracles import run_onnxruntime, run_openvino

RNG = np.random.default_rng(4)
WINDOW = RNG.standard_normal(8).astype(np.float32)
ODD = RNG.standard_normal(7).astype(np.float32)
LENGTH = np.array(8)


def stft(
    shape: list[Any], window: Any = None, length: Any = None, step: int = 3, **attributes: Any
) -> onnx.ModelProto:
    given = {"x": (shape, np.float32), "step": np.array(step), "window": window, "length": length}
    return small.op_model("STFT", given, 1, 17, check=False, **attributes)


def signal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# The declared shape, window, length and step, whether onesided, and sizes.
CASES: dict[str, tuple[list[Any], Any, Any, int, int, list[tuple[int, ...]]]] = {
    "a matrix": ([2, 20], WINDOW, None, 3, 1, [(2, 20)]),
    "a column": (["B", "N", 1], WINDOW, LENGTH, 3, 1, [(2, 20, 1), (1, 8, 1), (0, 20, 1)]),
    "without a window": (["B", "N", 1], None, LENGTH, 5, 1, [(2, 21, 1)]),
    "a step beyond the frame": (["B", "N"], WINDOW, None, 30, 1, [(2, 21), (2, 38), (1, 8)]),
    "both sides": (["B", "N", 1], WINDOW, LENGTH, 3, 0, [(2, 20, 1), (0, 20, 1)]),
    "both sides of an odd frame": (["B", "N", 1], ODD, None, 3, 0, [(2, 20, 1)]),
    "both sides of two samples": (["B", "N"], ODD[:2], None, 1, 0, [(2, 20)]),
    "both sides of a sample": (["B", "N"], ODD[:1], None, 1, 0, [(2, 20)]),
    "complex": (["B", "N", 2], WINDOW, None, 3, 0, [(2, 20, 2), (1, 8, 2)]),
    "complex, without a window": ([2, 20, 2], None, np.array(7), 2, 0, [(2, 20, 2)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_onnxruntime(name: str, tmp_path: Path) -> None:
    shape, window, length, step, onesided, sizes = CASES[name]
    model = stft(shape, window, length, step, onesided=onesided)
    net = irc.compile_model(model)
    assert not net.plan.host_steps()
    irc.save_model(irc.read_model(model), tmp_path / "m.xml")
    again = irc.compile_model(tmp_path / "m.xml")
    for size in sizes:
        x = signal(*size)
        (want,) = run_onnxruntime(model, {"x": x}).values()
        (got,) = net([x])
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
        np.testing.assert_array_equal(again([x])[0], got)
        (theirs,) = run_openvino(tmp_path / "m.xml", {"x": x}).values()
        np.testing.assert_allclose(theirs, want, rtol=0, atol=2e-5)


def test_one_side_is_the_default() -> None:
    x = signal(1, 20)
    model = stft([1, 20], WINDOW)
    model.graph.output[0].type.tensor_type.ClearField("shape")  # onnx infers both sides
    want = irc.compile_model(stft([1, 20], WINDOW, onesided=1))([x])[0]
    np.testing.assert_array_equal(irc.compile_model(model)([x])[0], want)


def test_without_window_and_length_the_signal_is_one_frame() -> None:
    """onnxruntime fails here; the reference takes the signal for its frame."""
    model, x = stft(["B", 9, 1]), signal(2, 9, 1)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(irc.compile_model(model)([x])[0], want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ({"shape": [2, 20, 3]}, "a signal is \\[batch, samples, 1 or 2\\]"),
        ({"shape": [20]}, "a signal is \\[batch, samples, 1 or 2\\]"),
        ({"shape": [2, 20, 2]}, "a one-sided STFT takes real numbers"),
        ({"length": np.array(9)}, "a window is as long as a frame"),
        ({"step": 0}, "frame_step is 1 or more"),
        ({"shape": [2, 7, 1]}, "a frame is longer than the signal"),
    ],
)
def test_what_does_not_fit_is_refused(made: dict[str, Any], what: str) -> None:
    with pytest.raises(irc.Error, match=what):
        irc.read_model(stft(**{"shape": [2, 20, 1], "window": WINDOW, **made}))


def test_a_signal_that_is_too_short_when_it_comes() -> None:
    with pytest.raises(irc.Error, match="expected: .*8"):
        irc.compile_model(stft(["B", "N", 1], WINDOW))([signal(2, 7, 1)])
