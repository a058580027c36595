"""The native driver: order, status, floating-point mode, busy calls, the interpreter lock."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.driver import abi as words
from irc_compiler.runtime.driver.codegen_run import driver_text
from irc_compiler.runtime.driver.loader import load_driver
from irc_compiler.runtime.execution.session import Session
from irc_compiler.runtime.jit.llvm import emit_object
from support.tiny_plans import TARGET, Maker, chain, chain_answer, data, i64

FLUSH = 0x9FC0  # MXCSR with flush-to-zero and denormals-are-zero
ROUND_UP = 0x5F80
x86 = pytest.mark.skipif(TARGET.arch != "x86_64", reason="not run: no MXCSR here")


def test_it_is_loaded_once() -> None:
    assert load_driver() is load_driver()


@pytest.mark.slow
def test_the_text_compiles_for_the_other_architecture() -> None:
    assert emit_object(driver_text(generic_target("neon")), generic_target("neon"))


@x86
@pytest.mark.parametrize("mode", [FLUSH, ROUND_UP, 0x1F80, 0x1FA0])
@pytest.mark.parametrize("n", [100, 40_000])
def test_the_callers_floating_point_mode_is_kept_and_not_used(mode: int, n: int) -> None:
    driver = load_driver()
    m = Maker()
    a, b = m.input(), m.input()
    m.op("mul", m.op("mul", a, b), b, output=True)
    session = Session(m.compile(), num_threads=2, share_work=0, wake_work=0)
    tiny = np.full(n, 1e-30, np.float32)
    small = np.full(n, 1e-9, np.float32)
    x = np.full(n, 1 + 2**-23, np.float32)
    third = np.full(n, 1 / 3, np.float32)
    want_denormal, want_rounded = tiny * small * np.float32(1), x * third * third
    ones = np.ones(n, np.float32)
    old = driver.swap_mode(mode)
    try:
        rounded = session.run([x, third])[0]
        flushed = session.run([tiny, small])[0]
        denormal = session.run([(small, ones)[0] * 0 + want_denormal, ones])[0]
        now = driver.swap_mode(mode)
    finally:
        driver.swap_mode(old)
    assert now & ~0x3F == mode & ~0x3F
    assert (rounded == want_rounded).all()
    assert (flushed == 0).all()  # 1e-48 is below the smallest denormal
    if mode != FLUSH:  # else NumPy itself has flushed the input
        assert (denormal == want_denormal).all() and want_denormal[0] != 0


@x86
def test_sticky_flags_do_not_leak_out() -> None:
    driver = load_driver()
    session = Session(chain().compile(), num_threads=1)
    a = np.full(10, 1 / 3, np.float32)  # inexact in every operation
    call = session.bind([a, a])
    old = driver.swap_mode(0x1F80)
    call()
    assert driver.swap_mode(old) == 0x1F80


@pytest.mark.aarch64
def test_denormals_are_computed_under_a_flushing_caller() -> None:
    driver = load_driver()
    session = Session(chain(length=1).compile(), num_threads=1)
    smallest = np.full(5, 2, np.int32).view(np.float32)
    call = session.bind([smallest, smallest])
    old = driver.swap_mode(FLUSH)
    try:
        out = call()[0]
    finally:
        driver.swap_mode(old)
    assert (out.view(np.int32) == 4).all()


def table(kernels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(call, steps) of bare kernels without buffers."""
    steps = np.zeros((len(kernels), words.STEP_WORDS), np.int64)
    steps[:, 0] = kernels
    call = np.zeros(words.CALL_WORDS, np.int64)
    call[words.CALL_STEPS] = steps.ctypes.data
    call[words.CALL_COUNT], call[words.CALL_PARTS] = len(kernels), 1
    return call, steps


KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_void_p,
)


@pytest.mark.aarch64
def test_steps_run_in_order_and_stop_at_a_status() -> None:
    seen: list[int] = []

    def kernel(number: int, status: int = 0) -> ctypes._CFuncPtr:
        def run(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
            assert (worker, workers) == (0, 1)
            seen.append(number)
            return status

        return KERNEL(run)

    functions = [kernel(0), kernel(1), kernel(2, 7), kernel(3)]
    call, steps = table([ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions])
    assert load_driver().run(call.ctypes.data) == 7
    assert seen == [0, 1, 2]
    assert (call[words.CALL_STATUS], call[words.CALL_STEP], call[words.CALL_PART]) == (7, 2, 0)
    assert call[words.CALL_BUSY] == 0
    call[words.CALL_COUNT] = 0
    assert load_driver().run(call.ctypes.data) == 0 and len(seen) == 3
    del steps


def test_a_call_that_runs_elsewhere_is_refused() -> None:
    inside, go = threading.Event(), threading.Event()

    def wait(*_: object) -> int:
        inside.set()
        go.wait(10)
        return 0

    function = KERNEL(wait)
    call, steps = table([ctypes.cast(function, ctypes.c_void_p).value or 0])
    thread = threading.Thread(target=load_driver().run, args=(call.ctypes.data,))
    thread.start()
    assert inside.wait(10)
    assert load_driver().run(call.ctypes.data) == words.BUSY
    go.set()
    thread.join()
    assert load_driver().run(call.ctypes.data) == 0
    del steps


def test_a_busy_bound_call_says_what_to_do() -> None:
    call = Session(chain().compile(), num_threads=1).bind(list(data(5)))
    call._segment.call[words.CALL_BUSY] = 1
    with pytest.raises(ExecutionError, match="another thread"):
        call()
    call._segment.call[words.CALL_BUSY] = 0
    assert (call()[0] == chain_answer(*data(5))).all()


@pytest.mark.slow
def test_long_calls_let_other_python_threads_run() -> None:
    session = Session(chain(length=200).compile(), num_threads=1)
    a, b = np.ones(500_000, np.float32), np.zeros(500_000, np.float32)
    call = session.bind([a, b])
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    most = 0
    for _ in range(20):  # the other thread may have to wait for a processor
        before = ticks[0]
        call()
        most = max(most, ticks[0] - before)
    stop.set()
    thread.join()
    assert most > 3


def test_the_failing_step_is_named_in_a_table_with_host_steps() -> None:
    from support.tiny_plans import FUNCTIONS

    FUNCTIONS["same"] = lambda x: (x,)
    m = Maker()
    a, index = m.input(), m.input(i64)
    b = m.host("same", m.op("add", a, a))
    c = m.op("add", b, a)
    d = m.pick(c, index)
    m.op("add", d, d, output=True)
    session = Session(m.compile(), num_threads=1)
    x, i = np.ones(4, np.float32), np.array([0, 1, -1, 9])
    with pytest.raises(ExecutionError) as e:
        session.run([x, i])
    assert "step 3, pick" in str(e.value) and "element 2" in str(e.value)
