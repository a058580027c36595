"""Real clients, unmodified: tritonclient over HTTP and gRPC, with asyncio and streaming."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpcaio
import tritonclient.http as httpclient
import tritonclient.http.aio as httpaio
from support.serving import ELEMENT_TYPES, WEIGHT, Server
from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)
MODULES = {"http": httpclient, "grpc": grpcclient}


def connect(server: Server, protocol: str) -> Any:
    return MODULES[protocol].InferenceServerClient(getattr(server, protocol))


def tensor(module: Any, array: Any, datatype: str, name: str = "x", **how: Any) -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **how)
    return made


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


def test_health_and_metadata(server: Server, protocol: str) -> None:
    with connect(server, protocol) as client:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("affine") and client.is_model_ready("affine", "1")
        assert not client.is_model_ready("nobody")
        assert not client.is_model_ready("broken")
        metadata = client.get_server_metadata()
        model = client.get_model_metadata("affine")
        config = client.get_model_config("affine")
    if protocol == "grpc":
        assert metadata.name == "irc" and "binary_tensor_data" in metadata.extensions
        assert list(model.inputs[0].shape) == [-1, 4] and model.inputs[0].datatype == "FP32"
        assert config.config.max_batch_size == 8
        assert config.config.dynamic_batching.max_queue_delay_microseconds == 2000
        return
    assert metadata["name"] == "irc" and "binary_tensor_data" in metadata["extensions"]
    assert model == {
        "name": "affine",
        "versions": ["1"],
        "platform": "irc",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    }
    assert config["max_batch_size"] == 8 and config["input"][0]["dims"] == [4]


def test_infer(server: Server, protocol: str) -> None:
    module = MODULES[protocol]
    with connect(server, protocol) as client:
        result = client.infer("affine", [tensor(module, X, "FP32")], request_id="seven")
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)
        response = result.get_response()
        assert (response.id if protocol == "grpc" else response["id"]) == "seven"
        wanted = [module.InferRequestedOutput("y")]
        result = client.infer("affine", [tensor(module, X, "FP32")], "1", outputs=wanted)
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)


@pytest.mark.parametrize("binary_input", [True, False])
@pytest.mark.parametrize("binary_output", [True, False])
def test_json_and_binary(server: Server, binary_input: bool, binary_output: bool) -> None:
    with connect(server, "http") as client:
        given = [tensor(httpclient, X, "FP32", binary_data=binary_input)]
        wanted = [httpclient.InferRequestedOutput("y", binary_data=binary_output)]
        result = client.infer("affine", given, outputs=wanted)
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)


@pytest.mark.parametrize("request_by", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_by", [None, "gzip", "deflate"])
def test_compression_over_http(
    server: Server, request_by: str | None, response_by: str | None
) -> None:
    x = np.tile(X, (400, 1))
    with connect(server, "http") as client:
        result = client.infer(
            "affine",
            [tensor(httpclient, x, "FP32")],
            request_compression_algorithm=request_by,
            response_compression_algorithm=response_by,
        )
        np.testing.assert_array_equal(result.as_numpy("y"), x @ WEIGHT)
        assert result.get_response()["outputs"][0]["shape"] == [800, 3]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression_over_grpc(server: Server, algorithm: str) -> None:
    with connect(server, "grpc") as client:
        given = [tensor(grpcclient, X, "FP32")]
        result = client.infer("affine", given, compression_algorithm=algorithm)
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)


def values_of(datatype: str) -> Any:
    if datatype == "BYTES":
        return np.array([["", "a"], ["grün", "x" * 1000]], object)
    if datatype == "BOOL":
        return np.array([[True, False], [False, True]])
    if datatype.startswith("FP"):
        return np.array([[1.5, -2], [0, 1024]], f"f{int(datatype[2:]) // 8}")
    if datatype == "BF16":
        return np.array([[1.5, -2], [0, 1024]], ml_dtypes.bfloat16)
    info = np.iinfo(datatype.lower())
    return np.array([[info.min, info.max], [0, 1]], info.dtype)


def assert_identity(result: Any, datatype: str) -> None:
    found, wanted = result.as_numpy(f"out_{datatype}"), values_of(datatype)
    if datatype == "BYTES":
        texts = [v.decode() if isinstance(v, bytes) else v for v in found.reshape(-1)]
        found = np.array(texts, object).reshape(found.shape)
    np.testing.assert_array_equal(found.astype(wanted.dtype), wanted, datatype)


def test_every_datatype(server: Server, protocol: str) -> None:
    module = MODULES[protocol]
    given = [tensor(module, values_of(d), d, d) for d in ELEMENT_TYPES]
    with connect(server, protocol) as client:
        result = client.infer("identities", given)
    for datatype in ELEMENT_TYPES:
        assert_identity(result, datatype)


def test_every_datatype_as_json(server: Server) -> None:
    """FP16 and BF16 are binary in the same message: JSON does not have them."""
    given, wanted = list[Any](), list[Any]()
    for datatype in ELEMENT_TYPES:
        binary = datatype in ("FP16", "BF16")
        array = values_of(datatype)
        given.append(tensor(httpclient, array, datatype, datatype, binary_data=binary))
        name = f"out_{datatype}"
        wanted.append(httpclient.InferRequestedOutput(name, binary_data=binary))
    with connect(server, "http") as client:
        result = client.infer("identities", given, outputs=wanted)
        for datatype in ELEMENT_TYPES:
            assert_identity(result, datatype)
        wanted = [httpclient.InferRequestedOutput("out_BF16", binary_data=False)]
        with pytest.raises(InferenceServerException, match="JSON has no BF16"):
            client.infer("identities", given, outputs=wanted)


def test_errors_reach_the_client(server: Server, protocol: str) -> None:
    module = MODULES[protocol]
    with connect(server, protocol) as client:
        with pytest.raises(InferenceServerException, match="unknown model"):
            client.infer("nobody", [tensor(module, X, "FP32")])
        with pytest.raises(InferenceServerException, match="unknown version"):
            client.infer("affine", [tensor(module, X, "FP32")], "7")
        with pytest.raises(InferenceServerException, match="not ready"):
            client.infer("broken", [tensor(module, X, "FP32")])
        with pytest.raises(InferenceServerException, match="unknown input"):
            client.infer("affine", [tensor(module, X, "FP32", "z")])
        with pytest.raises(InferenceServerException, match="shape"):
            client.infer("affine", [tensor(module, X[:, :3], "FP32")])
        with pytest.raises(InferenceServerException, match="datatype"):
            client.infer("affine", [tensor(module, X.astype(np.int32), "INT32")])
        with pytest.raises(InferenceServerException, match="unknown output"):
            wanted = [module.InferRequestedOutput("z")]
            client.infer("affine", [tensor(module, X, "FP32")], outputs=wanted)
        assert client.is_server_ready()


def test_shared_memory_is_refused(server: Server, protocol: str) -> None:
    with connect(server, protocol) as client:
        with pytest.raises(InferenceServerException, match="shared memory is not supported"):
            client.register_system_shared_memory("region", "/key", 64)
        with pytest.raises(InferenceServerException, match="shared memory is not supported"):
            given = MODULES[protocol].InferInput("x", [2, 4], "FP32")
            given.set_shared_memory("region", 32)
            client.infer("affine", [given])


def test_load_requests_are_off(server: Server, protocol: str) -> None:
    with connect(server, protocol) as client:
        index = client.get_model_repository_index()
        with pytest.raises(InferenceServerException, match="--allow-load"):
            client.load_model("affine")
        with pytest.raises(InferenceServerException, match="--allow-load"):
            client.unload_model("affine")
    models = index.models if protocol == "grpc" else index
    states = {(m.name, m.state) if protocol == "grpc" else (m["name"], m["state"]) for m in models}
    assert {("affine", "READY"), ("broken", "UNAVAILABLE")} <= states


def test_statistics(server: Server, protocol: str) -> None:
    module = MODULES[protocol]
    with connect(server, protocol) as client:
        client.infer("affine", [tensor(module, X, "FP32")])
        found = client.get_inference_statistics("affine")
    if protocol == "grpc":
        assert found.model_stats[0].inference_stats.success.count >= 1
    else:
        assert found["model_stats"][0]["inference_stats"]["success"]["count"] >= 1


def test_asyncio_over_http(server: Server) -> None:
    async def main() -> None:
        async with httpaio.InferenceServerClient(server.http) as client:
            assert await client.is_server_ready()
            given = [[tensor(httpclient, X + n, "FP32")] for n in range(20)]
            results = await asyncio.gather(*(client.infer("affine", g) for g in given))
            for n, result in enumerate(results):
                np.testing.assert_array_equal(result.as_numpy("y"), (X + n) @ WEIGHT)

    asyncio.run(main())


def test_asyncio_over_grpc(server: Server) -> None:
    async def main() -> None:
        async with grpcaio.InferenceServerClient(server.grpc) as client:
            assert await client.is_server_ready()
            given = [[tensor(grpcclient, X + n, "FP32")] for n in range(20)]
            results = await asyncio.gather(*(client.infer("affine", g) for g in given))
            for n, result in enumerate(results):
                np.testing.assert_array_equal(result.as_numpy("y"), (X + n) @ WEIGHT)

    asyncio.run(main())


def test_streaming(server: Server) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with connect(server, "grpc") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for n in range(40):
            given = [tensor(grpcclient, X + n, "FP32")]
            client.async_stream_infer("affine", given, request_id=str(n))
        client.async_stream_infer("nobody", [tensor(grpcclient, X, "FP32")])
        client.async_stream_infer(
            "affine", [tensor(grpcclient, X, "FP32")], enable_empty_final_response=True
        )
        for n in range(40):
            result, error = answers.get(timeout=60)
            assert error is None and result.get_response().id == str(n)
            np.testing.assert_array_equal(result.as_numpy("y"), (X + n) @ WEIGHT)
        _, error = answers.get(timeout=60)
        assert "unknown model" in str(error)
        result, error = answers.get(timeout=60)
        assert result.get_response().parameters["triton_final_response"].bool_param
        client.stop_stream()


def test_sequences(server: Server, protocol: str) -> None:
    """Two sequences of one model, step by step, against the sums that its variable grows to."""
    module, first = MODULES[protocol], 101 if protocol == "http" else 201

    def step(client: Any, value: float, **how: Any) -> float:
        x = np.full((1, 4), value, np.float32)
        result = client.infer("growing", [tensor(module, x, "FP32")], **how)
        return float(result.as_numpy("total").reshape(-1)[0])

    with connect(server, protocol) as client:
        a, b = first, "text" + protocol
        assert step(client, 1, sequence_id=a, sequence_start=True) == 6
        assert step(client, 10, sequence_id=b, sequence_start=True) == 15
        assert step(client, 2, sequence_id=a) == 8
        assert step(client, 20, sequence_id=b) == 35
        assert step(client, 3, sequence_id=a, sequence_end=True) == 11
        with pytest.raises(InferenceServerException, match="sequence_start"):
            step(client, 4, sequence_id=a)
        assert step(client, 4, sequence_id=b, sequence_start=True) == 9
        assert step(client, 1) == 6  # without an id each call starts from the initial values
        assert step(client, 5, sequence_id=b, sequence_end=True) == 14


def test_callbacks(server: Server) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with connect(server, "grpc") as client:
        client.async_infer(
            "affine",
            [tensor(grpcclient, X, "FP32")],
            lambda result, error: answers.put((result, error)),
        )
        result, error = answers.get(timeout=60)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)
    with connect(server, "http") as client:
        result = client.async_infer("affine", [tensor(httpclient, X, "FP32")]).get_result()
        np.testing.assert_array_equal(result.as_numpy("y"), X @ WEIGHT)
