"""pool and infer_async: calls at the same time, in order, one thread each; errors and forks."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api.call_pool import CallGroup, CallPool
from irc_compiler.runtime.jit.program import CompiledPlan
from irc_compiler.runtime.machine import numa
from irc_compiler.runtime.machine.numa import NumaNode

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def net() -> irc.CompiledModel:
    return irc.compile_model(DIGITS, performance="throughput", num_threads=3)


def images(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((1 + n % 3, 64), np.float32) for n in range(count)]


def test_results_are_those_of_calls_and_in_order(net: irc.CompiledModel) -> None:
    batches = images(40)
    wanted = [net(x)[0] for x in batches]
    with net.pool() as pool:
        assert pool.size == 3
        found = list(pool.map(batches))
        futures = [pool.submit(image=x) for x in batches]
    for got, future, expected in zip(found, futures, wanted, strict=True):
        np.testing.assert_array_equal(got[0], expected)
        np.testing.assert_array_equal(future.result()[0], expected)


def test_calls_run_at_the_same_time() -> None:
    """Each waits for two others."""
    together = threading.Barrier(3)
    with CallPool(CallGroup(3, lambda: lambda x: together.wait(30))) as pool:
        assert sorted(pool.map(range(3))) == [0, 1, 2]


def test_map_reads_a_few_inputs_ahead() -> None:
    read: list[int] = []

    def batches() -> Iterator[int]:
        for n in range(100):
            read.append(n)
            yield n

    with CallPool(CallGroup(2, lambda: lambda x: x)) as pool:
        results = pool.map(batches())
        assert next(results) == 0
        assert len(read) == 5
        results.close()


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="not run: this system keeps no threads on CPUs"
)
def test_each_group_has_a_call_and_cpus_of_its_own() -> None:
    allowed = os.sched_getaffinity(0)
    cpus = [frozenset([min(allowed)]), frozenset([max(allowed)])]
    made, together = list[frozenset[int]](), threading.Barrier(4)

    def make_call() -> object:
        own = frozenset(os.sched_getaffinity(0))
        made.append(own)

        def call(x: object) -> tuple[frozenset[int], frozenset[int]]:
            together.wait(30)  # four calls run at the same time
            return own, frozenset(os.sched_getaffinity(0))

        return call

    with CallPool(*(CallGroup(2, make_call, c) for c in cpus)) as pool:
        found = list(pool.map(range(4)))
    assert sorted(map(sorted, made)) == sorted(map(sorted, cpus))  # one call a group
    assert all(maker == runner for maker, runner in found)
    assert sorted(sorted(runner) for _, runner in found) == sorted(map(sorted, cpus * 2))
    assert os.sched_getaffinity(0) == allowed


def test_nodes_have_weights_of_their_own(
    net: irc.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = tuple(NumaNode(n, frozenset([n])) for n in range(2))
    monkeypatch.setattr(numa, "read_usable_nodes", lambda: nodes)
    copied = list[list[int]]()
    copy = CompiledPlan.copy_constants

    def watch(program: CompiledPlan) -> CompiledPlan:
        made = copy(program)
        pairs = zip(made.constants, program.constants, strict=True)
        assert all(not np.shares_memory(a, b) and np.array_equal(a, b) for a, b in pairs)
        copied.append([a.ctypes.data for a in made.constants])
        return made

    monkeypatch.setattr(CompiledPlan, "copy_constants", watch)
    batches = images(20)
    assert "2 NUMA nodes" in net.report()
    with net.pool() as pool:
        assert pool.size == 3
        for x, got in zip(batches, pool.map(batches), strict=True):
            np.testing.assert_array_equal(got[0], net(x)[0])
        assert len(copied) == 2 and not set(copied[0]) & set(copied[1])
    with net.pool(1) as pool:  # fewer calls than nodes: the model's own weights
        pool.submit(batches[0]).result()
    assert len(copied) == 2


def test_an_error_is_raised_where_the_result_would_be(net: irc.CompiledModel) -> None:
    good, bad = np.zeros((1, 64), np.float32), np.zeros((1, 3), np.float32)
    with net.pool() as pool:
        results = pool.map([good, bad, good])
        next(results)
        with pytest.raises(irc.InputError):
            next(results)
        assert pool.submit(good).result()[0].shape == (1, 10)


def test_throughput_gives_each_call_one_thread(net: irc.CompiledModel) -> None:
    assert net.session.num_threads == 1 and net.calls_at_a_time == 3
    assert "calls      3 at a time, one thread each" in net.report()
    again = pickle.loads(pickle.dumps(net))
    assert again.session.num_threads == 1 and again.calls_at_a_time == 3
    latency = irc.compile_model(DIGITS, num_threads=2)
    assert latency.session.num_threads == 2 and latency.calls_at_a_time == 1
    assert "at a time" not in latency.report()


def test_throughput_of_an_artefact(net: irc.CompiledModel, tmp_path: Path) -> None:
    net.export(tmp_path / "digits.irc")
    loaded = irc.compile_model(tmp_path / "digits.irc", performance="throughput", num_threads=2)
    assert loaded.session.num_threads == 1 and loaded.calls_at_a_time == 2
    assert irc.compile_model(tmp_path / "digits.irc").calls_at_a_time == 1


def test_infer_async(net: irc.CompiledModel) -> None:
    batches = images(9)

    async def gather() -> list[irc.Outputs]:
        return await asyncio.gather(*(net.infer_async(image=x) for x in batches))

    for got, x in zip(asyncio.run(gather()), batches, strict=True):
        np.testing.assert_array_equal(got[0], net(x)[0])


def test_the_event_loop_goes_on() -> None:
    """The call ends only after the loop has run other code."""
    net = irc.compile_model(DIGITS)
    go = threading.Event()
    call = CallPool(CallGroup(1, lambda: lambda *inputs, **named: go.wait(30)))
    net._own_pool = call

    async def main() -> bool:
        task = asyncio.create_task(net.infer_async(images(1)[0]))
        await asyncio.sleep(0)
        go.set()
        return bool(await task)

    assert asyncio.run(main())
    call.close()


def test_closed() -> None:
    net = irc.compile_model(DIGITS, performance="throughput")
    pool = net.pool()
    pool.close()
    pool.close()
    with pytest.raises(irc.ExecutionError, match="the pool is closed"):
        pool.submit(images(1)[0])
    net.close()
    with pytest.raises(irc.ExecutionError, match="the model is closed"):
        net.pool()


@pytest.mark.parametrize("options", [{"performance": "fast"}, {"performance": None}])
def test_unknown_performance(options: dict[str, str]) -> None:
    with pytest.raises(irc.UsageError, match="latency or throughput"):
        irc.compile_model(DIGITS, **options)


def test_empty_pool(net: irc.CompiledModel) -> None:
    with pytest.raises(irc.UsageError, match="at least one thread"):
        net.pool(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not run: no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_new_threads(net: irc.CompiledModel) -> None:
    x = images(1)[0]
    with net.pool() as pool:
        wanted = pool.submit(x).result()[0]
        child = os.fork()
        if child == 0:
            same = np.array_equal(pool.submit(x).result()[0], wanted)
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
