"""Innermost loops of generated assembly, and the cycles that llvm-mca predicts for them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

_LABEL = re.compile(r"(\.LBB\d+_\d+):")
_BRANCH = re.compile(r"^\s+(?:b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+(\.LBB\d+_\d+)")


@cache
def find_llvm_mca() -> str | None:
    """llvm-mca of LLVM 17 or later, which knows the Neoverse cores; IRC_LLVM_MCA names another."""
    for name in (os.environ.get("IRC_LLVM_MCA"), *(f"llvm-mca-{n}" for n in range(25, 16, -1))):
        if name and (found := shutil.which(name)):
            return found
    return None


def busiest_loop(assembly: str, instruction: str) -> tuple[list[str], int]:
    """The lines of the loop without inner loops that has most instructions matching the pattern,
    and how many these are."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    best: tuple[list[str], int] = ([], 0)
    for n, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = n
        branch = _BRANCH.match(line)
        if branch and branch[1] in labels:
            body = [x.split("//")[0] for x in lines[labels[branch[1]] + 1 : n + 1]]
            count = sum(re.search(rf"^\s+(?:{instruction})\s", x) is not None for x in body)
            if not any(_LABEL.match(x) for x in body) and count > best[1]:
                best = (body, count)
    return best


def predicted_cycles(loop: list[str], processor: str, features: str) -> float:
    """Cycles of one iteration, among a hundred, with all operands in L1."""
    tool = find_llvm_mca()
    assert tool is not None
    words = [tool, "-mtriple=aarch64", f"-mcpu={processor}", f"-mattr={features}"]
    environment = dict(os.environ)
    # A tool that was unpacked, not installed, has its library next to it.
    beside = Path(tool).resolve().parents[3] / "lib" / "x86_64-linux-gnu"
    if beside.is_dir():
        environment["LD_LIBRARY_PATH"] = str(beside)
    done = subprocess.run(
        [*words, "-iterations=100"],
        input="\n".join(loop),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert found is not None, done.stderr
    return int(found[1]) / 100
