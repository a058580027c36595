"""Fuzz for as long as told:

    python -m fuzz graphs onnx bytes --minutes 60

`graphs` draws graphs of the whole vocabulary, `onnx` models out of ONNX's own cases: every way of
computing them has to agree. `bytes` breaks model files, artefacts and arrays. Work is done in
batches, each in a process of its own, so that a signal or a hang is a finding like any other. What
was found lies in the folder given by --findings: the file, what happened, and the seed; `python -m
fuzz replay FILE` tries one again.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from .batches import BATCHES, replay, run_batch

# A batch takes some tens of seconds; one that takes so long hangs.
HANGS_AFTER = 900


def main() -> int:
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("what", nargs="+", help=f"{', '.join(BATCHES)}; or replay FILE...")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first batch")
    parser.add_argument("--findings", type=Path, default=Path("findings"))
    parser.add_argument("--count", type=int, default=50, help="examples in a batch")
    parser.add_argument("--in-this-process", action="store_true", help="one batch, as a child does")
    args = parser.parse_args()
    if args.what[0] == "replay":
        return replay([Path(p) for p in args.what[1:]])
    args.findings.mkdir(parents=True, exist_ok=True)
    if args.in_this_process:
        print(json.dumps(run_batch(args.what[0], args.seed, args.count, args.findings)))
        return 0
    totals: collections.Counter[str] = collections.Counter()
    started, seed = time.monotonic(), args.seed
    while time.monotonic() - started < args.minutes * 60:
        for what in args.what:
            totals.update(_child(what, seed, args))
        seed += 1
        totals["seconds"] = round(time.monotonic() - started)
        (args.findings / "totals.json").write_text(json.dumps(totals, indent=1))
        print(json.dumps(totals), flush=True)
    return 1 if totals["findings"] else 0


def _child(what: str, seed: int, args: argparse.Namespace) -> dict[str, int]:
    command = [sys.executable, "-W", "ignore", "-m", "fuzz", what, "--in-this-process"]
    command += ["--seed", str(seed), "--count", str(args.count), "--findings", str(args.findings)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=HANGS_AFTER, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired:
        return _lost(what, seed, args.findings, "hangs")
    if done.returncode:
        return _lost(what, seed, args.findings, f"exit {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _lost(what: str, seed: int, folder: Path, why: str) -> dict[str, int]:
    """A batch that ended badly: what it was at lies in `current`."""
    name = f"{what}-{seed}-lost"
    for path in folder.glob("current.*"):
        path.rename(folder / f"{name}{path.suffix}")
    (folder / f"{name}.txt").write_text(why)
    return {"findings": 1}


if __name__ == "__main__":
    sys.exit(main())
