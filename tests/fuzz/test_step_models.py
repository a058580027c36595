"""Models of every kernel family, and the comparison of their plans between two checkouts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_compare_plans_finds_a_changed_plan_and_a_changed_bit(tmp_path: Path) -> None:
    kept = tmp_path / "plans.json"
    command = [sys.executable, "-W", "ignore", "scripts/compare_plans.py"]
    subprocess.run([*command, "--write", str(kept)], cwd=ROOT, check=True)
    again = [*command, "--against", str(kept)]
    same = subprocess.run(again, cwd=ROOT, capture_output=True, text=True)
    assert same.returncode == 0 and same.stdout.strip().endswith("0 differ")
    plans = json.loads(kept.read_text())
    plans["add, f32"][0] += " "
    plans["softmax, f32"][1] = "0"
    kept.write_text(json.dumps(plans))
    other = subprocess.run(again, cwd=ROOT, capture_output=True, text=True)
    assert other.returncode == 1
    assert other.stdout.splitlines()[1:] == ["add, f32", "softmax, f32"]
