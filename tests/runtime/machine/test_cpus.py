"""CPUs of several speeds, as files of Linux say it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from irc_compiler.runtime.machine.cpus import cores_differ


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="not run: no affinity masks here")
@pytest.mark.parametrize(
    "capacities, kinds, expected",
    [
        ([1024, 1024], None, False), ([1024, 900], None, False), ([1024, 446], None, True),
        ([], None, False), ([1024], None, False), ([], ("0", "1"), True), ([], ("0-1", "8"), False),
        ([], ("0,1", ""), False),
    ],
)  # fmt: skip
def test_cores_of_several_speeds(
    capacities: list[int],
    kinds: tuple[str, str] | None,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for n, capacity in enumerate(capacities):
        folder = tmp_path / f"system/cpu/cpu{n}"
        folder.mkdir(parents=True)
        (folder / "cpu_capacity").write_text(f"{capacity}\n")
    for name, cpus in zip(("cpu_core", "cpu_atom"), kinds or (), strict=False):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpus").write_text(cpus + "\n")
    assert cores_differ(tmp_path) == expected
