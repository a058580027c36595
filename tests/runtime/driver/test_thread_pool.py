"""The pool: same bits for any number of threads, forks, exits, failures, busy pools."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from irc_compiler.ir.errors import ExecutionError, InputError
from irc_compiler.runtime.driver import abi as words
from irc_compiler.runtime.driver.loader import load_driver
from irc_compiler.runtime.driver.thread_pool import ThreadPool, default_threads, get_thread_pool
from irc_compiler.runtime.execution.session import Session
from support.tiny_plans import Maker, chain, chain_answer, data, i64

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="not run: no futexes here")
PROGRAM = chain(length=9).compile()


def team(threads: int, program=PROGRAM) -> Session:
    """Shares every step and wakes the workers each time."""
    return Session(program, num_threads=threads, share_work=0, wake_work=0)


@linux
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    session = team(threads)
    for n in (0, 1, 2, 3, 64, 1001, 100_003):
        rng = np.random.default_rng(n)
        a, b = rng.standard_normal((2, n)).astype(np.float32)
        want = Session(PROGRAM, num_threads=1).run([a, b])[0]
        call = session.bind([a, b])
        for _ in range(20):
            assert (session.run([a, b])[0] == want).all()
            assert (call()[0] == want).all()
    if threads > 1:
        assert get_thread_pool(load_driver()).size >= threads - 1


@pytest.mark.aarch64
@linux
def test_workers_take_part() -> None:
    """The kernel that is handed the other part runs while the first one waits for it."""
    import ctypes

    from tests.runtime.driver.test_codegen_run import KERNEL, table

    arrived = [threading.Event(), threading.Event()]
    names: dict[int, int] = {}

    def meet(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
        names[worker] = threading.get_ident()
        arrived[worker].set()
        return 0 if workers == 2 and arrived[1 - worker].wait(20) else 9

    function = KERNEL(meet)
    call, steps = table([ctypes.cast(function, ctypes.c_void_p).value or 0])
    steps[:, 3] = words.SHARED | words.WAKE
    g = get_thread_pool(load_driver())
    g.grow(1)
    call[words.CALL_PARTS], call[words.CALL_POOL], call[words.CALL_WAKE] = 2, g.address, 1
    assert load_driver().run(call.ctypes.data) == 0
    assert len(set(names.values())) == 2


@pytest.mark.slow
@linux
def test_the_pool_starts_only_when_wanted() -> None:
    code = """
        import sys, threading
        sys.path.insert(0, sys.argv[1])
        from support.tiny_plans import chain, data
        from irc_compiler.runtime.execution.session import Session
        s = Session(chain().compile(), num_threads=2)
        a, b = data(100)
        s.run([a, b])
        assert threading.active_count() == 1
        s = Session(s.program, num_threads=2, share_work=0, wake_work=0)
        s.run([a, b])
        assert threading.active_count() == 2
    """
    run_python(code)


@pytest.mark.slow
@linux
def test_short_calls_in_a_row_start_the_pool_and_single_ones_do_not() -> None:
    code = """
        import sys, threading, time
        sys.path.insert(0, sys.argv[1])
        from support.tiny_plans import chain, chain_answer, data
        from irc_compiler.runtime.execution.session import Session
        s = Session(chain().compile(), num_threads=2, share_work=0, wake_work=1 << 60)
        a, b = data(30_000)
        call = s.bind([a, b])
        for _ in range(40):
            call()
            time.sleep(0.001)
        assert threading.active_count() == 1
        end = time.monotonic() + 300
        while threading.active_count() == 1 and time.monotonic() < end:
            call()
        assert threading.active_count() == 2
        for _ in range(100):
            assert (call()[0] == chain_answer(a, b)).all()
    """
    run_python(code)


def run_python(code: str, expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(Path(__file__).resolve().parents[2])],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@linux
@pytest.mark.parametrize("warm", [False, True])
def test_a_forked_child_runs_with_a_pool_of_its_own(warm: bool) -> None:
    session = team(2)
    a, b = data(5000)
    want = chain_answer(a, b, 9)
    call = session.bind([a, b])
    if warm:
        assert (session.run([a, b])[0] == want).all()
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            team_session.run([a, b])

    team_session = team(2)
    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    good = all((session.run([a, b])[0] == want).all() for _ in range(30))
                    good = good and (call()[0] == want).all()
                    good = good and get_thread_pool(load_driver()).size == 1
                    good = good and (team(3).run([a, b])[0] == want).all()
                    chain(length=2).compile()  # locks that another thread held are free
                    code = 0 if good else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        other.join()


@pytest.mark.slow
@linux
def test_exit_joins_the_workers() -> None:
    code = """
        import sys, atexit
        sys.path.insert(0, sys.argv[1])
        from support.tiny_plans import chain, chain_answer, data
        from irc_compiler.runtime.execution.session import Session
        a, b = data(1000)
        session = Session(chain().compile(), num_threads=3, share_work=0, wake_work=0)
        def late():  # registered first, so it runs after the pool has gone
            assert (session.run([a, b])[0] == chain_answer(a, b)).all()
            print("late is well")
        atexit.register(late)
        for _ in range(100):
            session.run([a, b])
    """
    assert "late is well" in run_python(code)


@pytest.mark.slow
@linux
def test_exit_while_another_thread_runs() -> None:
    code = """
        import sys, threading, time
        sys.path.insert(0, sys.argv[1])
        from support.tiny_plans import chain, data
        from irc_compiler.runtime.execution.session import Session
        a, b = data(200_000)
        session = Session(chain().compile(), num_threads=2, share_work=0, wake_work=0)
        def forever():
            while True:
                session.run([a, b])
        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.2)
    """
    run_python(code)


@linux
def test_a_failure_in_any_part_is_the_same_error() -> None:
    m = Maker()
    x = m.input()
    m.op("add", m.pick(x, m.input(i64)), x, output=True)
    session = team(4, m.compile())
    data_ = np.arange(1000, dtype=np.float32)
    index = np.arange(1000)
    for bad in ([999], [0], [300, 600, 900], [750, 250]):
        broken = index.copy()
        broken[bad] = 5000
        for _ in range(10):
            with pytest.raises(ExecutionError, match="outside the axis") as e:
                session.run([data_, broken])
            assert f"element {min(bad)}" in str(e.value)
        assert (session.run([data_, index])[0] == 2 * data_).all()


@pytest.mark.aarch64
@linux
def test_eight_threads_with_a_pool() -> None:
    """One call has the pool, the others find it busy and run alone."""
    session = team(2)
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            a, b = data(3000 + seed, seed)
            want = chain_answer(a, b, 9)
            call = session.bind([a, b])
            for _ in range(100):
                if not (session.run([a, b])[0] == want).all() or not (call()[0] == want).all():
                    wrong.append(seed)
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@linux
def test_a_stopped_pool_is_no_harm() -> None:
    own = ThreadPool(load_driver())
    own.grow(2)
    assert own.size == 2 and own.block[words.POOL_THREADS] == 2
    own.stop()
    assert own.size == 0 and threading.active_count() < 50
    own.grow(2)
    assert own.size == 0
    session = team(2)
    session.regions.pool_address = own.address
    a, b = data(1000)
    assert (session.run([a, b])[0] == chain_answer(a, b, 9)).all()


@linux
def test_sleeping_workers_use_no_time() -> None:
    import time

    session = team(2)
    a, b = data(1000)
    session.run([a, b])
    g, end = get_thread_pool(load_driver()), time.monotonic() + 300
    # A worker that was woken counts as asleep until it has a CPU, which may be after the call.
    spent = 1.0
    while spent > 0.1 or g.block[words.POOL_SLEEPERS] != g.size:
        assert time.monotonic() < end, "workers go on using time"
        before = time.process_time()
        time.sleep(0.3)
        spent = time.process_time() - before
    assert (session.run([a, b])[0] == chain_answer(a, b, 9)).all()


def test_small_steps_stay_on_one_thread() -> None:
    session = Session(PROGRAM, num_threads=4)
    assert not session.regions.layout(0, ((100,), (100,))).shares
    large = session.regions.layout(0, ((50_000,), (50_000,)))
    assert large.shares and large.wake


def test_options() -> None:
    assert Session(PROGRAM).num_threads == default_threads() >= 1
    with pytest.raises(InputError, match="num_threads"):
        Session(PROGRAM, num_threads=0)


@linux
def test_workers_stay_off_the_callers_cpu() -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("not run: this machine gives one CPU only")
    session = team(2)
    a, b = data(1000)
    try:
        for cpu in sorted(cpus)[:2] * 2:
            os.sched_setaffinity(0, {cpu})
            session.run([a, b])
            session.run([a, b])
            ids = [t.native_id for t in get_thread_pool(load_driver())._threads]
            assert ids and all(cpu not in os.sched_getaffinity(i) for i in ids)
    finally:
        os.sched_setaffinity(0, cpus)


def test_long_steps_wake_again() -> None:
    m = Maker()
    a = m.input()
    b = m.op("add", a, a)
    m.op("mul", b, a, output=True)
    session = Session(m.compile(), num_threads=2, share_work=100, wake_work=1000)
    flags = [session.regions.layout(0, ((n,),)).flags.tolist() for n in (99, 100, 500, 1000)]
    shared, waking = words.SHARED, words.SHARED | words.WAKE
    assert flags == [[0, 0], [shared, shared], [waking, shared], [waking, waking]]


@pytest.mark.slow
@linux
def test_locks_that_are_held_at_a_fork_are_free_in_the_child() -> None:
    """Whatever locks irc's modules have, those to come included."""
    from irc_compiler.api import predictor  # and with it all that a model's life loads
    from irc_compiler.runtime.jit import llvm_linker as linker

    def found() -> dict[str, threading.Lock]:
        modules = [m for n, m in list(sys.modules.items()) if n.startswith("irc_compiler.")]
        named = [(f"{m.__name__}.{n}", v) for m in modules for n, v in list(vars(m).items())]
        return {n: v for n, v in named if isinstance(v, type(threading.Lock()))}

    locks = [*found().values(), get_thread_pool(load_driver())._lock]
    assert {f"{predictor.__name__}._lock", f"{linker.__name__}._link_lock"} < found().keys()
    a, b = data(2000)
    for lock in locks:
        lock.acquire()
    try:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)  # a lock that is not free is a hang
                session = team(3, chain(length=4).compile())
                code = 0 if (session.run([a, b])[0] == chain_answer(a, b, 4)).all() else 2
                code = 3 if any(lock.locked() for lock in found().values()) else code
            finally:
                os._exit(code)
    finally:
        for lock in locks:
            lock.release()
    assert os.waitpid(child, 0)[1] == 0
