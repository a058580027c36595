"""One peer in a process of its own: `PYTHON peer_worker.py PEER PATH THREADS CONTEXT`.

It runs in an environment that has the peer and NumPy, and imports nothing of irc. A line of JSON
on standard input asks for a text, {"prompt": tokens, "count": tokens to generate}; a line on
standard output answers, {"prefill": tokens a second, "decode": tokens a second, "tokens": tokens}.
The first line is {"ready": the peer's version} or {"error": why it cannot run}.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

# What a line of the answer holds.
Found = dict[str, Any]
Run = Callable[[Sequence[int], int], Found]


def make_llama_cpp(path: str, threads: int, context: int) -> Run:
    """llama-cpp-python on a .gguf file. It rounds activations to 8 bits."""
    from llama_cpp import Llama

    model = Llama(path, n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run(prompt: Sequence[int], count: int) -> Found:
        model.reset()
        start = time.perf_counter()
        model.eval(list(prompt))
        tokens = [int(model.sample(temp=0.0))]
        first = time.perf_counter()
        for _ in range(count):
            model.eval(tokens[-1:])
            tokens.append(int(model.sample(temp=0.0)))
        end = time.perf_counter()
        return _found(len(prompt) / (first - start), count / (end - first), tokens)

    return run


def make_llama_cpp_file_layout(path: str, threads: int, context: int) -> Run:
    """The same with weights as the file has them, and so without AMX."""
    from llama_cpp import llama_cpp as library

    make_parameters = library.llama_model_default_params

    def without_other_layouts() -> Any:
        parameters = make_parameters()
        parameters.use_extra_bufts = False
        return parameters

    library.llama_model_default_params = without_other_layouts
    return make_llama_cpp(path, threads, context)


def make_openvino_genai(path: str, threads: int, context: int, **config: Any) -> Run:
    """OpenVINO GenAI on a .gguf file or a folder of optimum-intel, with its own defaults, but for
    the cache of prefixes: it would find the prompt of an earlier turn."""
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    config |= {"INFERENCE_NUM_THREADS": threads, "scheduler_config": scheduler}
    pipeline = genai.LLMPipeline(path, "CPU", **config)

    def run(prompt: Sequence[int], count: int) -> Found:
        ids = ov.Tensor(np.array([prompt], np.int64))
        found = pipeline.generate(ids, max_new_tokens=count + 1, ignore_eos=True, do_sample=False)
        metrics = found.perf_metrics
        seconds = metrics.get_ttft().mean / 1e3
        tokens = [int(t) for t in found.tokens[0]]
        return _found(len(prompt) / seconds, 1e3 / metrics.get_tpot().mean, tokens)

    return run


def make_openvino_genai_f32(path: str, threads: int, context: int) -> Run:
    """OpenVINO GenAI with activations and a cache of f32."""
    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }
    return make_openvino_genai(path, threads, context, **config)


def make_onnxruntime_genai(path: str, threads: int, context: int) -> Run:
    """onnxruntime-genai on a folder of its own."""
    import onnxruntime_genai as genai

    config = genai.Config(path)
    session = {"intra_op_num_threads": threads}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    model = genai.Model(config)

    def run(prompt: Sequence[int], count: int) -> Found:
        length = len(prompt) + count + 1
        parameters = genai.GeneratorParams(model)
        parameters.set_search_options(do_sample=False, min_length=length, max_length=length)
        generator = genai.Generator(model, parameters)
        start = time.perf_counter()
        generator.append_tokens(list(prompt))
        generator.generate_next_token()
        first = time.perf_counter()
        for _ in range(count):
            generator.generate_next_token()
        end = time.perf_counter()
        tokens = [int(t) for t in generator.get_sequence(0)[len(prompt) :]]
        return _found(len(prompt) / (first - start), count / (end - first), tokens)

    return run


def _found(prefill: float, decode: float, tokens: list[int]) -> Found:
    return {"prefill": prefill, "decode": decode, "tokens": tokens}


# The package of each peer, and what makes it.
PEERS: dict[str, tuple[str, Callable[[str, int, int], Run]]] = {
    "llama.cpp": ("llama-cpp-python", make_llama_cpp),
    "llama.cpp no AMX": ("llama-cpp-python", make_llama_cpp_file_layout),
    "openvino-genai": ("openvino-genai", make_openvino_genai),
    "openvino-genai f32": ("openvino-genai", make_openvino_genai_f32),
    "onnxruntime-genai": ("onnxruntime-genai", make_onnxruntime_genai),
}


def main() -> int:
    name, path, threads, context = sys.argv[1:]
    # Libraries print to standard output, too: theirs goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: Found) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    package, make = PEERS[name]
    try:
        run = make(path, int(threads), int(context))
        answer({"ready": importlib.metadata.version(package)})
    except Exception as error:  # whatever a peer raises is why it does not take part
        answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    for line in sys.stdin:
        wanted = json.loads(line)
        answer(run(wanted["prompt"], wanted["count"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
