"""Options of `irc serve`, and the settings that they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from ....ir.errors import UsageError
from ....serve.settings import Batching, ServerLimits, Settings
from ...arguments import amount_of, bytes_of, count_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument(
        "model", help="a folder with NAME/VERSION/model.{onnx,xml,irc}, or one model file"
    )
    ports = parser.add_argument_group("addresses")
    ports.add_argument("--host", default="127.0.0.1", help="address to bind (default: 127.0.0.1)")
    ports.add_argument("--http", type=port_of, default=8000, help="port of REST (default: 8000)")
    ports.add_argument("--grpc", type=port_of, help="port of gRPC (default: none)")
    ports.add_argument("--metrics", type=port_of, help="port of /metrics alone (default: none)")
    ports.add_argument("--tls-cert", metavar="FILE", help="certificate chain (PEM)")
    ports.add_argument("--tls-key", metavar="FILE", help="private key (PEM)")
    ports.add_argument(
        "--token-file",
        metavar="FILE",
        help="clients must send the bearer token in this file",
    )
    parser.add_argument(
        "--workers",
        type=count_of,
        default=1,
        help="processes that share the ports; one that ends is started again (default: 1)",
    )
    models = parser.add_argument_group("models")
    models.add_argument(
        "--poll",
        type=amount_of,
        default=0.0,
        metavar="SECONDS",
        help="look for new and changed models that often (default: never)",
    )
    models.add_argument(
        "--allow-load",
        action="store_true",
        help="let clients load and unload models of the repository",
    )
    models.add_argument(
        "--precision",
        choices=("f32", "bf16", "f16"),
        help="of matrix products and (not f16) convolutions (default: f32)",
    )
    models.add_argument(
        "--instances",
        type=count_of,
        default=1,
        help="calls of a model that run side by side, with all their threads (default: 1)",
    )
    models.add_argument(
        "--threads",
        type=count_of,
        help="threads of a call (default: the usable CPUs / instances; calls that wait share them)",
    )
    models.add_argument(
        "--max-memory",
        type=bytes_of,
        metavar="BYTES",
        help="for any constant, buffer or input of a model",
    )
    models.add_argument(
        "--max-batch-size",
        type=count_of,
        default=1,
        metavar="ROWS",
        help="join requests to batches of at most that many rows (default: 1)",
    )
    models.add_argument(
        "--max-batch-delay",
        type=amount_of,
        default=500.0,
        metavar="US",
        help="microseconds that a request waits for others (default: 500)",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-queue",
        type=count_of,
        default=128,
        metavar="REQUESTS",
        help="waiting requests of a model; more are refused (default: 128)",
    )
    limits.add_argument(
        "--max-body",
        type=bytes_of,
        default=ServerLimits.body_bytes,
        metavar="BYTES",
        help="of a request, decompressed (default: 64M)",
    )
    limits.add_argument(
        "--max-connections",
        type=count_of,
        default=ServerLimits.connections,
        help="open HTTP connections (default: 1024)",
    )
    limits.add_argument(
        "--drain",
        type=amount_of,
        default=30.0,
        metavar="SECONDS",
        help="time for running requests after SIGTERM (default: 30)",
    )
    shown = parser.add_argument_group("observation")
    shown.add_argument(
        "--metric-names",
        choices=("irc", "triton", "ovms"),
        default="irc",
        help="names of the metrics (default: irc)",
    )
    shown.add_argument(
        "--log",
        choices=("text", "json"),
        default="text",
        help="form of the log on stderr; -v logs each request (default: text)",
    )


def port_of(text: str) -> int:
    """A port, for argparse; 0 is any that is free."""
    value = int(text) if text.isascii() and text.isdecimal() else -1
    if not 0 <= value < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return value


def make_settings(args: argparse.Namespace) -> Settings:
    """The settings that the options describe."""
    batching = None
    if args.max_batch_size > 1:
        batching = Batching(args.max_batch_size, int(args.max_batch_delay))
    return Settings(
        limits=ServerLimits(
            body_bytes=args.max_body,
            tensor_bytes=args.max_body,
            connections=args.max_connections,
        ),
        batching=batching,
        instances=args.instances,
        threads=args.threads,
        precision=args.precision,
        max_memory=args.max_memory,
        queue_size=args.max_queue,
        poll_seconds=args.poll,
        allow_load=args.allow_load,
        token=read_token(args.token_file),
        metric_names=args.metric_names,
        drain_seconds=args.drain,
    )


def read_token(path: str | None) -> str | None:
    """The bearer token in a file. An option would show it to every user of the machine."""
    if path is None:
        return None
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        expected = "a file with one line of ASCII"
        raise UsageError("the token can't be read", where=path, expected=expected) from error
    if not token or any(c.isspace() for c in token):
        raise UsageError("the token is empty or has spaces", where=path, expected="one word")
    return token
