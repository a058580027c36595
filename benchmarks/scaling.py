"""Time to read and compile against the number of nodes: `python -m benchmarks.scaling`.

    python -m benchmarks.scaling --shape chain --nodes 1000,10000   # a part
    python -m benchmarks.scaling --json > scaling.json              # one JSON object per row
    python -m benchmarks.scaling --table scaling.json               # its rows as a table
    python -m benchmarks.scaling --cases                            # graphs that once took longest

Six shapes of graph (workloads/graph_shapes.py), each written as IR, then read, compiled and called
once in a process of its own without the code cache. The first call verifies sizes and places the
arena. Times are seconds of all CPUs, which other work on the machine changes less than seconds of
the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .measurement.result_files import Row as Result
from .measurement.result_files import add_option, add_rows
from .workloads.graph_shapes import CASES, SHAPES, count_nodes

NODES = (1000, 10_000, 100_000)
# Seconds per node of the largest graph, at most so often those of the smallest.
MAX_RATIO = 2.0


@dataclass(frozen=True)
class Row:
    """One model: seconds of CPU to read it, to compile it and to call it for the first time, the
    process's largest resident set in MiB, and what the plan consists of."""

    shape: str
    nodes: int
    read: float
    compile: float
    call: float
    memory: int
    steps: int
    kernels: int

    @property
    def per_node(self) -> float:
        """Microseconds of CPU per node."""
        return 1e6 * (self.read + self.compile + self.call) / self.nodes


def measure(shape: str, nodes: int) -> Row:
    """Build, write, read, compile and call in this process."""
    import irc_compiler as irc
    import numpy as np

    # Modules that are loaded and a driver that is compiled once are not the graph's.
    irc.compile_model(SHAPES["chain"](40), num_threads=1)
    build = (SHAPES | CASES)[shape]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.xml")
        model = build(nodes)
        size = count_nodes(model.graph)
        irc.save_model(model, path)
        model.graph.clear()
        start = time.process_time()
        read = irc.read_model(path)
        middle = time.process_time()
        net = irc.compile_model(read, num_threads=1)
        end = time.process_time()
    types = {"f32": np.float32, "boolean": np.bool_}
    inputs = [np.ones([d or 1 for d in p.shape or ()], types[p.dtype]) for p in net.inputs]
    before = time.process_time()
    net(inputs)
    call = time.process_time() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    steps = sum(len(region.steps) for region in net.plan.regions)
    kernels = len(net.plan.specs())
    return Row(shape, size, middle - start, end - middle, call, memory, steps, kernels)


def in_process(shape: str, nodes: int) -> Row:
    """`measure` in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.scaling", "--child", shape, "--nodes", str(nodes)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | NO_CACHE
    )
    return Row(**json.loads(done.stdout.splitlines()[-1]))


NO_CACHE = {"IRC_CACHE_DIR": "off"}


def line(row: Row) -> str:
    """A row for people."""
    return (
        f"{row.shape:14} {row.nodes:7} nodes  read {row.read:7.2f} s  compile {row.compile:7.2f} s"
        f"  call {row.call:6.2f} s  {row.per_node:6.0f} us/node  {row.memory:6} MiB"
        f"  {row.steps:6} steps  {row.kernels:5} kernels"
    )


def conclusion(rows: Sequence[Row]) -> str:
    """The ratio of each shape, smallest to largest graph, against the bar."""
    said: list[str] = []
    for shape in dict.fromkeys(row.shape for row in rows):
        mine = sorted((r for r in rows if r.shape == shape), key=lambda r: r.nodes)
        ratio = mine[-1].per_node / mine[0].per_node
        met = "met" if ratio <= MAX_RATIO else "NOT met"
        said.append(f"{shape}: {ratio:.2f} times the time per node (bar {MAX_RATIO}): {met}")
    return "\n".join(said)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown: microseconds per node by shape and size, and of the largest graph the
    ratio to the smallest, its memory and its kernels."""
    # Sizes as requested: the nodes of a shape come near one of them.
    sizes = sorted({min(NODES, key=lambda n: abs(n - row.nodes)) for row in rows})
    text = ["| shape | " + " | ".join(f"{n} nodes" for n in sizes) + " | ratio | MiB | kernels |"]
    text.append("|---|" + "---:|" * (len(sizes) + 3))
    for shape in dict.fromkeys(row.shape for row in rows):
        mine = {
            min(NODES, key=lambda n: abs(n - row.nodes)): row for row in rows if row.shape == shape
        }
        cells = [f"{mine[n].per_node:.0f}" if n in mine else "" for n in sizes]
        last = mine[max(mine)]
        cells += [f"{last.per_node / mine[min(mine)].per_node:.2f}", str(last.memory)]
        text.append(f"| {shape} | {' | '.join(cells)} | {last.kernels} |")
    return "\n".join(text)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print rows as text, JSON or a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", help=f"some of: {', '.join(SHAPES)}")
    parser.add_argument("--nodes", default=",".join(map(str, NODES)), help="sizes of graphs")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--table", type=Path, help="no measurement: this file's rows as Markdown")
    parser.add_argument("--cases", action="store_true", help="graphs that once took longest")
    add_option(parser)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.table is not None:
        lines = options.table.read_text(encoding="utf-8").splitlines()
        print(table([Row(**json.loads(text)) for text in lines]))
        return
    sizes = [int(n) for n in options.nodes.split(",")]
    if options.child is not None:
        print(json.dumps(asdict(measure(options.child, sizes[0]))))
        return
    rows: list[Row] = []
    shapes = options.shape.split(",") if options.shape else list(SHAPES)
    if unknown := sorted(set(shapes) - set(SHAPES)):
        parser.error(f"unknown shape {unknown[0]!r}; shapes: {', '.join(SHAPES)}")
    asked = [(s, n) for s in shapes for n in sizes]
    if options.cases:
        asked = [(case, 0) for case in CASES]
    for shape, nodes in asked:
        row = in_process(shape, nodes)
        rows.append(row)
        print(json.dumps(asdict(row)) if options.json else line(row), flush=True)
    if not options.json and not options.cases:
        print(conclusion(rows))
    if options.results:
        add_rows(options.results, map(result, rows))


def result(row: Row) -> Result:
    """The row as a row of a result file: CPU seconds to read and compile."""
    measures: dict[str, float] = {"read_seconds": row.read, "compile_seconds": row.compile}
    measures |= {"nodes": row.nodes, "steps": row.steps, "kernels": row.kernels}
    return Result(
        "compile time by nodes", f"{row.shape}, {row.nodes} nodes", "irc", 1, "f32",
        row.read + row.compile, measures=measures,
    )  # fmt: skip


if __name__ == "__main__":
    main()
