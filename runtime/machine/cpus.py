"""Counts the CPUs that this process may use: its affinity mask, and the CPU quotas of its cgroups
(v2 and v1, every level up to the root, since a parent's limit binds too). And says whether they are
of several speeds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ...ir.limits.host_memory import CGROUP_ROOT, MEMBERSHIP, cgroup_folders, read_text

DEVICES: Final = Path("/sys/devices")
# Cores whose speeds differ by less share a step as equal ones do.
_MAX_CAPACITY_RATIO: Final = 1.25


def usable_cores() -> int:
    """CPUs this process may keep busy: min(affinity, cgroup quota rounded up), at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    quota = cpu_quota()
    if quota is not None:
        cpus = min(cpus, -int(-quota // 1))
    return max(1, cpus)


def cpu_quota(root: Path = CGROUP_ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """CPUs' worth of time the cgroups allow (may be fractional); None without a limit."""
    limits: list[float] = []
    for folder in cgroup_folders("cpu", root, membership):
        v2 = read_text(folder / "cpu.max").split()
        quota, period = v2 if len(v2) == 2 else ("", "")
        if not v2:
            quota = read_text(folder / "cpu.cfs_quota_us")
            period = read_text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period) > 0 and int(quota) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cores_differ(devices: Path = DEVICES) -> bool:
    """Whether the CPUs that this process may use are of several speeds, as on hybrid processors:
    as Linux says it by cpu_capacity, or by Intel's two kinds of performance counters."""
    if not hasattr(os, "sched_getaffinity"):
        return False
    cpus = os.sched_getaffinity(0)
    texts = [read_text(devices / f"system/cpu/cpu{n}/cpu_capacity").strip() for n in cpus]
    capacities = [int(text) for text in texts if text.isdigit() and int(text) > 0]
    if len(capacities) == len(cpus) and max(capacities) > _MAX_CAPACITY_RATIO * min(capacities):
        return True
    kinds = [read_cpu_list(devices / kind / "cpus") for kind in ("cpu_core", "cpu_atom")]
    return all(kind & cpus for kind in kinds)


def read_cpu_list(path: Path) -> set[int]:
    """The CPUs of a list such as 0-3,8."""
    found: set[int] = set()
    for part in read_text(path).strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found
