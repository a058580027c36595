"""Tokens per second of language models against peers: `python -m benchmarks.llm MODEL`.

MODEL is a `.gguf` file, a folder, or `qwen2-0.5b` or `llama-3.2-1b`: that shape with random weights
of the type --weights, which is written first. irc reads the model as `irc.LLM` does, with
activations of f32 and of int8, and with products in bf16 where the processor has a unit for it.
Peers run in processes of their own (`--peers PYTHON`: the interpreter of an environment that has
them), each with as many threads: llama-cpp-python (with AMX and without) and OpenVINO GenAI (its
defaults, and all in f32) read a `.gguf` file, OpenVINO GenAI a folder of optimum-intel,
onnxruntime-genai a folder of its own (`--onnx FOLDER`). The engines take turns: a prompt of
--prompt tokens is read, then --tokens tokens are generated greedily.

irc's tokens are compared with those of a run that recomputes the text without a cache before
anything is measured, and the first token of a peer that computes in f32 with irc's; how many
leading tokens an engine shares with irc is shown (the others round activations). The share of
bandwidth is that of the weights that a token reads, and of the cache, of what as many cores read
from memory. --batch rows of one irc are decoded at once, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.panel_params import cell_depth
from irc_compiler.runtime.machine.detect import host_target
from irc_compiler.runtime.machine.roofline import measured_bandwidth

from .language_models.peer_process import Measurement, PeerError, PeerProcess
from .language_models.random_model import KINDS, SHAPES, write_random_model
from .measurement.machine_limits import BANDWIDTH_BYTES, count_weight_bytes
from .measurement.result_files import Row, add_option, add_rows
from .measurement.timing import wait_until_idle
from .workloads.zoo import cache_folder

CHECKED_TOKENS = 8
# What prompts are cut from.
TEXT = Path(__file__).resolve().parent.parent / "docs" / "quickstart.md"
# The peer that computes what irc does: activations and cache are f32.
F32_PEER = "openvino-genai f32"
# Of activations; the others round them to 8 bits.
PRECISIONS = {"irc": "f32", "irc bf16": "bf16", F32_PEER: "f32"}
HEADER = (
    f"{'engine':20}{'threads':>8}{'prompt':>8}{'prefill/s':>11}{'decode/s':>10}{'bandwidth':>11}"
    f"{'equal':>7}"
)


Engine = Callable[[Sequence[int], int], Measurement]


def measure_llm(llm: Any, prompt: Sequence[int], count: int) -> Measurement:
    """irc: the prompt is read, then `count` tokens are generated one by one."""
    cache, ids = llm.decoder.start(), np.array([prompt], np.int64)
    start = time.perf_counter()
    tokens = [int(cache.read(ids)[0, -1].argmax())]
    first = time.perf_counter()
    for _ in range(count):
        tokens.append(int(cache.read(np.array([tokens[-1:]], np.int64))[0, -1].argmax()))
    end = time.perf_counter()
    return Measurement(len(prompt) / (first - start), count / (end - first), tokens)


def count_read_bytes(llm: Any, length: int) -> int:
    """Bytes of weights and cache that a token behind `length` tokens reads."""
    cache = llm.decoder.start()
    cache.read(np.zeros((1, length), np.int64))
    return count_weight_bytes(llm.decoder.net.plan) + cache.nbytes


def check_llm(llm: Any, prompt: Sequence[int]) -> None:
    """SystemExit where tokens behind a cache are not those of runs without one."""
    found = measure_llm(llm, prompt, CHECKED_TOKENS).tokens
    whole = list(prompt)
    for token in found:
        wanted = int(llm.decoder.start().read(np.array([whole], np.int64))[0, -1].argmax())
        if wanted != token:
            raise SystemExit(f"irc is wrong: token {len(whole) - len(prompt)}")
        whole.append(token)


def measure_batch(llm: Any, prompt: Sequence[int], count: int, rows: int) -> float:
    """irc: tokens per second of so many equal prompts that are continued at once."""
    cache = llm.decoder.start(rows)
    found = cache.read(np.tile(np.array([prompt], np.int64), (rows, 1)))
    start = time.perf_counter()
    for _ in range(count):
        found = cache.read(found[:, -1:].argmax(2).astype(np.int64))
    return rows * count / (time.perf_counter() - start)


def find_model(name: str, kind: str) -> str:
    """The path of a model; one with random weights of that type is written where it is not there
    yet."""
    if name not in SHAPES:
        return name
    path = cache_folder() / f"{name}-random-{kind.lower()}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_random_model(path.with_suffix(".part"), SHAPES[name], kind).rename(path)
    return str(path)


def list_peers(path: str, onnx: str | None) -> dict[str, str | None]:
    """The path that each peer reads: None where it has none."""
    folder = Path(path)
    file = path if folder.suffix == ".gguf" else None
    openvino = path if (folder / "openvino_model.xml").exists() else file
    own = path if (folder / "genai_config.json").exists() else None
    without_amx = {"llama.cpp no AMX": file} if host_target().has("amx-int8") else {}
    return {
        "llama.cpp": file,
        **without_amx,
        "openvino-genai": openvino,
        F32_PEER: openvino,
        "onnxruntime-genai": onnx or own,
    }


@contextmanager
def open_peers(
    paths: dict[str, str | None], python: str, threads: int, context: int
) -> Iterator[dict[str, Engine]]:
    """The peers that can run; why others cannot is printed."""
    with ExitStack() as stack:
        found: dict[str, Engine] = {}
        for name, path in paths.items():
            try:
                if path is None:
                    raise PeerError("there is no file or folder that it reads")
                peer = PeerProcess(python, name, path, threads, context)
            except PeerError as error:
                print(f"not run: {name}: {error}", file=sys.stderr)
                continue
            stack.callback(peer.close)
            found[name] = peer
        yield found


def check_peers(engines: dict[str, Engine], prompt: Sequence[int]) -> None:
    """Leave out peers that end on the prompt, and one of f32 whose first token is not irc's."""
    wanted = engines["irc"](prompt, 1).tokens[0]
    for name, run in list(engines.items()):
        try:
            wrong = run(prompt, 1).tokens[0] != wanted and name == F32_PEER
            reason = "its first token is not that of irc" if wrong else ""
        except PeerError as error:
            reason = str(error)
        if reason:
            print(f"not run: {name}: {reason}", file=sys.stderr)
            del engines[name]


def compare(
    engines: dict[str, Engine], prompt: Sequence[int], count: int, turns: int
) -> dict[str, Measurement]:
    """The fastest of several turns per engine, prefill and decode each for itself."""
    found: dict[str, list[Measurement]] = {name: [] for name in engines}
    for _ in range(turns):
        for name, run in engines.items():
            wait_until_idle()
            found[name].append(run(prompt, count))
    return {
        name: Measurement(
            max(m.prefill for m in listed), max(m.decode for m in listed), listed[0].tokens
        )
        for name, listed in found.items()
    }


def count_shared(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of equal leading tokens."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


def make_rows(
    name: str,
    threads: int,
    found: dict[str, Measurement],
    seconds: float,
    batches: dict[str, dict[str, float]],
) -> list[Row]:
    """Rows of the result file, which are printed. seconds: to read what a token reads from
    memory; batches: further measures by engine."""
    mine, rows = found["irc"], list[Row]()
    for engine, each in found.items():
        equal = count_shared(each.tokens, mine.tokens)
        share = seconds * each.decode
        print(
            f"{engine:20}{threads:8}{name.rpartition(' ')[2]:>8}{each.prefill:11.1f}"
            f"{each.decode:10.1f}{share:11.2f}{equal:7}"
        )
        measures = batches.get(engine, {}) | {
            "prefill_tokens_per_second": each.prefill,
            "decode_tokens_per_second": each.decode,
            "bandwidth_share": share,
            "equal_tokens": float(equal),
        }
        ratio = None if engine == "irc" else mine.decode / each.decode
        precision = PRECISIONS.get(engine, "int8")
        time_per_token = 1 / each.decode
        rows.append(
            Row(
                "llm", name, engine, threads, precision, time_per_token, None, ratio, None, measures
            )
        )
    return rows


def measure_batches(
    llms: dict[str, Any], prompt: Sequence[int], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """By engine of irc, the tokens per second of a batch: the fastest of several turns."""
    best = dict.fromkeys(llms, 0.0)
    for _ in range(options.turns if options.batch > 1 else 0):
        for name, llm in llms.items():
            wait_until_idle()
            found = measure_batch(llm, prompt, options.tokens, options.batch)
            best[name] = max(best[name], found)
    measure = f"batch_of_{options.batch}_tokens_per_second"
    return {name: {measure: rate} for name, rate in best.items() if rate}


def measure_model(path: str, threads: int, options: argparse.Namespace) -> list[Row]:
    """All engines with so many threads, at each length of a prompt."""
    import irc_compiler as irc

    make = partial(irc.LLM, path, num_threads=threads)
    llms = {"irc": make(), "irc int8": make(activations="int8")}
    if cell_depth(host_target(), DType.bf16) > 1:
        llms["irc bf16"] = make(precision="bf16")
    rows, llm = list[Row](), llms["irc"]
    lengths = [int(n) for n in options.prompt.split(",")]
    text = llm.encode(TEXT.read_text())
    context = max(lengths) + options.tokens + CHECKED_TOKENS
    bandwidth = measured_bandwidth(BANDWIDTH_BYTES, threads)
    with open_peers(list_peers(path, options.onnx), options.peers, threads, context) as peers:
        engines: dict[str, Engine] = {n: partial(measure_llm, x) for n, x in llms.items()} | peers
        for length in lengths:
            prompt = np.resize(np.array(text, np.int64), length).tolist()
            check_llm(llm, prompt)
            check_peers(engines, prompt)
            found = compare(engines, prompt, options.tokens, options.turns)
            batches = measure_batches(llms, prompt, options)
            seconds = count_read_bytes(llm, length) / bandwidth
            name = f"{llm.config.name}, prompt of {length}"
            rows += make_rows(name, threads, found, seconds, batches)
            for engine, measures in batches.items():
                for measure, rate in measures.items():
                    print(
                        f"{engine}: {measure} {rate:.1f}, {rate / found[engine].decode:.2f} times"
                    )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.llm", description=__doc__)
    parser.add_argument("model", help=f"a .gguf file, a folder, or {' or '.join(SHAPES)}")
    parser.add_argument("--weights", default="Q4_1", choices=KINDS, help="of a shape's matrices")
    parser.add_argument("--prompt", default="128,512", help="lengths, comma separated")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    parser.add_argument("--turns", type=int, default=3, help="measurements per engine, in turn")
    parser.add_argument("--batch", type=int, default=8, help="rows of a batch (1: no batch)")
    parser.add_argument("--peers", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--onnx", help="the same model as a folder of onnxruntime-genai")
    add_option(parser)
    options = parser.parse_args(arguments)
    path, rows = find_model(options.model, options.weights), list[Row]()
    print(HEADER)
    for threads in map(int, options.threads.split(",")):
        rows += measure_model(path, threads, options)
    if options.results:
        add_rows(options.results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
