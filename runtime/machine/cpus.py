"""Counts the CPUs that this process may use: its affinity mask, and the CPU quotas of its cgroups
(v2 and v1, every level up to the root, since a parent's limit binds too)."""

from __future__ import annotations

import os
from pathlib import Path

from ...ir.limits.host_memory import CGROUP_ROOT, MEMBERSHIP, cgroup_folders, read_text


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
