"""Forged steps: a few seconds' worth of new cases; `python -m fuzz.forged_steps 0 10` goes
on for ten minutes (docs/dev/testing.md)."""

from __future__ import annotations

import os

import pytest
from irc_compiler.plan.specs import find_specs

from fuzz.forged_steps import run_forged, seeds

MORE = 40 if os.environ.get("IRC_LONG") == "1" else 1


@pytest.mark.slow
def test_every_family_is_drawn() -> None:
    assert {s.step.spec.family for s in seeds()} == {s.family for s in find_specs()}


@pytest.mark.slow
def test_forged_steps_are_refused_or_stay_inside_their_buffers() -> None:
    counts, findings = run_forged(20_000_000, 200 * MORE)
    assert not findings, findings
    assert sum(counts.get(k, 0) for k in ("refused", "ran", "long", "large")) == 200 * MORE, counts
    assert counts["ran"] > 20 * MORE and counts["refused"] > 20 * MORE, counts
