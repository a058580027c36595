"""irc generate: continue a text, or answer a message, with a language model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..arguments import (
    add_activations,
    add_kv_cache,
    add_precision,
    add_threads,
    amount_of,
    bytes_of,
    count_of,
)
from ..console import print_message, print_piece
from ..logging import print_json

if TYPE_CHECKING:
    from ...llm.llm import LLM
    from ...llm.result import Generation, GenerationStats
    from ...llm.sampling import GenerationOptions

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_language_model(parser)
    parser.add_argument("-p", "--prompt", required=True, help="the text")
    parser.add_argument(
        "--chat", action="store_true", help="answer the text as a message, by the chat template"
    )
    parser.add_argument("--system", metavar="TEXT", help="the system message, with --chat")
    add_sampling(parser)
    parser.add_argument(
        "--num-beams", type=count_of, default=1, help="search with this many beams (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_language_model(parser: argparse.ArgumentParser) -> None:
    """The model and how it is compiled."""
    parser.add_argument(
        "model", help="the model (.gguf, .irc, or a folder with model and tokenizer)"
    )
    add_threads(parser)
    parser.add_argument(
        "--max-memory",
        type=bytes_of,
        metavar="BYTES",
        help="for any file, tensor or arena, such as 500M or 2G (default: four fifths of the "
        "memory there is)",
    )
    parser.add_argument(
        "--context-length",
        type=count_of,
        metavar="TOKENS",
        help="the most tokens of prompt and text (default: what the model declares)",
    )
    parser.add_argument(
        "--chunk",
        type=count_of,
        default=512,
        metavar="TOKENS",
        help="tokens of a prompt that are read at a time (default: 512)",
    )
    add_kv_cache(parser)
    parser.add_argument(
        "--draft",
        metavar="MODEL",
        help="a smaller model of the same tokens that guesses tokens; the text stays the same",
    )
    parser.add_argument(
        "--draft-tokens",
        type=count_of,
        metavar="TOKENS",
        help="tokens that it guesses at a time (default: 4)",
    )
    add_activations(parser)
    add_precision(parser)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """How tokens are chosen, and what is printed about it."""
    parser.add_argument(
        "--max-tokens", type=count_of, default=256, help="the most tokens (default: 256)"
    )
    parser.add_argument(
        "--temperature",
        type=amount_of,
        default=0.0,
        help="divides the logits; 0 takes the most likely token (default: 0)",
    )
    parser.add_argument("--top-k", type=int, default=0, help="draw from the K likeliest tokens")
    parser.add_argument(
        "--top-p", type=float, default=1.0, help="draw from the likeliest tokens of this sum"
    )
    parser.add_argument(
        "--min-p",
        type=float,
        default=0.0,
        help="draw from tokens of at least this fraction of the likeliest one",
    )
    parser.add_argument(
        "--repetition-penalty", type=float, default=1.0, help="above 1: avoid tokens seen before"
    )
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="a text that ends the answer"
    )
    parser.add_argument("--seed", type=int, help="of the draws (default: any)")
    parser.add_argument(
        "--stats", action="store_true", help="print tokens per second and memory on stderr"
    )


def load_model(args: argparse.Namespace) -> LLM:
    """The model of the command line."""
    from ...llm.llm import LLM

    return LLM(
        args.model,
        num_threads=args.threads,
        max_memory=args.max_memory,
        context_length=args.context_length,
        chunk=args.chunk,
        kv_cache=args.kv_cache,
        draft=args.draft,
        activations=args.activations,
        precision=args.precision,
    )


def options_of(args: argparse.Namespace) -> GenerationOptions:
    """The options of the command line. UsageError for one out of range."""
    from ...llm.sampling import GenerationOptions

    return GenerationOptions(
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        stop=args.stop,
        seed=args.seed,
        num_beams=getattr(args, "num_beams", 1),
        draft_tokens=args.draft_tokens,
    )


def run(args: argparse.Namespace) -> int:
    """Print the text as it is generated; with --json or beams, at its end."""
    options = options_of(args)
    if args.system is not None and not args.chat:
        raise UsageError("a system message is part of a conversation", fix="add --chat")
    llm = load_model(args)
    prompt: Any = args.prompt
    if args.chat:
        system = [] if args.system is None else [{"role": "system", "content": args.system}]
        prompt = [*system, {"role": "user", "content": args.prompt}]
    if args.json or options.num_beams > 1:
        result: Generation = llm.generate(prompt, options)
        if args.json:
            print_json(as_json(result))
            return 0
        print_piece(result.text)
    else:
        stream = llm.start_stream(llm.encode(prompt), options)
        for piece in stream:
            print_piece(piece.text)
        result = stream.result
    print_piece("\n")
    if args.stats:
        print_message(*describe_stats(result.stats))
    return 0


def describe_stats(stats: GenerationStats) -> list[str]:
    """Lines for --stats."""
    read = stats.prompt_tokens - stats.cached_tokens
    guesses = f"guesses  {stats.accepted_tokens} of {stats.guessed_tokens} tokens are in the text"
    return [
        f"prefill  {read} tokens  {stats.prefill_seconds:.3f} s  "
        f"{stats.prefill_tokens_per_second:.1f} tokens/s",
        f"decode   {stats.decode_steps} tokens  {stats.decode_seconds:.3f} s  "
        f"{stats.decode_tokens_per_second:.1f} tokens/s",
        *([guesses] if stats.guessed_tokens else []),
        f"memory   weights {stats.model_bytes / 2**20:.1f} MiB, cache "
        f"{stats.cache_bytes / 2**20:.1f} MiB ({stats.kv_cache})",
        f"{stats.cache_bytes / 2**20:.1f} MiB",
        f"products {stats.activations}",
    ]


def as_json(result: Generation) -> dict[str, object]:
    """The result as one object."""
    stats = result.stats
    return {
        "schema": SCHEMA,
        "text": result.text,
        "tokens": list(result.tokens),
        "finish_reason": result.finish_reason,
        "stats": {
            "prompt_tokens": stats.prompt_tokens,
            "generated_tokens": stats.generated_tokens,
            "prefill_seconds": stats.prefill_seconds,
            "decode_seconds": stats.decode_seconds,
            "prefill_tokens_per_second": stats.prefill_tokens_per_second,
            "decode_tokens_per_second": stats.decode_tokens_per_second,
            "guessed_tokens": stats.guessed_tokens,
            "accepted_tokens": stats.accepted_tokens,
            "cache_bytes": stats.cache_bytes,
            "kv_cache": stats.kv_cache,
            "model_bytes": stats.model_bytes,
            "activations": stats.activations,
        },
    }
