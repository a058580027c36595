"""Inference requests and responses as protobuf messages: raw contents and typed contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..datatypes import NUMPY, RAW_ONLY, Array, count_elements, decode_raw, decode_text, encode_raw
from ..errors import RequestError
from ..inference import Inference, InferenceResult, Parameter, refuse_unsupported
from ..settings import ServerLimits
from ..stubs import open_inference_pb2 as pb

# The field of InferTensorContents that holds each datatype.
CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def read_parameters(given: Mapping[str, pb.InferParameter]) -> dict[str, Parameter]:
    """Parameters as Python values."""
    found = dict[str, Parameter]()
    for name, parameter in given.items():
        which = parameter.WhichOneof("parameter_choice")
        found[name] = None if which is None else getattr(parameter, which)
    return found


def decode_infer(request: pb.ModelInferRequest, limits: ServerLimits) -> Inference:
    """A request. RequestError for tensors that do not fit what is said about them."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(
            "raw_input_contents does not fit the inputs",
            got=f"{len(raw)} contents",
            expected=f"{len(request.inputs)}, one for each input",
        )
    inputs = dict[str, tuple[str, Array]]()
    for number, tensor in enumerate(request.inputs):
        name = tensor.name
        if name in inputs:
            raise RequestError("an input is given twice", got=name[:200])
        if tensor.parameters:
            refuse_unsupported(name, read_parameters(tensor.parameters))
        shape, datatype = tuple(tensor.shape), tensor.datatype
        if raw:
            if tensor.HasField("contents"):
                raise RequestError(f"input {name!r} has both contents and raw contents")
            array = decode_raw(name, datatype, shape, raw[number], limits.tensor_bytes)
        else:
            array = _decode_contents(name, datatype, shape, tensor.contents, limits)
        inputs[name] = (datatype, array)
    for output in request.outputs:
        if output.parameters:
            refuse_unsupported(output.name, read_parameters(output.parameters))
    return Inference(
        request.model_name,
        request.model_version,
        request.id,
        inputs,
        [o.name for o in request.outputs],
        read_parameters(request.parameters),
    )


def _decode_contents(
    name: str,
    datatype: str,
    shape: tuple[int, ...],
    contents: pb.InferTensorContents,
    limits: ServerLimits,
) -> Array:
    count = count_elements(name, datatype, shape, limits.tensor_bytes)
    if datatype in RAW_ONLY:
        fix = "use raw_input_contents"
        raise RequestError(f"input {name!r}: typed contents have no {datatype}", fix=fix)
    field = CONTENTS[datatype]
    others = [d.name for d, _ in contents.ListFields() if d.name != field]
    if others:
        what = f"input {name!r}: contents of another datatype"
        raise RequestError(what, got=others[0], expected=field)
    values: Any = getattr(contents, field)
    if len(values) != count:
        expected = f"{datatype}{list(shape)}, {count} values"
        what = f"input {name!r}: the number of values does not fit the shape"
        raise RequestError(what, got=len(values), expected=expected)
    if datatype == "BYTES":
        return np.array([decode_text(name, v) for v in values], object).reshape(shape)
    try:
        return np.array(values, NUMPY[datatype]).reshape(shape)
    except OverflowError:
        raise RequestError(f"input {name!r}: a value is out of range", expected=datatype) from None


def encode_result(
    result: InferenceResult, *, raw: bool, final: bool | None = None
) -> pb.ModelInferResponse:
    """The response: raw, or typed contents where every output has such. final: the value of
    `triton_final_response`, where a stream's client requests it."""
    response = pb.ModelInferResponse(
        model_name=result.model, model_version=result.version, id=result.id
    )
    raw = raw or any(port.datatype in RAW_ONLY for port, _ in result.outputs)
    for port, array in result.outputs:
        output = response.outputs.add(name=port.name, datatype=port.datatype, shape=array.shape)
        if raw:
            response.raw_output_contents.append(encode_raw(array))
        else:
            values: list[Any] = array.reshape(-1).tolist()
            if port.datatype == "BYTES":
                values = [str(v).encode() for v in values]
            getattr(output.contents, CONTENTS[port.datatype]).extend(values)
    if final is not None:
        response.parameters["triton_final_response"].bool_param = final
    return response
