"""Run a program of programs/ with one engine: its answer and its times, as a line of JSON.

    python run_program.py PROGRAM ENGINE SECONDS

ENGINE is "" for the packages as they are (an openvino in f32, which would take bf16 on processors
with AMX), or the engine whose name means irc. A program makes its models when it is imported;
`answer()` uses them. `load` is the time of the import and the first answer, `run` that of the
fastest of the following ones, which take SECONDS together.
"""

import json
import runpy
import sys
import time


def compute_in_f32() -> None:
    """Give every Core of an installed openvino f32 as its precision."""
    try:
        import openvino
    except ImportError:
        return

    class Core(openvino.Core):
        def __init__(self, *words):
            super().__init__(*words)
            self.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    openvino.Core = Core


program, engine, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
start = time.perf_counter()
if engine:
    from irc_compiler.compat import install

    install(engine)
else:
    compute_in_f32()
answer = runpy.run_path(program)["answer"]
found = answer()
load = time.perf_counter() - start
times = []
while sum(times) < limit and len(times) < 200:
    start = time.perf_counter()
    answer()
    times.append(time.perf_counter() - start)
print(json.dumps({"answer": found, "load": load, "run": min(times, default=None)}))
