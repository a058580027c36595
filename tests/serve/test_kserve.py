"""KServe's own clients, unmodified: REST and gRPC.

kserve needs many packages, so it is in none of irc's extras: IRC_KSERVE_PYTHON names an interpreter
that has it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from support.serving import Server

PYTHON = os.environ.get("IRC_KSERVE_PYTHON") or (
    sys.executable if importlib.util.find_spec("kserve") else ""
)

CLIENT = """
import asyncio, sys
import numpy as np
from kserve import InferInput, InferRequest, InferenceGRPCClient, InferenceRESTClient, RESTConfig

x = np.arange(8, dtype=np.float32).reshape(2, 4)
wanted = x @ (np.arange(12, dtype=np.float32).reshape(4, 3) / 8)


def request(binary):
    tensor = InferInput("x", [2, 4], "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    return InferRequest("affine", [tensor], request_id="1")


def check(answer):
    assert answer.id == "1", answer
    np.testing.assert_array_equal(answer.outputs[0].as_numpy().reshape(2, 3), wanted)


async def main(http, rpc):
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    url = f"http://{http}"
    assert await client.is_server_live(url) and await client.is_server_ready(url)
    assert await client.is_model_ready(url, "affine")
    for binary in (False, True):
        check(await client.infer(url, request(binary), model_name="affine"))
    client = InferenceGRPCClient(rpc)
    assert await client.is_server_ready() and await client.is_model_ready("affine")
    check(await client.infer(request(False)))
    await client.close()
    print("ok")


asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_kserve_clients(server: Server) -> None:
    if not PYTHON:
        pytest.skip("not run: kserve is not installed (IRC_KSERVE_PYTHON names an interpreter)")
    words = [PYTHON, "-c", CLIENT, server.http, server.grpc]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "ok" in done.stdout, done.stderr[-3000:]
