"""Passes that match what one exporter writes say so, and their record has what they win."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from irc_compiler.compiler.passes.decompose.maxpool_indices import decompose_maxpool_indices
from irc_compiler.compiler.passes.fuse.group_norm import fuse_group_norm
from irc_compiler.compiler.passes.layout.conv1x1_to_matmul import convert_conv1x1_to_matmul
from irc_compiler.compiler.passes.raise_loops.embedding_bag import raise_embedding_bag
from irc_compiler.compiler.passes.raise_loops.sequence_to_scan_output import (
    raise_sequence_to_scan_output,
)
from irc_compiler.compiler.passes.raise_loops.while_loops import raise_while_loops
from irc_compiler.compiler.pipeline import PASSES
from irc_compiler.compiler.rewrite.engine import Pass

from benchmarks.exporter_patterns import MODELS

ROOT = Path(__file__).resolve().parents[3]
RECORD = "docs/dev/tuning/exporter-patterns.md"
RULES = (
    raise_embedding_bag,
    raise_sequence_to_scan_output,
    raise_while_loops,
    convert_conv1x1_to_matmul,
    decompose_maxpool_indices,
    fuse_group_norm,
)


def docstring_of(rule: Pass) -> str:
    """Of the module that defines the pass."""
    modules = (m for n, m in sys.modules.items() if n.startswith("irc_compiler.compiler.passes."))
    return next(m.__doc__ or "" for m in modules if getattr(m, rule.name, None) is rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_states_pattern_exporter_and_gain(rule: Pass) -> None:
    text = docstring_of(rule)
    parts = re.search(r"^Pattern: (.+)^Exporter: (.+)^Gain: (.+)", text, re.M | re.S)
    assert parts, text
    assert re.search(r"(torch|tf2onnx) \d+\.\d+", parts[2]) and RECORD in parts[3]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_the_record_has_what_a_rule_wins(rule: Pass) -> None:
    row = re.search(rf"^\| `{rule.name}` \|.*\| ([\d.]+) \|$", (ROOT / RECORD).read_text(), re.M)
    assert row and float(row[1]) > 1, "what wins nothing goes"
    assert rule in PASSES


def test_the_benchmark_has_a_model_for_each_rule() -> None:
    assert set(MODELS) == {rule.name for rule in RULES}


def test_every_pass_that_names_an_exporter_is_listed() -> None:
    listed = {docstring_of(rule) for rule in RULES}
    for path in (ROOT / "compiler" / "passes").rglob("*.py"):
        text = path.read_text("utf-8")
        if re.search(r"^Exporter: ", text, re.M):
            assert any(doc and doc in text for doc in listed), path
