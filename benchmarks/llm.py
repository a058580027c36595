"""Tokens per second of language models against peers: `python -m benchmarks.llm MODEL`.

irc reads the model as `irc.LLM` does; llama-cpp-python (`.gguf` files) and OpenVINO GenAI (folders
of optimum-intel) take part where they are installed, each with as many threads. The engines take
turns: a prompt of --prompt tokens is read, then --tokens tokens are generated greedily. irc's
tokens are compared with those of a run that recomputes the text without a cache before anything is
measured; how many leading tokens a peer shares with irc is shown (peers round activations).
--activations int8 adds irc with activations that are rounded, too. The share of bandwidth is that
of the weights that a token reads, and of the cache, of what as many cores read from memory.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from irc_compiler.plan.plan import CONSTANT, KernelStep
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.runtime.machine.roofline import measured_bandwidth

from .measurement.result_files import Row, add_option, add_rows
from .measurement.timing import wait_until_idle

CHECKED_TOKENS = 8
# A working set that no cache holds.
BANDWIDTH_BYTES = 256 << 20
HEADER = (
    f"{'engine':16}{'threads':>8}{'prompt':>8}{'prefill/s':>11}{'decode/s':>10}{'bandwidth':>11}"
    f"{'equal':>7}"
)


@dataclass(frozen=True)
class Measurement:
    """Tokens per second of prefill and decode, and the tokens that were generated."""

    prefill: float
    decode: float
    tokens: list[int]


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


def count_weight_bytes(llm: Any) -> int:
    """Bytes of the constants that products read for one token."""
    plan = llm.decoder.net.plan
    read = {
        region.buffers[b].index
        for region in plan.all_regions()
        for step in region.steps
        if isinstance(step, KernelStep) and isinstance(step.spec, GemmSpec)
        for b in step.buffers
        if region.buffers[b].kind == CONSTANT
    }
    constants = [plan.constants[i] for i in read]
    return sum(c.dtype.nbytes(math.prod(c.shape)) for c in constants)


def count_read_bytes(llm: Any, length: int) -> int:
    """Bytes of weights and cache that a token behind `length` tokens reads."""
    cache = llm.decoder.start()
    cache.read(np.zeros((1, length), np.int64))
    return count_weight_bytes(llm) + cache.nbytes


def check_llm(llm: Any, prompt: Sequence[int]) -> None:
    """SystemExit where tokens behind a cache are not those of runs without one."""
    found = measure_llm(llm, prompt, CHECKED_TOKENS).tokens
    whole = list(prompt)
    for token in found:
        wanted = int(llm.decoder.start().read(np.array([whole], np.int64))[0, -1].argmax())
        if wanted != token:
            raise SystemExit(f"irc is wrong: token {len(whole) - len(prompt)}")
        whole.append(token)


def make_llama_cpp(path: str, threads: int, context: int) -> Engine:
    """llama-cpp-python. ImportError where it is not installed."""
    from llama_cpp import Llama

    model = Llama(path, n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run(prompt: Sequence[int], count: int) -> Measurement:
        model.reset()
        start = time.perf_counter()
        model.eval(list(prompt))
        tokens = [int(model.sample(temp=0.0))]
        first = time.perf_counter()
        for _ in range(count):
            model.eval(tokens[-1:])
            tokens.append(int(model.sample(temp=0.0)))
        end = time.perf_counter()
        return Measurement(len(prompt) / (first - start), count / (end - first), tokens)

    return run


def make_openvino_genai(path: str, threads: int, context: int) -> Engine:
    """OpenVINO GenAI with its own defaults. ImportError where it is not installed."""
    import openvino as ov
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)

    def run(prompt: Sequence[int], count: int) -> Measurement:
        ids = ov.Tensor(np.array([prompt], np.int64))
        found = pipeline.generate(ids, max_new_tokens=count + 1, ignore_eos=True, do_sample=False)
        metrics = found.perf_metrics
        seconds = metrics.get_ttft().mean / 1e3
        tokens = [int(t) for t in found.tokens[0]]
        return Measurement(len(prompt) / seconds, 1e3 / metrics.get_tpot().mean, tokens)

    return run


def make_engines(path: str, llm: Any, threads: int, context: int) -> dict[str, Engine]:
    """The engines that take the file and are installed."""
    engines: dict[str, Engine] = {"irc": lambda p, n: measure_llm(llm, p, n)}
    folder = Path(path).is_dir()
    name, make = (
        ("openvino-genai", make_openvino_genai) if folder else ("llama.cpp", make_llama_cpp)
    )
    try:
        engines[name] = make(path, threads, context)
    except ImportError as error:
        print(f"not run: {error}", file=sys.stderr)
    return engines


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


def make_rows(name: str, threads: int, found: dict[str, Measurement], seconds: float) -> list[Row]:
    """Rows of the result file, which are printed. seconds: to read what a token reads from
    memory."""
    mine, rows = found["irc"], list[Row]()
    for engine, each in found.items():
        equal = count_shared(each.tokens, mine.tokens)
        share = seconds * each.decode
        print(
            f"{engine:16}{threads:8}{name.rpartition(' ')[2]:>8}{each.prefill:11.1f}"
            f"{each.decode:10.1f}{share:11.2f}{equal:7}"
        )
        measures = {
            "prefill_tokens_per_second": each.prefill,
            "decode_tokens_per_second": each.decode,
            "bandwidth_share": share,
            "equal_tokens": float(equal),
        }
        ratio = None if engine == "irc" else mine.decode / each.decode
        precision = "int8" if engine == "irc int8" else "f32"
        time_per_token = 1 / each.decode
        rows.append(
            Row(
                "llm", name, engine, threads, precision, time_per_token, None, ratio, None, measures
            )
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.llm", description=__doc__)
    parser.add_argument("model", help="a .gguf file, or a folder")
    parser.add_argument("--prompt", default="128,512", help="lengths, comma separated")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    parser.add_argument("--activations", choices=("f32", "int8"), default="f32")
    parser.add_argument("--turns", type=int, default=3, help="measurements per engine, in turn")
    add_option(parser)
    options = parser.parse_args(arguments)
    import irc_compiler as irc

    rows: list[Row] = []
    lengths = [int(n) for n in options.prompt.split(",")]
    print(HEADER)
    for threads in map(int, options.threads.split(",")):
        llm = irc.LLM(options.model, num_threads=threads)
        context = max(lengths) + options.tokens + CHECKED_TOKENS
        engines = make_engines(options.model, llm, threads, context)
        if options.activations == "int8":
            rounding = irc.LLM(options.model, num_threads=threads, activations="int8")
            engines["irc int8"] = partial(measure_llm, rounding)
        bandwidth = measured_bandwidth(BANDWIDTH_BYTES, threads)
        rng = np.random.default_rng(7)
        for length in lengths:
            prompt = rng.integers(0, llm.config.vocabulary, length).tolist()
            check_llm(llm, prompt)
            found = compare(engines, prompt, options.tokens, options.turns)
            share = count_read_bytes(llm, length) / bandwidth
            name = f"{llm.config.name}, prompt of {length}"
            rows += make_rows(name, threads, found, share)
    if options.results:
        add_rows(options.results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
