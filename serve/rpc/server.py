"""The gRPC server: options that bound what clients cost, TLS, start and stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ...ir.errors import UsageError
from ..inference import Engine
from ..settings import Endpoints, ServerLimits
from .service import Service


def server_options(limits: ServerLimits, *, share: bool) -> list[tuple[str, Any]]:
    """gRPC's options for these limits. share: the port, with other processes."""
    seconds = int(limits.header_seconds * 1000)
    return [
        ("grpc.max_receive_message_length", limits.body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        ("grpc.max_concurrent_streams", max(limits.streams, 128)),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.server_handshake_timeout_ms", seconds),
        ("grpc.keepalive_time_ms", int(limits.keep_alive_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", seconds),
        ("grpc.so_reuseport", int(share)),
    ]


async def start_grpc(engine: Engine, endpoints: Endpoints) -> tuple[grpc.aio.Server, int]:
    """A started server and its port. UsageError if the address is taken."""
    limits = engine.settings.limits
    options = server_options(limits, share=engine.settings.group is not None)
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.rpcs)
    server.add_generic_rpc_handlers((Service(engine).handler(),))
    address = f"{endpoints.host}:{endpoints.grpc}"
    try:
        if endpoints.tls_cert is None:
            port = server.add_insecure_port(address)
        else:
            pair = (_read(endpoints.tls_key or endpoints.tls_cert), _read(endpoints.tls_cert))
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        fix = "choose another port with --grpc"
        raise UsageError("gRPC can't listen", where=address, got=str(error), fix=fix) from None
    await server.start()
    return server, port


def _read(path: str) -> bytes:
    return Path(path).read_bytes()
