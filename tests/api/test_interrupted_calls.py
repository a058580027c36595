"""Ctrl-C ends a call inside native code and inside NumPy.

Calls of other threads go on, and the model is usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import irc_compiler.ir.ops as o
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.limits.interruptible import (
    MIN_INTERRUPTIBLE_BYTES,
    InterruptibleCall,
    call_interruptibly,
)
from irc_compiler.ir.limits.memory_budget import Budget, active_budget, use_budget
from onnx import helper

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "models" / "interrupted_call.py"
# Seconds in which both calls have to end. Uninterrupted, each takes longer than that.
BOUND = 50


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="not run: sends SIGINT to a process")
@pytest.mark.parametrize(
    ("case", "threads", "how"),
    [
        ("matmul", 1, "call"),
        ("matmul", 2, "call"),
        ("matmul", 2, "bound"),
        ("integers", 1, "interpret"),
        ("conv", 1, "call"),
        ("small_steps", 1, "interpret"),
        ("conv", 2, "call"),
        ("elementwise", 2, "call"),
        ("small_steps", 1, "call"),
        ("small_steps", 1, "bound"),
        ("host_steps", 1, "call"),
        ("recurrent", 1, "call"),
        ("recurrent", 2, "call"),
    ],
)
def test_interrupt(case: str, threads: int, how: str) -> None:
    words = [sys.executable, str(PROGRAM), case, str(threads), how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            for _ in range(2):
                assert run.stdout.readline() == "running\n", run.communicate()[1]
                time.sleep(0.7)
                run.send_signal(signal.SIGINT)
            out, errors = run.communicate(timeout=BOUND)
        finally:
            run.kill()
    assert (out, run.returncode) == ("done\n", 0), errors


LONG = MIN_INTERRUPTIBLE_BYTES


def test_a_long_evaluation_is_the_same_call_elsewhere() -> None:
    """In a thread of its own it has the caller's budget, NumPy mode and errors."""
    with use_budget(Budget(12345)) as budget, np.errstate(divide="raise"):
        found = call_interruptibly(
            lambda: (threading.current_thread(), active_budget(), np.geterr()["divide"]), LONG
        )
        assert found[0] is not threading.current_thread()
        assert found[1:] == (budget, "raise")
        with pytest.raises(FloatingPointError):
            call_interruptibly(lambda: np.ones(1) / np.zeros(1), LONG)
    assert call_interruptibly(threading.current_thread, LONG - 1) is threading.main_thread()


def test_an_abandoned_evaluation_ends() -> None:
    started, ended = threading.Event(), threading.Event()

    def loop() -> None:
        started.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    call = InterruptibleCall(loop)
    call.start()
    assert started.wait(10)
    call.abandon()
    assert ended.wait(10)
    call.join(10)
    call.abandon()  # nothing is left to end


def test_strings_are_read_in_pieces() -> None:
    """No single call of NumPy, which would hold the interpreter's lock, sees a long array."""
    texts = np.array([str(n % 70_001) for n in range(140_000)], object)
    (numbers,) = o.Convert(DType.f32).evaluate(texts)
    assert np.array_equal(numbers, np.arange(140_000) % 70_001)
    (equal,) = o.Equal().evaluate(texts, np.array("5", object))
    assert equal.sum() == 2 and equal[5] and equal[70_006]
    for ordered in (True, False):
        values, first, inverse, counts = o.Unique(ordered).evaluate(texts)
        wanted = sorted(set(texts)) if ordered else list(dict.fromkeys(texts))
        assert values.tolist() == wanted
        assert np.array_equal(values[inverse], texts) and (counts >= 1).all()
        assert np.array_equal(texts[first], values) and counts.sum() == texts.size


def test_a_host_step_is_interruptible(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    transform = o.DFT.transform

    def record(self: o.DFT, *arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return transform(self, *arguments)

    monkeypatch.setattr(o.DFT, "transform", record)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("DFT", ["x"], ["y"])],
        "transform",
        [value("x", 1, [1, "n", 1])],
        [value("y", 1, None)],
    )
    opset = helper.make_opsetid("", 18)
    net = irc.compile_model(helper.make_model(graph, opset_imports=[opset], ir_version=9))
    net({"x": np.ones((1, 8, 1), np.float32)})
    net({"x": np.ones((1, 1 << 18, 1), np.float32)})
    assert threads[0] is threading.main_thread() and threads[1] is not threads[0]
