"""Functions of the openvino module: reading, converting, saving and compiling models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import api
from ...compiler.cut import InputSpec, parse_input
from ...ir.errors import UsageError
from .compiled_model import CompiledModel
from .core import VERSION, Core
from .model import Model
from .types import Dimension, PartialShape, Type


def get_version() -> str:
    """The release of OpenVINO that the stand-in follows."""
    return VERSION


def read_model(model: Any, weights: Any = None) -> Model:
    """Core().read_model"""
    return Core().read_model(model, weights)


def compile_model(
    model: Any, device_name: Any = "CPU", config: Mapping[str, Any] | None = None
) -> CompiledModel:
    """Core().compile_model"""
    return Core().compile_model(model, device_name, config)


def convert_model(
    input_model: Any,
    input: Any = None,
    output: Any = None,
    example_input: Any = None,
    extension: Any = None,
    verbose: bool = False,
    share_weights: bool = True,
    dynamo: bool = False,
) -> Model:
    """A model of a file, an onnx.ModelProto, a torch module, or what OpenVINO's frontends read,
    with other inputs (`"x[1,3]{f32}"`, names, shapes, (name, shape, type)) and outputs."""
    if isinstance(input_model, list | tuple) and len(input_model) == 1:
        (input_model,) = input_model
    if extension is not None:
        raise UsageError(
            "an extension of OpenVINO cannot be run by irc",
            got=extension,
            fix="irc_compiler.read_model(path, extensions=[...]) takes operations in Python",
        )
    if _is_torch(input_model):
        from ...api.torch_models import from_torch

        model = Model.of(from_torch(input_model, example_input))
    elif isinstance(input_model, Model):
        model = input_model
    else:
        model = Core().read_model(input_model)
    outputs = [output] if isinstance(output, str) else list(output or ())
    specs = [] if input is None else _read_inputs(model, input)
    if not specs and not outputs:
        return model
    from ...compiler.cut import cut_graph

    return Model.of(api.Model(cut_graph(model.graph, specs, outputs)))


def _is_torch(model: Any) -> bool:
    return any(c.__module__.startswith("torch.nn") for c in type(model).__mro__) or (
        type(model).__module__.startswith("torch.export")
    )


def _read_inputs(model: Model, given: Any) -> list[InputSpec]:
    """Inputs as convert_model takes them."""
    if isinstance(given, str):
        return [parse_input(text) for text in _split_outside_brackets(given)]
    if isinstance(given, Mapping):
        return [_make_spec(name, value) for name, value in given.items()]
    if isinstance(given, PartialShape) or _is_shape(given):
        return [_make_spec(model.input().get_any_name(), given)]
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        return [_read_one(given)]
    if isinstance(given, list) and all(_is_shape(g) or isinstance(g, PartialShape) for g in given):
        names = [p.get_any_name() for p in model.inputs]
        return [_make_spec(n, g) for n, g in zip(names, given, strict=False)]
    return [_read_one(one) for one in given]


def _read_one(given: Any) -> InputSpec:
    if isinstance(given, str):
        return parse_input(given)
    name, *others = given
    shape = next((o for o in others if isinstance(o, PartialShape) or _is_shape(o)), None)
    dtype = next((o for o in others if o is not shape), None)
    return _make_spec(name, shape, dtype)


def _make_spec(name: str, shape: Any, dtype: Any = None) -> InputSpec:
    if isinstance(shape, Type | type):
        shape, dtype = None, shape
    sizes = (
        None
        if shape is None
        else [d.to_dim(f"{name}.{n}") for n, d in enumerate(PartialShape(shape))]
    )
    kept = None if sizes is None else tuple(s if isinstance(s, int) else None for s in sizes)
    return InputSpec(str(name), kept, None if dtype is None else Type(dtype).dtype)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(v, int | Dimension) or v is None for v in value
    )


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts]


def save_model(
    model: Model, output_model: str | os.PathLike[str], compress_to_fp16: bool = True
) -> None:
    """Write .xml and .bin; as in OpenVINO, in half precision by default."""
    api.save_model(model.model, output_model, compress_to_fp16=compress_to_fp16)


def serialize(
    model: Model,
    xml_path: str | os.PathLike[str],
    bin_path: str | os.PathLike[str] = "",
    version: str = "UNSPECIFIED",
) -> None:
    """Write .xml and .bin as they are. UsageError for IR version 10."""
    if version == "IR_V10":
        raise UsageError("irc writes IR version 11", got=version, expected="IR_V11")
    from ...compiler.export.xml import write_xml

    write_xml(model.graph, Path(xml_path), Path(bin_path) if bin_path else None)


def set_batch(model: Model, dimension: Any = -1) -> None:
    """Another size of the axis N of the inputs whose layouts have one."""
    shapes: dict[int, PartialShape] = {}
    for at, axis in _find_batch_axes(model).items():
        shapes[at] = model.inputs[at].partial_shape
        shapes[at][axis] = dimension
    model.reshape(shapes)


def get_batch(model: Model) -> Dimension:
    """The size of the axis N. UsageError where the inputs have different ones."""
    found = [model.inputs[at].partial_shape[n] for at, n in _find_batch_axes(model).items()]
    if any(size != found[0] for size in found):
        raise UsageError(
            "the inputs have different batch sizes",
            got=[str(f) for f in found],
            expected="one size",
        )
    return found[0]


def _find_batch_axes(model: Model) -> dict[int, int]:
    """The axis N of each input's layout, by the input's position. UsageError where none has one."""
    layouts = {at: node.layout for at, node in enumerate(model.get_parameters())}
    found = {
        at: layout.get_index_by_name("N") for at, layout in layouts.items() if layout.has_name("N")
    }
    if not found:
        raise UsageError(
            "no input's layout says which axis is the batch",
            got=[str(layout) for layout in layouts.values()],
            fix='model.get_parameters()[0].set_layout(Layout("NCHW"))',
        )
    return found


def shutdown() -> None:
    """Nothing: irc holds no plugins."""
