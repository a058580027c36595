"""What a caller has set up is the same after a call: threads, NumPy's and the process's settings;
and what names machine code covers all that it depends on."""

from __future__ import annotations

import ast
import ctypes
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.iota import IotaSpec
from irc_compiler.runtime.jit import program
from irc_compiler.runtime.machine.detect import host_target


def models() -> dict[str, irc.CompiledModel]:
    x = ops.parameter("x", ["N", 40])
    rng = np.random.default_rng(0)
    native = ops.relu(ops.matmul(x, rng.standard_normal((40, 48)).astype(np.float32)))
    return {
        "native": irc.compile_model(ops.model({"y": native})),
        "one thread": irc.compile_model(ops.model({"y": native}), num_threads=1),
    }


def settings() -> dict[str, object]:
    """Settings of this thread and process that a library may disturb."""
    return {
        "affinity": os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        "numpy": np.geterr(),
        "print": np.get_printoptions(),
        "switch": sys.getswitchinterval(),
        "recursion": sys.getrecursionlimit(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGSEGV)],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "stack": threading.stack_size(),
        "libc rounding": ctypes.CDLL(None).fegetround() if _has_fegetround() else 0,
    }


def _has_fegetround() -> bool:
    return hasattr(ctypes.CDLL(None), "fegetround")


@pytest.mark.parametrize("name", ["native", "one thread"])
def test_settings_stay_as_they_are(name: str) -> None:
    net = models()[name]
    before = settings()
    for n in (0, 1, 3, 4000):
        net(np.ones((n, 40), np.float32))
    assert settings() == before


def test_the_name_of_machine_code_covers_what_it_depends_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = host_target()
    spec = IotaSpec(7, 0, 1, Operand(DType.i64, (1,)))
    keys = [
        program._kernel_key(spec, target),
        program._kernel_key(replace(spec, count=8), target),
        program._kernel_key(
            spec, replace(target, cpu_features=tuple(sorted({*target.cpu_features, "zzz"})))
        ),
        program._kernel_key(spec, replace(target, l2=target.l2 * 2)),
    ]
    monkeypatch.setattr(program, "_generators", lambda: "another version")
    keys.append(program._kernel_key(spec, target))
    assert len(set(keys)) == len(keys)
    assert all(len(k) == 64 for k in keys)


# What generators import from the runtime that has no say in the code they make.
NO_TEXT = (
    *("artifact/code", "driver/loader"),
    *("machine/cpus", "machine/memory_planner", "machine/platforms/host_platform"),
)


def test_the_name_of_machine_code_covers_the_text_that_makes_it() -> None:
    """Kernels of an irc whose generators were others are not found in the cache."""
    root = Path(irc.__file__).parent
    covered = set(program.generator_files())
    imported: set[Path] = set()
    for path in covered:
        if "runtime" not in path.relative_to(root).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                parent = path.parents[node.level - 1]
                module = parent.joinpath(*(node.module or "__init__").split("."))
                imported |= {module.with_suffix(".py"), module / "__init__.py"}
    files = {p for p in imported if p.is_file()}
    assert root / "plan" / "packing" / "panel_params.py" in files
    assert files - covered == {root / "runtime" / f"{name}.py" for name in NO_TEXT}
