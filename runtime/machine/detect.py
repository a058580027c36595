"""Detects the Target of this machine: instruction sets and cache sizes, and the user's thresholds.

Cache sizes come from the kernel (sysfs, then sysconf).
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from ...plan.heuristics import DEFAULT_HEURISTICS, Heuristics
from ...plan.processors import features_of_isa, runnable_isas
from ...plan.target import ISAS, Isa, Target
from .heuristics_file import chosen_heuristics

_SYS = Path("/sys/devices/system/cpu")
_FALLBACK = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
_SYSCONF = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}


def host_target(isa: str | None = None) -> Target:
    """The Target of this machine, running as `isa` (None: IRC_ISA, else the best it has).

    The same object for the same answer. UsageError for an instruction set the machine lacks,
    for a processor in IRC_CPU that it cannot be masked to, and for a bad file in IRC_HEURISTICS.
    """
    from ..jit import host_features as host  # loads llvmlite: only when a Target is needed

    chosen = host.choose_isa(isa)
    return _target_of(chosen, host.isa_features(chosen), chosen_heuristics())


def detected_target() -> Target:
    """The Target of all that this machine has, whatever IRC_ISA, IRC_CPU and IRC_HEURISTICS
    choose."""
    from ..jit import host_features as host

    features = host.drop_refused_tiles(host.detected_features())
    best = runnable_isas(features)[0]
    return _target_of(best, features_of_isa(best, features), DEFAULT_HEURISTICS)


@lru_cache
def _target_of(isa: Isa, features: tuple[str, ...], heuristics: Heuristics) -> Target:
    info = ISAS[isa]
    sizes = cache_sizes()
    return Target(
        arch=info.arch,
        cpu_features=features,
        isa=isa,
        vector_bits=info.vector_bits,
        registers=info.registers,
        l1=sizes[1],
        l2=sizes[2],
        l3=sizes[3],
        cores=os.cpu_count() or 1,
        heuristics=heuristics,
    )


def cache_sizes(root: Path = _SYS) -> dict[int, int]:
    """Bytes of the data caches by level 1, 2, 3 of the first CPU; 0 for a level 3 there is not.

    Virtual machines report nonsense at times: a size outside sane bounds is replaced by a common
    one rather than believed.
    """
    found: dict[int, int] = {}
    for index in sorted(root.glob("cpu0/cache/index[0-9]*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = _size((index / "size").read_text())
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified"):
            found[level] = size
    seen = bool(found)
    for level, name in _SYSCONF.items():
        if level not in found and name in os.sysconf_names:
            found[level] = os.sysconf(name)
    bounds = {1: (4 << 10, 1 << 20), 2: (64 << 10, 256 << 20), 3: (256 << 10, 64 << 30)}
    sane: dict[int, int] = {}
    for level, (low, high) in bounds.items():
        size = found.get(level, 0)
        if low <= size <= high:
            sane[level] = size
        elif level == 3 and seen and size <= 0:
            sane[level] = 0
        else:
            sane[level] = _FALLBACK[level]
    return sane


def _size(text: str) -> int:
    text = text.strip()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    return int(text) if scale is None else int(text[:-1]) * scale
