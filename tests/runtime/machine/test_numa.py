"""NUMA nodes from a faked /sys, threads that stay on a node, and shares of calls."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from irc_compiler.runtime.machine.numa import (
    NumaNode,
    divide_calls,
    keep_thread_on,
    read_usable_nodes,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="not run: this system keeps no threads on CPUs"
)


def write_nodes(folder: Path, online: str, **lists: str) -> Path:
    """A folder like /sys/devices/system/node."""
    (folder / "online").write_text(online + "\n")
    for name, cpus in lists.items():
        (folder / name).mkdir()
        (folder / name / "cpulist").write_text(cpus + "\n")
    return folder


@pytest.fixture
def sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may use CPUs 0 to 15."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


@pytest.mark.usefixtures("sixteen_cpus")
def test_two_sockets(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path, "0-1", node0="0-3,8-11", node1="4-7,12-15")
    assert read_usable_nodes(folder) == (
        NumaNode(0, frozenset([0, 1, 2, 3, 8, 9, 10, 11])),
        NumaNode(1, frozenset([4, 5, 6, 7, 12, 13, 14, 15])),
    )


@pytest.mark.usefixtures("sixteen_cpus")
def test_nodes_without_usable_cpus_are_left_out(tmp_path: Path) -> None:
    # Node 2 is memory without CPUs, node 3 has CPUs of other processes, node 5 is offline.
    folder = write_nodes(tmp_path, "0,2-3", node0="0-31", node2="", node3="32-63", node5="4")
    assert read_usable_nodes(folder) == (NumaNode(0, frozenset(range(16))),)


@pytest.mark.parametrize("online", ["", "garbage", "0-"])
def test_a_system_that_lists_no_nodes(tmp_path: Path, online: str) -> None:
    assert read_usable_nodes(write_nodes(tmp_path, online)) == ()
    assert read_usable_nodes(tmp_path / "missing") == ()


def test_a_thread_stays_on_cpus() -> None:
    allowed, found = os.sched_getaffinity(0), list[set[int]]()

    def run() -> None:
        keep_thread_on(frozenset([min(allowed), 10_000]))
        found.append(os.sched_getaffinity(0))
        keep_thread_on(frozenset([10_000]))  # none of them is there: nothing changes
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [{min(allowed)}] * 2
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.parametrize(
    ("calls", "cpus", "shares"),
    [(8, (4, 4), [4, 4]), (3, (1, 1), [2, 1]), (5, (6, 2), [4, 1]), (2, (1, 30), [0, 2])],
)
def test_calls_are_divided_like_cpus(calls: int, cpus: tuple[int, ...], shares: list[int]) -> None:
    nodes = tuple(NumaNode(n, frozenset(range(c))) for n, c in enumerate(cpus))
    assert divide_calls(calls, nodes) == shares
