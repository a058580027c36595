"""Memory of whole models against peers: `python -m benchmarks.memory`.

Each engine loads and runs a model in a process of its own. `growth` is how much more of memory the
process holds after three runs than after its imports; `peak` is the most it ever held above that.
Both are compared with what has to be there: the weights (the size of the model's file) and, for
irc, the arena of its plan. irc is taken from ONNX and from its `.irc` file.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .measurement.result_files import Row, add_option, add_rows
from .peers import PEERS
from .workloads.zoo import ZOO, model_path

ENGINES = ("irc", "irc from .irc", *(p for p in PEERS if " " not in p))
MIB = 1 << 20


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return _status("VmRSS")


def _status(key: str) -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(x.split()[1]) << 10 for x in lines if x.startswith(key + ":"))


def child(engine: str, path: str, name: str) -> dict[str, int]:
    """Load, run three times; the process's growth, peak and the arena, in bytes."""
    inputs = ZOO[name].inputs(np.random.default_rng(1))
    arena = 0
    if engine.startswith("irc"):
        import irc_compiler as irc

        start = resident()
        net = irc.compile_model(path, num_threads=2)
        for _ in range(3):
            net(list(inputs.values()))
        arena = net.stats().arena_bytes
    else:
        import onnxruntime
        import openvino  # noqa: F401

        assert onnxruntime
        start = resident()
        peer = PEERS[engine](path, inputs, 2)
        for _ in range(3):
            peer.run()
    return {"growth": resident() - start, "peak": _status("VmHWM") - start, "arena": arena}


def measured(engine: str, path: str, name: str) -> dict[str, int]:
    words = [sys.executable, "-m", "benchmarks.memory", "--child", engine, path, name]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{engine} failed on {name}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def artefact(path: str, folder: str) -> str:
    import irc_compiler as irc

    out = str(Path(folder) / (Path(path).stem + ".irc"))
    irc.compile_model(path, num_threads=2).export(out)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--only", default="", help=f"models, of {', '.join(ZOO)}")
    add_option(parser)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(child(*options.child)))
        return 0
    chosen = [n for n in options.only.split(",") if n] or list(ZOO)
    if unknown := sorted(set(chosen) - set(ZOO)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(ZOO)}")
    heads = "".join(f"{r + ' MiB (peak)':>28}" for r in ENGINES)
    print(f"{'model':16}{'weights MiB':>12}{'arena MiB':>11}{heads}{'needed':>8}{'peers':>7}")
    rows: list[Row] = []
    for name in chosen:
        path = str(model_path(ZOO[name]))
        weights = Path(path).stat().st_size
        with tempfile.TemporaryDirectory() as folder:
            paths = dict.fromkeys(ENGINES, path) | {"irc from .irc": artefact(path, folder)}
            found = {r: measured(r, paths[r], name) for r in ENGINES}
        arena = found["irc"]["arena"]
        cells = "".join(
            f"{f['growth'] / MIB:19.1f} ({f['peak'] / MIB:6.1f})" for f in found.values()
        )
        needed = {"weights_mib": weights / MIB, "arena_mib": arena / MIB}
        for engine, f in found.items():
            measures = {"growth_mib": f["growth"] / MIB, "peak_mib": f["peak"] / MIB}
            measures |= needed if engine == "irc" else {}
            rows.append(Row("memory", name, engine, 2, "f32", measures=measures))
        mine = found["irc"]["growth"]
        best = min(f["growth"] for r, f in found.items() if not r.startswith("irc"))
        print(
            f"{name:16}{weights / MIB:12.1f}{arena / MIB:11.2f}{cells}"
            f"{mine / (weights + arena):8.2f}{mine / best:7.2f}",
            flush=True,
        )
    if options.results:
        add_rows(options.results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
