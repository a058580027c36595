"""Pickled, forked, closed, shared by threads: a compiled model through its life."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx.helper
import pytest
from support.models.digits import DIGITS, arrays, two_outputs

X = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> irc.CompiledModel:
    return irc.compile_model(DIGITS)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_by_content(net: irc.CompiledModel, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(net, protocol))
    assert (again(X)[0] == net(X)[0]).all()
    assert [p.name for p in again.inputs] == ["image"] and again.plan == net.plan


def test_pickled_with_its_limits() -> None:
    net = irc.compile_model(DIGITS, num_threads=1, max_memory=1 << 20, shapes={"image": [2, None]})
    again = pickle.loads(pickle.dumps(net))
    assert again.stats().threads == 1 and again.inputs[0].shape == (2, 64)
    with pytest.raises(irc.InputError):
        again(X)


def test_weights_travel_out_of_band(net: irc.CompiledModel) -> None:
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(net, 5, buffer_callback=buffers.append)
    assert len(small) < 500 and sum(b.raw().nbytes for b in buffers) > 30_000
    again = pickle.loads(small, buffers=buffers)
    assert (again(X)[0] == net(X)[0]).all()


def test_pickled_from_an_artefact(net: irc.CompiledModel, tmp_path: Path) -> None:
    net.export(tmp_path / "net.irc")
    loaded = irc.compile_model(tmp_path / "net.irc")
    data = pickle.dumps(loaded)
    (tmp_path / "net.irc").unlink()
    assert (pickle.loads(data)(X)[0] == net(X)[0]).all()
    assert (copy.deepcopy(loaded)(X)[0] == net(X)[0]).all()


@pytest.mark.slow
def test_unpickled_in_another_process(net: irc.CompiledModel, tmp_path: Path) -> None:
    (tmp_path / "net.pickle").write_bytes(pickle.dumps(net))
    np.save(tmp_path / "x.npy", X)
    code = (
        "import pickle, sys, numpy as np; net = pickle.load(open('net.pickle', 'rb'));"
        "np.save('y.npy', net(np.load('x.npy'))[0])"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert (np.load(tmp_path / "y.npy") == net(X)[0]).all()


def test_a_damaged_pickle_is_an_error(net: irc.CompiledModel) -> None:
    buffers: list[pickle.PickleBuffer] = []
    small = pickle.dumps(net, 5, buffer_callback=buffers.append)
    broken = bytearray(buffers[0].raw())
    broken[len(broken) // 2] ^= 1
    with pytest.raises(irc.ArtifactError):
        pickle.loads(small, buffers=[broken])


def _answer(x: Any) -> Any:
    assert _shared is not None
    return _shared(x)


_shared: irc.CompiledModel | None = None


@pytest.mark.slow
def test_forked_children_and_their_parent_go_on(net: irc.CompiledModel) -> None:
    """Workers' threads are gone in a child; both sides still compute, even when the fork falls
    into another thread's call."""
    global _shared
    large = np.random.default_rng(1).standard_normal((4096, 64)).astype(np.float32)
    _shared, wanted = net, net(large)[0]
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            net(large)

    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        for _ in range(3):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                found = pool.map_async(_answer, [large] * 4).get(timeout=60)
            assert all((y[0] == wanted).all() for y in found)
            assert (net(large)[0] == wanted).all()
    finally:
        stop.set()
        other.join()


def _own_threads(x: Any) -> int:
    _answer(x)
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(
    sys.platform != "linux", reason="not run: a process's threads are counted in Linux's /proc"
)
def test_a_forked_child_has_workers_of_its_own() -> None:
    """Without them it would compute alone, and wait for a share that a lost thread had taken."""
    global _shared
    _shared = irc.compile_model(DIGITS, num_threads=2)
    large = np.random.default_rng(1).standard_normal((4096, 64)).astype(np.float32)
    _shared(large)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_own_threads, (large,)).get(timeout=60) >= 2


@pytest.mark.slow
def test_closing() -> None:
    net = irc.compile_model(two_outputs(), num_threads=1)
    a, b = arrays(6)
    net([a, b])
    call = net.bind([a, b])
    program = weakref.ref(net.program)
    net.close()
    net.close()
    uses = [
        lambda: net([a, b]),
        lambda: net([a, b], out=[None, None]),
        lambda: net.bind([a, b]),
        lambda: net.profile([a, b]),
        net.stats,
        lambda: net.program,
        lambda: net.export("never.irc"),
        lambda: pickle.dumps(net),
        lambda: net.model,
    ]
    for use in uses:
        with pytest.raises(irc.ExecutionError, match="the model is closed"):
            use()
    assert not os.path.exists("never.irc") and "closed" in repr(net)
    assert net.inputs[0].name == "a" and "steps" in net.report()
    a += 1
    assert (call()["sum"] == a + b).all()
    del call
    gc.collect()
    assert program() is None


def test_a_bound_call_with_steps_in_python_outlives_its_model() -> None:
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("NonZero", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, ["N"])], [value("y", 7, None)])
    opset = onnx.helper.make_opsetid("", 13)
    net = irc.compile_model(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8))
    a = np.array([0, 2, 0, 3], np.float32)
    call = net.bind(a)
    net.close()
    assert call()[0].tolist() == [[1, 3]]
    a[0] = 1
    assert call()[0].tolist() == [[0, 1, 3]]


def test_a_with_block_closes() -> None:
    with irc.compile_model(two_outputs(), num_threads=1) as net:
        assert (net([*arrays(6)])["sum"] == sum(arrays(6))).all()
    with pytest.raises(irc.ExecutionError):
        net([*arrays(6)])


def test_closing_while_calls_run() -> None:
    net = irc.compile_model(two_outputs())
    a, b = arrays(100_000)
    started, errors = threading.Barrier(5), list[object]()

    def call() -> None:
        started.wait()
        try:
            while True:
                assert (net([a, b])["sum"] == a + b).all()
        except irc.ExecutionError as error:
            errors.append(error.what)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for c in callers:
        c.start()
    started.wait()
    session = net.session
    time.sleep(0.05)
    net.close()
    for c in callers:
        c.join()
    assert errors == ["the model is closed"] * 4
    assert session.stats().contexts == 0  # what calls had borrowed is given back, too


@pytest.mark.slow
@pytest.mark.parametrize("num_threads", [1, None])
def test_eight_threads_with_inputs_of_their_own(num_threads: int | None) -> None:
    net = irc.compile_model(DIGITS, num_threads=num_threads)
    sizes = [1, 3, 17, 64, 300, 1000, 7, 2]
    inputs = [
        np.random.default_rng(n).standard_normal((size, 64)).astype(np.float32)
        for n, size in enumerate(sizes)
    ]
    wanted = [net(x)[0] for x in inputs]
    wrong: list[int] = []
    end = time.perf_counter() + 2

    def work(n: int) -> None:
        mine = np.empty_like(wanted[n])
        while time.perf_counter() < end and not wrong:
            if not (net(inputs[n])[0] == wanted[n]).all():
                wrong.append(n)
            if not (net(inputs[n], out=[mine])[0] == wanted[n]).all():
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong
    assert net.stats().contexts <= 8


@pytest.mark.slow
def test_import_in_a_subinterpreter_is_refused_with_the_reason() -> None:
    code = """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import irc_compiler
        new = interpreters.create()
        try:
            print(interpreters.run_string(new, "import irc_compiler"))
        except Exception as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert "cannot be imported in a subinterpreter" in done.stdout
    assert "multiprocessing" in done.stdout
