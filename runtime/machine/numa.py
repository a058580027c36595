"""Reads which NUMA nodes a process may use, and keeps threads on the CPUs of one.

Linux puts a page into the memory of the node whose CPU writes it first. So a thread that stays on a
node's CPUs has what it writes in that node's memory, and reads it at full speed
(https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ...ir.lazy_dataclass import dataclass
from .cpus import read_cpu_list

NODES: Final = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class NumaNode:
    """A node with memory of its own, and those of its CPUs that this process may use."""

    number: int
    cpus: frozenset[int]


def read_usable_nodes(folder: Path = NODES) -> tuple[NumaNode, ...]:
    """The nodes that have CPUs which this process may use, in order. None where the system says
    nothing of nodes or threads cannot be kept on CPUs."""
    if not hasattr(os, "sched_setaffinity"):
        return ()
    allowed = os.sched_getaffinity(0)
    found = list[NumaNode]()
    for number in sorted(read_cpu_list(folder / "online")):
        if cpus := read_cpu_list(folder / f"node{number}" / "cpulist") & allowed:
            found.append(NumaNode(number, frozenset(cpus)))
    return tuple(found)


def keep_thread_on(cpus: frozenset[int]) -> None:
    """Keep the calling thread on these CPUs. One that has been taken from the process since is left
    out; if none remains, the thread runs anywhere."""
    if usable := cpus & os.sched_getaffinity(0):
        os.sched_setaffinity(0, usable)


def divide_calls(calls: int, nodes: tuple[NumaNode, ...]) -> list[int]:
    """How many of the calls that run at a time each node runs: shares of its CPUs, which differ by
    less than one call from exact ones, and together are all."""
    cpus = sum(len(node.cpus) for node in nodes)
    ends, before = [0], 0
    for node in nodes:
        before += len(node.cpus)
        ends.append(round(calls * before / cpus))
    return [end - start for start, end in zip(ends, ends[1:], strict=False)]
