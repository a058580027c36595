"""Forged plans: a few seconds' worth of new cases; `python -m fuzz.forged_plans 0 10` draws for
ten minutes."""

from __future__ import annotations

import os

import pytest

from fuzz.forged_plans import artifacts, run_forged

MORE = 40 if os.environ.get("IRC_LONG") == "1" else 1


@pytest.mark.slow
def test_artifacts_hold_every_kind_of_control_step() -> None:
    plans = b" ".join(artifact.data for artifact in artifacts())
    for kind in (b"loop", b"branch", b"loop_end", b"jump"):
        assert kind in plans, kind


@pytest.mark.slow
def test_forged_plans_are_refused_or_end_without_a_crash() -> None:
    counts, findings = run_forged(20_000_000, 300 * MORE)
    assert not findings, findings
    assert sum(counts.get(k, 0) for k in ("refused", "failed", "ran", "long")) == 300 * MORE, counts
    assert counts["ran"] > 20 * MORE and counts["refused"] > 20 * MORE, counts
