"""Hostile requests: each gets the protocol's error, and the server answers the next request.

The tables of this folder are the classes; docs/dev/testing.md points here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.serving import Server


@pytest.fixture(scope="session")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Models affine and identities behind small limits."""
    from irc_compiler.serve.settings import Settings
    from support.hostile_requests import LIMITS
    from support.serving import affine, identities, save_model, serving

    folder = tmp_path_factory.mktemp("models")
    save_model(folder, "affine", affine())
    save_model(folder, "identities", identities())
    with serving(folder, Settings(limits=LIMITS)) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy(hostile_server: Server) -> Iterator[None]:
    """After each case a good request is answered over both protocols."""
    import numpy as np
    from irc_compiler.serve.stubs import open_inference_pb2 as pb
    from support.hostile_requests import GOOD, INFER, X, good_message, post, rpc
    from support.serving import WEIGHT

    yield
    status, body = post(hostile_server, INFER, json.dumps({"inputs": [GOOD]}).encode())
    assert status == 200, body
    found = np.reshape(json.loads(body)["outputs"][0]["data"], (2, 3))
    np.testing.assert_array_equal(found.astype(np.float32), X @ WEIGHT)
    response = pb.ModelInferResponse.FromString(rpc(hostile_server, "ModelInfer", good_message()))
    assert response.raw_output_contents[0] == (X @ WEIGHT).tobytes()
