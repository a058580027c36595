"""Cases of the specification's text (Open Inference Protocol over gRPC), by its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from irc_compiler.serve.settings import Settings
from irc_compiler.serve.stubs import open_inference_pb2 as pb
from support.serving import WEIGHT, Server, affine, save_model, serving
from tritonclient.grpc import model_config_pb2, service_pb2

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def call(server: Server, method: str, request: Any, answer: Any, **how: Any) -> Any:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return stub(request, timeout=60, wait_for_ready=True, **how)


def request(*, raw: bool, **fields: Any) -> Any:
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[2, 4])
    if not raw:
        tensor.contents.fp32_contents.extend(X.reshape(-1).tolist())
    message = pb.ModelInferRequest(model_name="affine", inputs=[tensor], **fields)
    if raw:
        message.raw_input_contents.append(X.tobytes())
    return message


def fields_of(descriptor: Any) -> dict[str, tuple[int, int]]:
    return {f.name: (f.number, f.type) for f in descriptor.fields}


def test_messages_have_the_fields_of_the_clients() -> None:
    """Each field that the server knows has the number and the type of tritonclient's."""
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name}
    theirs |= model_config_pb2.DESCRIPTOR.message_types_by_name
    compared = 0
    for name, mine in pb.DESCRIPTOR.message_types_by_name.items():
        stack = [(mine, theirs[name])]
        while stack:
            one, other = stack.pop()
            assert fields_of(one).items() <= fields_of(other).items(), name
            compared += len(one.fields)
            inner = other.nested_types_by_name
            stack += [(n, inner[n.name]) for n in one.nested_types]
    assert compared > 100
    enum = model_config_pb2.DataType.DESCRIPTOR.values_by_name
    for value in pb.DataType.DESCRIPTOR.values:
        assert enum[value.name].number == value.number


def test_health_and_metadata(server: Server) -> None:
    assert call(server, "ServerLive", pb.ServerLiveRequest(), pb.ServerLiveResponse).live
    assert call(server, "ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse).ready
    found = call(
        server, "ModelMetadata", pb.ModelMetadataRequest(name="affine"), pb.ModelMetadataResponse
    )
    assert list(found.versions) == ["1"] and list(found.inputs[0].shape) == [-1, 4]
    for name, ready in (("affine", True), ("broken", False), ("nobody", False)):
        message = pb.ModelReadyRequest(name=name)
        assert call(server, "ModelReady", message, pb.ModelReadyResponse).ready is ready


@pytest.mark.parametrize("raw", [True, False])
def test_contents_and_raw_contents(server: Server, raw: bool) -> None:
    """The answer has the form of the request: raw for raw, typed for typed."""
    found = call(server, "ModelInfer", request(raw=raw, id="7"), pb.ModelInferResponse)
    assert (found.model_name, found.model_version, found.id) == ("affine", "1", "7")
    (output,) = found.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", "FP32", [2, 3])
    wanted = X @ WEIGHT
    if raw:
        assert found.raw_output_contents[0] == wanted.tobytes()
        assert not output.HasField("contents")
    else:
        assert list(output.contents.fp32_contents) == wanted.reshape(-1).tolist()
        assert not found.raw_output_contents


def test_typed_contents_of_every_datatype(server: Server) -> None:
    """FP16 and BF16 have no typed form: then the answer is raw as a whole, and so the request."""
    from irc_compiler.serve.rpc.messages import CONTENTS, decode_infer
    from irc_compiler.serve.settings import ServerLimits

    for datatype, field in CONTENTS.items():
        values: list[Any] = [b"a", "ü".encode()] if datatype == "BYTES" else [1, 0]
        tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype=datatype, shape=[2])
        getattr(tensor.contents, field).extend(values)
        message = pb.ModelInferRequest(model_name="m", inputs=[tensor])
        name, array = decode_infer(message, ServerLimits()).inputs["x"]
        wanted = ["a", "ü"] if datatype == "BYTES" else [1, 0]
        assert name == datatype and array.tolist() == wanted


def test_statistics_index_and_config(server: Server) -> None:
    call(server, "ModelInfer", request(raw=True), pb.ModelInferResponse)
    message = pb.ModelStatisticsRequest(name="affine")
    found = call(server, "ModelStatistics", message, pb.ModelStatisticsResponse)
    assert found.model_stats[0].inference_stats.success.count >= 1
    assert found.model_stats[0].memory_usage[0].byte_size > 0
    index = call(server, "RepositoryIndex", pb.RepositoryIndexRequest(), pb.RepositoryIndexResponse)
    states = {m.name: m.state for m in index.models}
    assert states["affine"] == "READY" and states["broken"] == "UNAVAILABLE"
    message = pb.ModelConfigRequest(name="affine")
    config = call(server, "ModelConfig", message, pb.ModelConfigResponse).config
    assert config.max_batch_size == 8 and list(config.input[0].dims) == [4]


def test_tokens(tmp_path: Path) -> None:
    save_model(tmp_path, "affine", affine())
    with serving(tmp_path, Settings(token="s3cret")) as server:
        assert call(server, "ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse).ready
        for metadata in ((), (("authorization", "Bearer wrong"),)):
            with pytest.raises(grpc.RpcError) as caught:
                call(
                    server,
                    "ModelInfer",
                    request(raw=True),
                    pb.ModelInferResponse,
                    metadata=metadata,
                )
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        right = (("authorization", "Bearer s3cret"),)
        found = call(server, "ModelInfer", request(raw=True), pb.ModelInferResponse, metadata=right)
        assert found.raw_output_contents[0] == (X @ WEIGHT).tobytes()
