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
from irc_compiler.ir import input_check
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import MemoryLimitError
from irc_compiler.ir.limits.interruptible import (
    MIN_INTERRUPTIBLE_BYTES,
    InterruptibleCall,
    call_interruptibly,
)
from irc_compiler.ir.limits.memory_budget import Budget, active_budget, use_budget
from irc_compiler.ir.limits.string_moves import STRING_MOVES
from onnx import helper

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "models" / "interrupted_call.py"
# Seconds in which both calls have to end. Uninterrupted, each takes longer than that.
BOUND = 50


# Cases with the steps of another one and one thread, or another caller.
REPEATED = {
    ("matmul", 1, "call"), ("conv", 1, "call"), ("small_steps", 1, "interpret"),
    ("small_steps", 1, "bound"), ("recurrent", 1, "call"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.extended(when=lambda p: (p["case"], p["threads"], p["how"]) in REPEATED)
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


@pytest.mark.slow
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


_TEXTS = np.array([f"text {n}" for n in range(5000)], object).reshape(50, 100)
_ROWS, _ONE = np.array([3, 0, -1]), np.array(1)
MOVES: dict[str, tuple[Any, list[Any]]] = {
    "Broadcast": (o.Broadcast(), [_TEXTS[:, None], np.array([50, 7, 100])]),
    "Concat": (o.Concat(1), [_TEXTS, _TEXTS[:, :3]]),
    "DepthToSpace": (o.DepthToSpace("blocks_first", 2), [_TEXTS.reshape(1, 4, 25, 50)]),
    "Gather": (o.Gather(), [_TEXTS, _ROWS, _ONE]),
    "Gather outside": (o.Gather(), [_TEXTS, np.array([3, 99999]), _ONE]),
    "GatherElements": (o.GatherElements(0), [_TEXTS, np.full((3, 100), 2)]),
    "GatherND": (o.GatherND(), [_TEXTS, np.array([[1, 2], [3, 4]])]),
    "Reverse": (o.Reverse(), [_TEXTS, np.array([0])]),
    "ReverseSequence": (o.ReverseSequence(0, 1), [_TEXTS, np.full(50, 7)]),
    "Roll": (o.Roll(), [_TEXTS, np.array([1]), np.array([0])]),
    "ScatterNDUpdate": (o.ScatterNDUpdate(), [_TEXTS, np.array([[1, 2]]), _TEXTS[0, :1]]),
    "ScatterUpdate": (o.ScatterUpdate(), [_TEXTS, np.array([4]), _TEXTS[:1], np.array(0)]),
    "Select": (o.Select(), [_TEXTS != "text 7", _TEXTS, _TEXTS[:1]]),
    "Slice": (o.Slice(), [_TEXTS, np.array([9]), np.array([1]), np.array([-2]), np.array([0])]),
    "SliceScatter": (o.SliceScatter(),
                     [_TEXTS, _TEXTS[:1], np.array([4]), np.array([5]), _ONE[None]]),
    "SpaceToDepth": (o.SpaceToDepth("depth_first", 2), [_TEXTS.reshape(1, 2, 50, 50)]),
    "Split": (o.Split(2), [_TEXTS, _ONE]),
    "StridedSlice": (o.StridedSlice((0,), (0,)),
                     [_TEXTS, _ROWS[:1], np.array([40]), np.array([3])]),
    "Tile": (o.Tile(), [_TEXTS, np.array([2, 3])]),
    "Transpose": (o.Transpose(), [_TEXTS, np.array([1, 0])]),
    "VariadicSplit": (o.VariadicSplit(num_outputs=2), [_TEXTS, _ONE, np.array([1, -1])]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_strings_are_moved_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operation itself sees integers only; strings are picked block by block."""
    op, arrays = MOVES[name]
    want = op.evaluate(*op.slots(list(arrays), running=True))
    evaluate, kinds = type(op).evaluate, list[str]()

    def record(self: Any, *slots: Any) -> Any:
        for slot in slots:
            given = slot if isinstance(slot, tuple) else (slot,)
            kinds.extend(a.dtype.kind for a in given if a is not None)
        return evaluate(self, *slots)

    monkeypatch.setattr(type(op), "evaluate", record)
    monkeypatch.setattr(input_check, "MIN_STRINGS", 1)
    found = input_check.evaluate_bounded(op, list(arrays), "")
    assert kinds and "O" not in kinds
    for one, other in zip(found, want, strict=True):
        assert one.dtype == object and np.array_equal(one, other)


def test_every_kind_that_moves_strings_is_tried() -> None:
    assert {op.kind for op, _ in MOVES.values()} == STRING_MOVES


def test_moved_strings_are_charged() -> None:
    """A small model that asks for 2^40 references to one string."""
    one = np.array(["text"], object)
    with use_budget(Budget(1 << 20)), pytest.raises(MemoryLimitError):
        input_check.evaluate_bounded(o.Tile(), [one, np.array([1 << 40])], "here")


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
