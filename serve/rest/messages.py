"""Inference requests and responses as JSON, with the binary tensor data extension."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import orjson
from msgspec import Raw, Struct

from ..datatypes import RAW_ONLY, decode_json, decode_raw, view_raw
from ..errors import RequestError, UnsupportedError
from ..inference import Inference, InferenceResult, refuse_unsupported
from ..settings import ServerLimits

BINARY_HEADER = "inference-header-content-length"
Parameters = dict[str, str | int | float | bool | None]
_NO_DATA = Raw()


class InputTensor(Struct):
    """An input of a request."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: Raw = _NO_DATA


class OutputRequest(Struct):
    """An output that the client requests."""

    name: str
    parameters: Parameters = {}


class InferRequest(Struct):
    """The JSON of a request. Unknown fields are left alone."""

    inputs: list[InputTensor]
    id: str = ""
    parameters: Parameters = {}
    outputs: list[OutputRequest] = []


class LoadRequest(Struct):
    """The JSON of a repository request."""

    parameters: dict[str, Any] = {}
    ready: bool = False


_REQUEST = msgspec.json.Decoder(InferRequest)
_LOAD = msgspec.json.Decoder(LoadRequest)


def decode_object(decoder: msgspec.json.Decoder[Any], text: Any) -> Any:
    """The object in a JSON text. RequestError that says where it is wrong."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError("the JSON of the request is wrong", got=str(error)[:300]) from None
    except RecursionError:
        raise RequestError("the JSON of the request is nested too deeply") from None


def decode_load(body: bytes) -> LoadRequest:
    """A repository request; an empty body is one without parameters."""
    return decode_object(_LOAD, body) if body.strip() else LoadRequest()


def decode_infer(
    model: str, version: str, body: bytes, json_length: str | None, limits: ServerLimits
) -> tuple[Inference, Mapping[str, bool]]:
    """A request, and for each requested output (`""`: any other) whether it is returned as binary.
    json_length: the header that says where the JSON ends and the binary data begins."""
    end = len(body)
    if json_length is not None:
        if not (json_length.isascii() and json_length.isdecimal() and len(json_length) < 16):
            got = json_length[:40]
            raise RequestError("bad Inference-Header-Content-Length", got=got, expected="a number")
        end = int(json_length)
        if end > len(body):
            expected = f"at most the body's {len(body)} bytes"
            raise RequestError(
                "Inference-Header-Content-Length exceeds the body", got=end, expected=expected
            )
    view = memoryview(body)
    request: InferRequest = decode_object(_REQUEST, view[:end])
    inputs, at = dict[str, tuple[str, Any]](), end
    for tensor in request.inputs:
        name = tensor.name
        if name in inputs:
            raise RequestError("an input is given twice", got=name[:200])
        refuse_unsupported(name, tensor.parameters)
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            array = _decode_data(tensor, limits)
        else:
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                got = repr(size)[:40]
                raise RequestError(f"input {name!r}: bad binary_data_size", got=got)
            if tensor.data:
                raise RequestError(f"input {name!r} has both data and binary data")
            if size > len(body) - at:
                got, expected = f"{size} bytes", f"at most the {len(body) - at} that remain"
                raise RequestError(
                    f"input {name!r}: binary_data_size exceeds the body", got=got, expected=expected
                )
            data = view[at : at + size]
            array = decode_raw(name, tensor.datatype, tensor.shape, data, limits.tensor_bytes)
            at += size
        inputs[name] = (tensor.datatype, array)
    if at != len(body):
        raise RequestError("the body has bytes that no input takes", got=f"{len(body) - at} bytes")
    names = [o.name for o in request.outputs]
    found = Inference(model, version, request.id, inputs, names, request.parameters)
    return found, _binary_outputs(request)


def _decode_data(tensor: InputTensor, limits: ServerLimits) -> Any:
    data = memoryview(tensor.data)
    if not data:
        fix = 'give "data", or binary data with binary_data_size'
        raise RequestError(f"input {tensor.name!r} has no data", fix=fix)
    if _is_deeper(bytes(data[: 4 * limits.json_depth]), limits.json_depth):
        expected = f"at most {limits.json_depth} levels"
        raise RequestError(f"input {tensor.name!r} is nested too deeply", expected=expected)
    return decode_json(tensor.name, tensor.datatype, tensor.shape, data, limits.tensor_bytes)


def _is_deeper(text: bytes, depth: int) -> bool:
    return text.translate(None, b" \t\r\n").startswith(b"[" * (depth + 1))


def _binary_outputs(request: InferRequest) -> Mapping[str, bool]:
    found = {"": request.parameters.get("binary_data_output") is True}
    for output in request.outputs:
        refuse_unsupported(output.name, output.parameters)
        wanted = output.parameters.get("binary_data")
        found[output.name] = found[""] if wanted is None else wanted is True
    return found


def encode_result(result: InferenceResult, binary: Mapping[str, bool]) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON if binary data follows it."""
    outputs, blobs, finite = list[dict[str, Any]](), list[memoryview | bytes](), True
    for port, array in result.outputs:
        entry: dict[str, Any] = {
            "name": port.name,
            "datatype": port.datatype,
            "shape": list(array.shape),
        }
        if binary.get(port.name, binary[""]):
            blobs.append(view_raw(array))
            entry["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            if port.datatype in RAW_ONLY:
                fix = "request binary_data for it"
                raise UnsupportedError(
                    f"output {port.name!r}: JSON has no {port.datatype}", fix=fix
                )
            flat = np.ascontiguousarray(array).reshape(-1)
            if flat.dtype.kind == "f":
                finite = finite and bool(np.isfinite(flat).all())
            entry["data"] = flat.tolist() if flat.dtype.kind == "O" else flat
        outputs.append(entry)
    head = {"model_name": result.model, "model_version": result.version, "outputs": outputs}
    text = _dump({"id": result.id, **head} if result.id else head, finite)
    return b"".join((text, *blobs)), len(text) if blobs else None


def _dump(message: dict[str, Any], finite: bool) -> bytes:
    if finite:
        return orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY)
    # JSON has no NaN and infinities. orjson writes null, which is another value; Python's tokens
    # (NaN, Infinity) are what Triton writes and its clients read.
    return json.dumps(message, default=lambda array: array.tolist()).encode()
