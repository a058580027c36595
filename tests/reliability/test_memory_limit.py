"""max_memory holds before anything is allocated, wherever data decide how large a tensor is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.errors import MemoryLimitError
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.limits.host_memory import cgroup_folders
from support.reliability.memory_bombs import CASES, LIMIT, graph_of, node

# What a run may take besides its values: Python's own objects, temporaries of small operations.
SLACK = 24 << 20
# What a compilation may take: LLVM's code that is read from disk, models of thousands of nodes.
COMPILING = 160 << 20
# glibc returns freed arrays to the system at once, so the peak has no holes between small blocks.
RETURNS_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
CGROUP_BYTES = 1 << 30
CGROUP_V1_LIMIT = "memory.limit_in_bytes"
# NumPy reduces a view without memory of its own in place.
FINE = {("input without memory of its own", "interpret")}


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], dict[str, Any]]:
    script = Path(__file__).resolve().parents[1] / "support" / "reliability" / "memory_bombs.py"
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **RETURNS_FREED_MEMORY},
    )
    found = map(json.loads, done.stdout.splitlines())
    return {(case["name"], case["mode"]): case for case in found}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="not run: reads /proc")
@pytest.mark.parametrize("mode", ["call", "interpret"])
@pytest.mark.parametrize("name", CASES)
def test_small_model_that_asks_for_much(
    name: str, mode: str, outcomes: dict[tuple[str, str], dict[str, Any]]
) -> None:
    case = outcomes[name, mode]
    assert "status" not in case, f"ended by signal {case['status']}"
    assert case["running"] < LIMIT + SLACK and case["compiling"] < COMPILING, case
    if (name, mode) in FINE:
        return
    assert case["error"] == "MemoryLimitError", case
    for part in ("where: ", "got: ", "expected: at most ", "fix: use smaller inputs, or raise max"):
        assert part in case["text"]
    assert case["text"].count("\n") == 4


def _both(model: Any, feeds: dict[str, Any], limit: int) -> tuple[Any, Any]:
    net = irc.compile_model(model, max_memory=limit)
    graph = irc.read_model(model).graph
    return net(feeds)[0], interpret(graph, feeds, max_memory=limit)[0]


def test_inputs_of_the_caller_do_not_count() -> None:
    x = np.ones((1 << 20, 4), np.float32)
    model, feeds = graph_of([node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": x})
    assert _both(model, feeds, 1 << 20) == (1 << 22, 1 << 22)


@pytest.mark.parametrize("limit", [(12 << 20) + (64 << 10), (12 << 20) - 1])
def test_values_count_while_they_are_used(limit: int) -> None:
    """Three tensors of 4 MiB are alive at once, though five are made."""
    nodes = [node("Expand", ["x", "s"], ["t0"])]
    for n in range(4):
        nodes.append(node("Concat", [f"t{n}", "x"], [f"u{n}"], axis=0))
        nodes.append(node("Slice", [f"u{n}", "b", "s"], [f"t{n + 1}"]))
    nodes.append(node("Identity", ["t4"], ["y"]))
    feeds = {"x": np.ones(1, np.float32), "s": np.array([1 << 20]), "b": np.array([0])}
    model, _ = graph_of(nodes, feeds)
    graph = irc.read_model(model).graph
    if limit > 12 << 20:
        assert len(interpret(graph, feeds, max_memory=limit)[0]) == 1 << 20
        return
    with pytest.raises(MemoryLimitError, match="4 MiB in use|8 MiB in use"):
        interpret(graph, feeds, max_memory=8 << 20)


def test_budget_is_that_of_each_call() -> None:
    """What a refused call had counted does not burden the next one."""
    feeds = {"x": np.ones(1, np.float32), "s": np.array([1 << 20])}
    model, _ = graph_of([node("Expand", ["x", "s"], ["y"])], feeds)
    net = irc.compile_model(model, max_memory=10 << 20)
    for _ in range(4):
        with pytest.raises(MemoryLimitError):
            net({**feeds, "s": np.array([1 << 22])})
        assert net(feeds)[0].shape == (1 << 20,)


def test_folding_stays_within_the_limit() -> None:
    constants = {"x": np.ones(1, np.float32), "s": np.array([1 << 22])}
    nodes = [node("Expand", ["x", "s"], ["t"]), node("ReduceSum", ["t"], ["n"], keepdims=0)]
    nodes.append(node("Add", ["n", "a"], ["y"]))
    feeds = {"a": np.ones(1, np.float32)}
    model, _ = graph_of(nodes, feeds, constants=constants)
    net = irc.compile_model(model, max_memory=1 << 20)
    with pytest.raises(MemoryLimitError):
        net(feeds)
    assert irc.compile_model(model)(feeds)[0] == (1 << 22) + 1


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A cgroup of this process's own with a limit of 1 GiB."""
    folder, limit = Path(), ""
    for parent in cgroup_folders("memory")[:1]:
        folder = parent / f"irc-test-{os.getpid()}"
        limit = "memory.max" if (parent / "cgroup.controllers").exists() else CGROUP_V1_LIMIT
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"not run: no memory cgroup can be made here ({error.strerror})")
    try:
        (folder / limit).write_text(str(CGROUP_BYTES))
        yield folder
    except OSError as error:
        pytest.skip(f"not run: the memory cgroup takes no limit ({error.strerror})")
    finally:
        folder.rmdir()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="not run: cgroups are Linux's")
def test_default_limit_in_a_cgroup(memory_cgroup: Path) -> None:
    """A call that needs more than the cgroup allows ends in an error before the kernel kills it."""
    code = f"""if True:
        import os
        open({str(memory_cgroup / "cgroup.procs")!r}, "w").write(str(os.getpid()))
        import irc_compiler as irc, numpy as np
        from support.reliability.memory_bombs import graph_of, node
        feeds = {{"x": np.ones(1, np.float32), "s": np.array([1])}}
        model, _ = graph_of([node("Expand", ["x", "s"], ["y"])], feeds)
        net = irc.compile_model(model)
        for size in {CGROUP_BYTES // 16}, {CGROUP_BYTES // 4}, 1 << 40:
            feeds["s"] = np.array([size])
            try:
                print(net(feeds)[0].shape)
            except irc.MemoryLimitError as error:
                print(str(error).splitlines()[3])
        """
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    assert done.returncode == 0, done.stderr
    refused = "  expected: at most 819.2 MiB (max_memory)"
    assert done.stdout.splitlines() == [f"({CGROUP_BYTES // 16},)", refused, refused]
