"""Memory that this process may use: physical memory and the limits of its cgroups (v1 and v2, every
level up to the root, since a parent's limit binds too)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
# Besides the buffers a process needs memory for weights, code and the caller.
DEFAULT_SHARE: Final = 0.8
# v2: a hard limit and one above which the kernel stalls the process; v1: a hard limit.
_LIMIT_FILES: Final = ("memory.max", "memory.high", "memory.limit_in_bytes")


def default_max_memory() -> int:
    """Bytes that a model's buffers may take unless `max_memory` says otherwise."""
    return int(memory_limit() * DEFAULT_SHARE)


def memory_limit(root: Path = CGROUP_ROOT, membership: Path = MEMBERSHIP) -> int:
    """Bytes of memory this process can hope for: min(machine, cgroup limits)."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (OSError, ValueError, AttributeError):
        limits = [8 << 30]
    for folder in cgroup_folders("memory", root, membership):
        for name in _LIMIT_FILES:
            text = read_text(folder / name)
            if text.isdigit() and int(text) > 0:  # v1 says "none" by a huge number, v2 by "max"
                limits.append(int(text))
    return min(limits)


def cgroup_folders(
    controller: str, root: Path = CGROUP_ROOT, membership: Path = MEMBERSHIP
) -> list[Path]:
    """The folders of this process's cgroup and its parents, of both versions."""
    folders: list[Path] = []
    for line in read_text(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or ".." in parts[2]:
            continue
        if parts[1] == "":
            base = root
        elif controller in parts[1].split(","):
            base = root / controller
        else:
            continue
        inner = base / parts[2].lstrip("/")
        while inner != base:
            folders.append(inner)
            inner = inner.parent
        folders.append(base)
    return folders or [root, root / controller]


def read_text(path: Path) -> str:
    """A file's text without white space at its ends; "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
