"""Forked while another thread is inside a bound call or a request: the child uses them all the
same, as that thread is not there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from irc_compiler.runtime.driver.abi import CALL_BUSY
from irc_compiler.runtime.execution.native_segment import NativeSegment
from support.models.stateful import growing

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="not run: no fork here")

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
NETS = {
    "kernels": """
    net (float[N, 256] x) => (float[N, 256] y) {
        a = MatMul (x, w)
        b = Tanh (a)
        c = MatMul (b, w)
        y = Tanh (c)
    }""",
    # Addresses move from turn to turn: a fork in the middle leaves them moved.
    "loop": """
    net (float[64, 256] s, float[T, 64, 256] x) => (float[64, 256] last, float[T, 64, 256] all) {
        last, all = Scan <num_scan_inputs = 1, body = step (float[64, 256] t, float[64, 256] u)
            => (float[64, 256] next, float[64, 256] kept) {
            m = MatMul (t, w)
            a = Add (m, u)
            next = Tanh (a)
            kept = Identity (next)
        }> (s, x)
    }""",
    # An operation that runs in Python stands behind the kernels.
    "python": """
    net (float[N, 256] x) => (int64[R, C] y) {
        a = MatMul (x, w)
        b = MatMul (a, w)
        c = Relu (b)
        y = NonZero (c)
    }""",
}


def bound(name: str) -> irc.BoundCall:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(HEAD + NETS[name])
    w = rng.standard_normal((256, 256)).astype(np.float32) / 16
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    net = irc.compile_model(model, num_threads=1)
    x = rng.standard_normal((300, 64, 256)).astype(np.float32)
    return net.bind([x[0], x] if name == "loop" else [x.reshape(-1, 256)[:10_000]])


def is_inside(call: Any) -> bool:
    segments = [s for i in list(call._context.instances.values()) for s in i.segments]
    return any(isinstance(s, NativeSegment) and s.call[CALL_BUSY] for s in segments)


def in_child(check: Callable[[], int]) -> int:
    """The exit code of a child of this process that runs `check`; 1 for any error there."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        code = 1
        with contextlib.suppress(BaseException):
            code = check()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_a_bound_call_that_runs_at_the_fork(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, stop, inside = bound(name), threading.Event(), list[bool]()
    freed = irc.BoundCall.after_fork

    def note(mine: irc.BoundCall) -> None:
        inside.append(is_inside(mine))
        freed(mine)

    monkeypatch.setattr(irc.BoundCall, "after_fork", note)
    wanted = [np.array(y) for y in call()]

    def keep_busy() -> None:
        while not stop.is_set():
            call()

    def check() -> int:
        return 0 if all((y == w).all() for y, w in zip(call(), wanted, strict=True)) else 2

    def check_inside() -> int:
        return check() or (0 if any(inside) else 3)

    other = threading.Thread(target=keep_busy)
    other.start()
    codes: list[int] = []
    try:
        while len(codes) < 50 and codes.count(0) < 3:
            while not is_inside(call):
                time.sleep(0.0001)
            time.sleep(0.002)
            codes.append(in_child(check_inside))
    finally:
        stop.set()
        other.join()
    # 3: the call was over when the fork came.
    assert codes.count(0) == 3 and set(codes) <= {0, 3}, codes
    assert check() == 0


def test_a_request_that_runs_at_the_fork(tmp_path: Path) -> None:
    """Its variables have the values from before that run."""
    request = irc.compile_model(growing(tmp_path / "m.xml")).create_infer_request()
    row = np.ones((1, 4), np.float32)
    assert request(row)["total"].tolist() == [6] * 4
    with request._exclusive_state():
        assert in_child(lambda: 0 if request(row)["total"].tolist() == [7] * 4 else 2) == 0
    assert request(row)["total"].tolist() == [7] * 4
