"""Target: what lowering and kernels may know about a machine. Pure data, made anywhere.

`runtime/machine/detect.py` makes the Target of this machine; tests make any other. A Target holds
no CPU name: an instruction set is a set of LLVM feature names, and the few figures that tiling
needs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import fields
from typing import Any, Final, Literal, cast

from ..ir.errors import VerificationError
from ..ir.lazy_dataclass import dataclass
from .heuristics import DEFAULT_HEURISTICS, Heuristics

Isa = Literal["avx512", "avx2", "neon", "plain"]
Arch = Literal["x86_64", "aarch64"]


@dataclass(frozen=True)
class IsaInfo:
    """What an instruction set implies: architecture, vectors, and the features it can't lack."""

    arch: Arch
    vector_bits: int
    registers: int
    required: frozenset[str]


# The psABI levels x86-64, x86-64-v3 and x86-64-v4, by LLVM's feature names. Naming the whole level
# lets code generation use the level's scheduling model without switching features off again.
_V1: Final = frozenset("64bit cmov cx8 fxsr mmx sse sse2".split())
_V3: Final = _V1 | frozenset(
    "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave".split()
)
_V4: Final = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())

ISAS: Final[dict[Isa, IsaInfo]] = {
    "avx512": IsaInfo("x86_64", 512, 32, _V4),
    "avx2": IsaInfo("x86_64", 256, 16, _V3),
    "neon": IsaInfo("aarch64", 128, 32, frozenset({"fp-armv8", "neon"})),
    "plain": IsaInfo("x86_64", 128, 16, _V1),
}

_FEATURE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MAX_FEATURES = 512
_MAX_BYTES = 1 << 40
_MAX_CORES = 1 << 16


@dataclass(frozen=True)
class Target:
    """One machine as code generation sees it. Hashable; equal Targets may share code.

    cpu_features: sorted LLVM names of the features that are on. l1, l2: data cache bytes per core;
    l3: bytes of the whole last level (0 where there is none). cores: CPUs of the machine, not of
    the process (usable_cores() is that), so that code does not change with the affinity mask.
    heuristics: thresholds that choose schedules.
    Raises VerificationError where the parts contradict each other.
    """

    arch: Arch
    cpu_features: tuple[str, ...]
    isa: Isa
    vector_bits: int
    registers: int
    l1: int
    l2: int
    l3: int
    cores: int
    heuristics: Heuristics = DEFAULT_HEURISTICS

    def __post_init__(self) -> None:
        info = ISAS.get(self.isa)
        if info is None:
            raise _target_error("isa", self.isa, f"one of {', '.join(ISAS)}")
        for name, want in (
            ("arch", info.arch),
            ("vector_bits", info.vector_bits),
            ("registers", info.registers),
        ):
            if getattr(self, name) != want:
                raise _target_error(name, getattr(self, name), f"{want} for {self.isa}")
        features = self.cpu_features
        if list(features) != sorted(set(features)):
            raise _target_error("cpu_features", "unsorted or repeated names", "sorted unique names")
        missing = info.required - set(features)
        if missing:
            got = f"no {', '.join(sorted(missing))}"
            raise _target_error("cpu_features", got, f"all that {self.isa} needs")
        for name, low, high in (
            ("l1", 1 << 10, _MAX_BYTES),
            ("l2", 0, _MAX_BYTES),
            ("l3", 0, _MAX_BYTES),
            ("cores", 1, _MAX_CORES),
        ):
            if not low <= getattr(self, name) <= high:
                raise _target_error(name, getattr(self, name), f"{low} to {high}")

    def has(self, feature: str) -> bool:
        """Whether an LLVM feature such as "avx512bf16" is on."""
        return feature in self.cpu_features

    @property
    def fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.isa != "plain"

    def lanes(self, dtype_bits: int) -> int:
        """Elements of that many bits in one vector register; at least 1."""
        return max(1, self.vector_bits // dtype_bits)

    def to_dict(self) -> dict[str, Any]:
        """The fields, of `heuristics` those that are not at their defaults; from_dict reads it."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)[:-1]}
        overrides = self.heuristics.overrides()
        return {**plain, "heuristics": overrides} if overrides else plain

    def to_json(self) -> str:
        """One line of JSON with sorted keys; from_json reads it back."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Target:
        """The Target that to_json wrote. VerificationError for anything else."""
        if len(text) > 1 << 16:
            raise _target_error("text", f"{len(text)} characters", "at most 65536")
        try:
            data: object = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise _target_error("text", "not JSON", "one JSON object") from e
        return Target.from_dict(data)

    @staticmethod
    def from_dict(data: object) -> Target:
        """The Target of to_dict()'s dictionary, every field checked; else VerificationError."""
        if not isinstance(data, dict):
            raise _target_error("text", type(data).__name__, "one JSON object")
        entries = dict(cast("dict[object, object]", data))
        names = [f.name for f in fields(Target)[:-1]]
        overrides = entries.pop("heuristics", {})
        if set(entries) != set(names):
            raise _target_error("fields", _shorten(sorted(map(str, entries))), ", ".join(names))
        features = entries["cpu_features"]
        if not isinstance(features, list | tuple):
            raise _target_error("cpu_features", type(features).__name__, "a list")
        listed = cast("list[object] | tuple[object, ...]", features)
        if len(listed) > _MAX_FEATURES:
            raise _target_error("cpu_features", f"{len(listed)} names", f"at most {_MAX_FEATURES}")
        for name in listed:
            # The names reach LLVM inside a comma-separated string.
            if not isinstance(name, str) or not _FEATURE.fullmatch(name):
                raise _target_error("cpu_features", _shorten(name), "LLVM feature names")
        for key in ("arch", "isa"):
            if not isinstance(entries[key], str):
                raise _target_error(key, _shorten(entries[key]), "a string")
        for key in names[3:]:
            if type(entries[key]) is not int:
                raise _target_error(key, _shorten(entries[key]), "an integer")
        plain = {
            **entries,
            "cpu_features": tuple(cast("list[str]", listed)),
            "heuristics": Heuristics.from_dict(overrides),
        }
        return Target(**cast("dict[str, object]", plain))  # type: ignore[arg-type]

    def key(self) -> str:
        """16 hex digits, equal exactly for equal Targets (SHA-256 of to_json)."""
        return _key_of(self)


@functools.lru_cache(maxsize=64)
def _key_of(target: Target) -> str:
    return hashlib.sha256(target.to_json().encode()).hexdigest()[:16]


def generic_target(isa: Isa) -> Target:
    """A typical machine of that instruction set, the same everywhere: for tests and goldens."""
    if isa not in ISAS:
        raise _target_error("isa", isa, f"one of {', '.join(ISAS)}")
    info = ISAS[isa]
    l1, l2 = (48 << 10, 2 << 20) if isa == "avx512" else (32 << 10, 512 << 10)
    features = tuple(sorted(info.required))
    return Target(
        info.arch, features, isa, info.vector_bits, info.registers, l1, l2, 32 << 20, cores=4
    )


def _target_error(field: str, got: object, expected: str) -> VerificationError:
    return VerificationError(
        "a Target contradicts itself or is malformed",
        where=f"Target.{field}",
        got=_shorten(got),
        expected=expected,
        fix="make it with runtime.machine.host_target() or plan.target.generic_target()",
    )


def _shorten(value: object) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= 80 else text[:77] + "..."
