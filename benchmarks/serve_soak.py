"""`irc serve` at full load for minutes: wrong answers, lost requests, growth of its memory.

    python -m benchmarks.serve_soak --minutes 10

32 clients send requests in a closed loop, with dynamic batching. Every answer must have the bits of
a lone call. Memory is the server's resident set; growth counts from the end of the warm-up, and is
printed each minute.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import irc_compiler as irc
import numpy as np

from .serve import ENGINES, check, load, serving
from .workloads.serve_models import MODELS

WARM_UP_SECONDS = 30.0
MAX_GROWTH_MIB = 16.0


def resident_mib(process: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.M)[0]) / 1024


def main(words: Sequence[str] | None = None) -> int:
    """Run; exit code 1 if an answer is wrong or lost, or memory grows by 16 MiB."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="encoder", choices=sorted(MODELS))
    parser.add_argument("--server", default="irc-batched", choices=sorted(ENGINES))
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args(words)
    requests = failures = 0
    growth, seconds = 0.0, args.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{args.model}.onnx"
        path.write_bytes(MODELS[args.model]())
        with irc.compile_model(path) as net, serving(args.server, path) as target:
            shape = [1 if isinstance(d, str) else d for d in net.inputs[0].shape or ()]
            check(target, net, shape)
            rng = np.random.default_rng(0)
            xs = [rng.standard_normal(shape).astype(np.float32) for _ in range(64)]
            wanted = [net({"x": x})[0].tobytes() for x in xs]
            asyncio.run(load(target, args.clients, min(WARM_UP_SECONDS, seconds), xs, wanted))
            start = resident_mib(target.pid)
            while seconds > 0:
                part = min(60.0, seconds)
                found, wrong, _ = asyncio.run(load(target, args.clients, part, xs, wanted))
                requests, failures, seconds = (
                    requests + len(found),
                    failures + wrong,
                    seconds - part,
                )
                growth = resident_mib(target.pid) - start
                print(
                    f"{requests} requests, {failures} wrong or lost, memory {start:.1f} MiB"
                    f" {growth:+.1f} MiB",
                    flush=True,
                )
    return int(failures > 0 or growth >= MAX_GROWTH_MIB)


if __name__ == "__main__":
    sys.exit(main())
