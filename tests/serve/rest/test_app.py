"""Cases of the specification's text (Open Inference Protocol over REST), each as plain HTTP."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from irc_compiler.serve.rest.app import (
    LARGE_TENSOR_BYTES,
    LARGE_TEXT_BYTES,
    needs_another_thread,
)
from irc_compiler.serve.settings import Settings
from support.serving import WEIGHT, Server, affine, make_model, save_model, serving

X = np.arange(8, dtype=np.float32).reshape(2, 4)
INPUT: dict[str, Any] = {"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.tolist()}
INFER = "/v2/models/affine/infer"


def ask(
    server: Server, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, text, headers or {})
        response = connection.getresponse()
        found = {k.lower(): v for k, v in response.getheaders()}
        return response.status, found, response.read()
    finally:
        connection.close()


def get(server: Server, path: str) -> tuple[int, Any]:
    status, headers, body = ask(server, "GET", path)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)


def infer(server: Server, **fields: Any) -> tuple[int, Any]:
    status, _, body = ask(server, "POST", INFER, {"inputs": [INPUT], **fields})
    return status, json.loads(body)


@pytest.mark.parametrize(
    "text, size, header, needed",
    [
        (b"{}", LARGE_TEXT_BYTES, None, False),
        (b"{}", LARGE_TEXT_BYTES + 1, None, True),
        (b"{}", LARGE_TEXT_BYTES + 1, "2", False),
        (b"{}", LARGE_TENSOR_BYTES, "2", False),
        (b"{}", LARGE_TENSOR_BYTES + 1, "2", True),
        (b'{"datatype": "BYTES"}', LARGE_TEXT_BYTES + 1, "21", True),
        (b'{"datatype": "\\u0042YTES"}', LARGE_TEXT_BYTES + 1, "26", True),
        (b"{}", LARGE_TEXT_BYTES + 1, str(LARGE_TEXT_BYTES + 1), True),
        (b"{}", LARGE_TEXT_BYTES + 1, "9" * 5000, True),
        (b"{}", LARGE_TEXT_BYTES + 1, "two", True),
        (b"{}", LARGE_TEXT_BYTES + 1, "\u0662", True),
    ],
)
def test_bodies_that_take_long_are_decoded_in_another_thread(
    text: bytes, size: int, header: str | None, needed: bool
) -> None:
    assert needs_another_thread(text.ljust(size), header) is needed


def test_health(server: Server) -> None:
    """Server live and server ready answer 200; a model that is not ready does not."""
    assert get(server, "/v2/health/live")[0] == 200
    assert get(server, "/v2/health/ready")[0] == 200
    assert get(server, "/v2/models/affine/ready")[0] == 200
    assert get(server, "/v2/models/affine/versions/1/ready")[0] == 200
    assert get(server, "/v2/models/broken/ready")[0] == 503
    assert get(server, "/v2/models/nobody/ready")[0] == 404


def test_server_metadata(server: Server) -> None:
    """$metadata_server_response: name, version, extensions, all texts."""
    status, found = get(server, "/v2")
    assert status == 200 and sorted(found) == ["extensions", "name", "version"]
    assert all(isinstance(e, str) for e in found["extensions"])


def test_model_metadata(server: Server) -> None:
    """$metadata_model_response: versions as texts, -1 for a size that varies."""
    status, found = get(server, "/v2/models/affine")
    assert status == 200 and found["name"] == "affine" and found["versions"] == ["1"]
    assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert found["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
    assert get(server, "/v2/models/affine/versions/1")[1] == found
    status, found = get(server, "/v2/models/nobody")
    assert status == 404 and sorted(found) == ["error"] and isinstance(found["error"], str)


def test_infer_response(server: Server) -> None:
    """$inference_response: model_name, model_version, the request's id, outputs row-major."""
    status, found = infer(server, id="42")
    assert status == 200 and found["model_name"] == "affine" and found["model_version"] == "1"
    assert found["id"] == "42"
    (output,) = found["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [2, 3])
    assert output["data"] == (X @ WEIGHT).reshape(-1).tolist()
    assert "id" not in infer(server)[1]


def test_data_may_be_flat_or_nested(server: Server) -> None:
    flat = {**INPUT, "data": X.reshape(-1).tolist()}
    status, _, body = ask(server, "POST", INFER, {"inputs": [flat]})
    assert status == 200 and json.loads(body) == infer(server)[1]


def test_integers_are_numbers_of_fp32(server: Server) -> None:
    whole = {**INPUT, "data": X.astype(int).tolist()}
    status, _, body = ask(server, "POST", INFER, {"inputs": [whole]})
    assert status == 200 and json.loads(body) == infer(server)[1]


def test_unknown_parameters_and_fields_are_left_alone(server: Server) -> None:
    extra = {**INPUT, "parameters": {"note": "a", "level": 1}, "more": {"a": [1]}}
    body = {"inputs": [extra], "parameters": {"priority": 1, "x": True}, "comment": [[1]]}
    assert ask(server, "POST", INFER, body)[0] == 200


def test_requested_outputs(server: Server) -> None:
    status, found = infer(server, outputs=[{"name": "y"}])
    assert status == 200 and [o["name"] for o in found["outputs"]] == ["y"]


def test_a_version_in_the_path(server: Server) -> None:
    path = "/v2/models/affine/versions/1/infer"
    assert ask(server, "POST", path, {"inputs": [INPUT]})[0] == 200


def test_binary_extension(server: Server) -> None:
    """JSON, then each tensor's bytes; the header gives the JSON's length, both ways."""
    tensor = {k: v for k, v in INPUT.items() if k != "data"}
    tensor["parameters"] = {"binary_data_size": X.nbytes}
    outputs = [{"name": "y", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    sent = {"Inference-Header-Content-Length": str(len(head))}
    status, headers, body = ask(server, "POST", INFER, head + X.tobytes(), sent)
    assert status == 200 and headers["content-type"] == "application/octet-stream"
    length = int(headers["inference-header-content-length"])
    (output,) = json.loads(body[:length])["outputs"]
    assert "data" not in output and output["parameters"] == {"binary_data_size": 24}
    assert body[length:] == (X @ WEIGHT).tobytes()


def test_binary_output_of_the_whole_request(server: Server) -> None:
    outputs = [{"name": "y", "parameters": {"binary_data": False}}]
    parameters = {"binary_data_output": True}
    status, headers, _ = ask(server, "POST", INFER, {"inputs": [INPUT], "parameters": parameters})
    assert status == 200 and "inference-header-content-length" in headers
    found = {"inputs": [INPUT], "parameters": parameters, "outputs": outputs}
    assert "inference-header-content-length" not in ask(server, "POST", INFER, found)[1]


def test_nan_and_infinity_are_not_made_null(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    port = (TensorProto.FLOAT, ["N"])
    nodes = [helper.make_node("Sqrt", ["x"], ["r"]), helper.make_node("Div", ["r", "z"], ["y"])]
    content = make_model(nodes, {"x": port}, {"y": port}, z=np.zeros(1, np.float32))
    save_model(tmp_path, "m", content)
    with serving(tmp_path) as server:
        tensor = {"name": "x", "shape": [2], "datatype": "FP32", "data": [-1, 4]}
        body = ask(server, "POST", "/v2/models/m/infer", {"inputs": [tensor]})[2]
    np.testing.assert_array_equal(json.loads(body)["outputs"][0]["data"], [np.nan, np.inf])


def test_statistics(server: Server) -> None:
    before = get(server, "/v2/models/affine/stats")[1]["model_stats"][0]
    assert infer(server)[0] == 200
    after = get(server, "/v2/models/affine/versions/1/stats")[1]["model_stats"][0]
    grown = [s["inference_stats"]["success"]["count"] for s in (before, after)]
    assert grown[1] == grown[0] + 1
    assert after["inference_count"] == before["inference_count"] + 2
    assert after["last_inference"] >= before["last_inference"]
    names = {m["name"] for m in get(server, "/v2/models/stats")[1]["model_stats"]}
    assert {"affine", "counting"} <= names and "broken" not in names


def test_repository_index(server: Server) -> None:
    status, _, body = ask(server, "POST", "/v2/repository/index", {})
    found = {m["name"]: m for m in json.loads(body)}
    assert status == 200 and found["affine"]["state"] == "READY"
    assert found["broken"]["state"] == "UNAVAILABLE" and found["broken"]["reason"]
    _, _, body = ask(server, "POST", "/v2/repository/index", {"ready": True})
    assert "broken" not in {m["name"] for m in json.loads(body)}


def test_request_ids_come_back(server: Server) -> None:
    _, headers, _ = ask(server, "GET", "/v2", headers={"X-Request-Id": "abc-1"})
    assert headers["x-request-id"] == "abc-1"
    for bad in ("a b", "a" * 500, "<script>"):
        _, headers, _ = ask(server, "GET", "/v2", headers={"X-Request-Id": bad})
        assert headers["x-request-id"] != bad and len(headers["x-request-id"]) == 16


@pytest.mark.slow
def test_keep_alive_answers_many_requests(server: Server) -> None:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    for _ in range(20):
        connection.request("POST", INFER, json.dumps({"inputs": [INPUT]}))
        assert connection.getresponse().read()
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", "Bearer wrong", "Bearer s3cretx", "s3cret"])
def test_a_wrong_token_is_refused(tmp_path: Path, given: str) -> None:
    save_model(tmp_path, "affine", affine())
    with serving(tmp_path, Settings(token="s3cret")) as server:
        headers = {"Authorization": given} if given else {}
        for method, path in (("GET", "/v2"), ("POST", INFER), ("GET", "/metrics"), ("GET", "/")):
            status, found, body = ask(server, method, path, None, headers)
            assert status == 401 and found["www-authenticate"] == "Bearer"
            assert b"s3cret" not in body
        assert ask(server, "GET", "/v2/health/ready")[0] == 200
        right = {"Authorization": "Bearer s3cret"}
        assert ask(server, "POST", INFER, {"inputs": [INPUT]}, right)[0] == 200
        assert "s3cret" not in repr(server.running.engine.settings)
