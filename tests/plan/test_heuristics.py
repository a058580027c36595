"""Thresholds of the heuristics: ranges, overrides, and their page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.heuristics import THRESHOLDS, Heuristics
from irc_compiler.plan.target import Target, generic_target

ROOT = Path(__file__).resolve().parents[2]


def table_row(name: str) -> str:
    """The line of docs/heuristics.md about a threshold."""
    threshold = THRESHOLDS[name]
    least, most = threshold.metadata["range"]
    record = threshold.metadata["record"]
    link = f"[{record}](dev/tuning/{record}.md)" if record else ""
    meaning = threshold.metadata["meaning"]
    return f"| `{name}` | {threshold.default} | {least} to {most} | {meaning} | {link} |"


def test_page_lists_every_threshold() -> None:
    page = (ROOT / "docs" / "heuristics.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == [
        table_row(name) for name in THRESHOLDS
    ]


def test_every_record_names_the_thresholds_module() -> None:
    for name, threshold in THRESHOLDS.items():
        if record := threshold.metadata["record"]:
            text = (ROOT / "docs" / "dev" / "tuning" / f"{record}.md").read_text(encoding="utf-8")
            assert "`plan/heuristics.py`: `Heuristics`" in text, f"{name}: {record}"


@pytest.mark.parametrize("name", THRESHOLDS)
def test_both_ends_of_a_range_are_accepted_and_nothing_beyond(name: str) -> None:
    least, most = THRESHOLDS[name].metadata["range"]
    for value in (least, most):
        assert getattr(Heuristics.from_dict({name: value}), name) == value
    for value in (least - 1, most + 1, True, "4", None, float("nan"), [1]):
        with pytest.raises(VerificationError, match="threshold") as caught:
            Heuristics.from_dict({name: value})
        assert caught.value.where == name


def test_integers_are_not_given_as_fractions() -> None:
    with pytest.raises(VerificationError):
        Heuristics.from_dict({"gemm_min_chains": 4.0})
    assert Heuristics.from_dict({"winograd_min_speedup": 2}).winograd_min_speedup == 2


def test_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(VerificationError, match="unknown") as caught:
        Heuristics.from_dict({"gemm_min_chain": 4})
    assert caught.value.expected == "such as gemm_min_chains"
    for data in (None, [], "gemm_min_chains", {7: 1}):
        with pytest.raises(VerificationError):
            Heuristics.from_dict(data)


def test_target_writes_overrides_only_and_reads_them_back() -> None:
    target = generic_target("avx2")
    assert "heuristics" not in target.to_json()
    other = dataclasses.replace(target, heuristics=Heuristics(gemm_min_chains=6))
    assert other.to_dict()["heuristics"] == {"gemm_min_chains": 6}
    assert Target.from_json(other.to_json()) == other != target
    assert other.key() != target.key()
    with pytest.raises(VerificationError):
        Target.from_dict({**target.to_dict(), "heuristics": {"gemm_min_chains": 0}})
