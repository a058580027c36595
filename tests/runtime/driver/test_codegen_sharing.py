"""Steps in phases: parts that need all parts of the phase before, shared without waiting for
threads that sleep."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.plan.plan import KernelStep
from irc_compiler.plan.specs.recurrent import RecurrentSpec
from irc_compiler.runtime.driver import abi as words
from irc_compiler.runtime.driver.loader import load_driver
from irc_compiler.runtime.driver.thread_pool import get_thread_pool
from irc_compiler.runtime.execution.session import Session
from support.models.recurrent_models import feeds, model

from tests.runtime.driver.test_codegen_run import KERNEL, table

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="not run: no futexes here")


def run(kernel: ctypes._CFuncPtr, parts: int, phases: int, *, team: bool = True) -> int:
    """The driver's status for one step in phases."""
    call, steps = table([ctypes.cast(kernel, ctypes.c_void_p).value or 0])
    own = parts << words.PARTS_SHIFT | phases << words.PHASES_SHIFT
    steps[:, 3] = words.SHARED | words.WAKE | own
    if team:
        g = get_thread_pool(load_driver())
        g.grow(parts - 1)
        # The step's own number of parts counts.
        call[words.CALL_PARTS], call[words.CALL_POOL], call[words.CALL_WAKE] = 2, g.address, 1
    return load_driver().run(call.ctypes.data)


@pytest.mark.aarch64
@linux
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_phase_begins_when_the_one_before_is_done(parts: int) -> None:
    began: list[tuple[int, int]] = []
    ended: set[tuple[int, int]] = set()
    wrong: list[object] = []
    rng = np.random.default_rng(parts)
    rests = rng.choice([0, 0, 0.002], (40, parts))

    def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        phase, part = worker // workers - 1, worker % workers
        began.append((phase, part))
        if workers != parts or any((phase - 1, p) not in ended for p in range(parts) if phase):
            wrong.append((worker, workers))
        time.sleep(rests[phase, part])
        ended.add((phase, part))
        return 0

    assert run(KERNEL(kernel), parts, 40) == 0
    assert not wrong
    assert sorted(began) == [(phase, part) for phase in range(40) for part in range(parts)]


@pytest.mark.aarch64
@linux
def test_threads_share_a_phase() -> None:
    """Each part of a phase waits until the other has begun."""
    barrier = threading.Barrier(2)

    def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        barrier.wait(20)
        return 0

    assert run(KERNEL(kernel), 2, 30) == 0


@linux
def test_no_call_waits_for_a_thread_that_does_not_come() -> None:
    """The caller runs all parts, phase by phase."""
    seen: list[int] = []

    def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        seen.append(worker)
        return 0

    # A block of our own has no workers, whatever it says.
    block = np.zeros(words.POOL_WORDS + 16, np.int64)
    empty = block[-block.ctypes.data // 8 % 16 :]
    empty[words.POOL_THREADS] = 3
    empty[words.POOL_CPU] = os.sched_getaffinity(0).pop()
    function = KERNEL(kernel)
    call, steps = table([ctypes.cast(function, ctypes.c_void_p).value or 0])
    steps[:, 3] = words.SHARED | 4 << words.PARTS_SHIFT | 6 << words.PHASES_SHIFT
    call[words.CALL_PARTS], call[words.CALL_POOL] = 4, empty.ctypes.data
    assert load_driver().run(call.ctypes.data) == 0
    assert seen == [(phase + 1) * 4 + part for phase in range(6) for part in range(4)]


def test_alone_a_kernel_is_called_once() -> None:
    seen: list[tuple[int, int]] = []

    def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        seen.append((worker, workers))
        return 0

    assert run(KERNEL(kernel), 2, 7, team=False) == 0
    assert seen == [(0, 1)]


@linux
def test_a_failure_in_a_phase_is_reported() -> None:
    def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        return 7 if worker == 3 * 3 + 1 else 0

    assert run(KERNEL(kernel), 3, 5) == 7


MODELS = {
    "lstm": model("LSTM", hidden=96),
    "gru": model("GRU", "reverse", hidden=80),
    "rnn": model("RNN", "bidirectional", lengths=True, hidden=70),
}


@pytest.mark.slow
@linux
@pytest.mark.parametrize("name", sorted(MODELS))
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    net = irc.compile_model(MODELS[name], num_threads=1)
    names = [p.name for p in net.plan.inputs]
    directions, hidden = next(
        (len(s.spec.reverse), s.spec.hidden)
        for s in net.plan.kernel_steps()
        if isinstance(s.spec, RecurrentSpec)
    )
    for time_, batch in ((17, 1), (1, 1), (5, 3)):
        given = list(feeds(names, directions, hidden, time_, batch).values())
        want = Session(net.program, num_threads=1).run(given)
        for threads in (2, 3, 4):
            session = Session(
                net.program, num_threads=threads, share_work=0, wake_work=0, meet_work=1
            )
            call = session.bind(given)
            for n in range(60):
                if n % 20 == 10:
                    time.sleep(0.003)  # until the workers sleep
                for a, b in zip(session.run(given), want, strict=True):
                    assert a.tobytes() == b.tobytes(), (threads, n)
                call()
                for a, b in zip(call.outputs, want, strict=True):
                    assert a.tobytes() == b.tobytes(), (threads, n)


def test_work_decides_how_many_share_a_phase() -> None:
    net = irc.compile_model(MODELS["lstm"], num_threads=1)
    steps = [s for s in net.plan.regions[0].steps if isinstance(s, KernelStep)]
    at = next(n for n, s in enumerate(steps) if isinstance(s.spec, RecurrentSpec))
    spec, names = steps[at].spec, [p.name for p in net.plan.inputs]
    assert isinstance(spec, RecurrentSpec)

    def flags(meet_work: int, batch: int = 1) -> int:
        session = Session(net.program, num_threads=4, share_work=1, meet_work=meet_work)
        shapes = tuple(a.shape for a in feeds(names, 1, 96, 9, batch).values())
        return int(session.regions.layout(0, shapes).flags[at]) & ~(words.WAKE | words.FLUSH)

    # 9 steps and the last states.
    work = 96 * 96 * 4 // (spec.packed.nr // 4)
    assert flags(1) == words.SHARED | 4 << words.PARTS_SHIFT | 10 << words.PHASES_SHIFT
    assert flags(work * 9 // 10 // 3) >> words.PARTS_SHIFT & words.PARTS_MASK == 3
    assert flags(work) == 0
    assert flags(work, batch=4) == words.SHARED
