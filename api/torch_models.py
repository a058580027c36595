"""Models of PyTorch modules: exported by torch, read by OpenVINO's frontend, taken from memory.

torch and openvino are imported at the first call only; neither is a dependency of irc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..compiler import model as models
from ..compiler.model import Model
from ..compiler.shape_analysis.override_inputs import fix_shapes
from ..ir.errors import UnsupportedOperationError, UsageError


def from_torch(module: Any, example_inputs: Any = (), dynamic_shapes: Any = None) -> Model:
    """A model of a torch.nn.Module (in evaluation mode) or a torch.export.ExportedProgram.

    example_inputs: the arguments of one call: a tensor, a tuple of them, or a mapping by name.
    dynamic_shapes: as of torch.export.export, such as `({0: torch.export.Dim("batch")},)`; sizes
    that are not listed are those of the examples. UsageError where torch cannot export the module,
    UnsupportedOperationError naming what OpenVINO's frontend cannot convert.
    """
    torch, openvino = import_torch()
    program = module
    if not isinstance(module, torch.export.ExportedProgram):
        program = _export(torch, module, example_inputs, dynamic_shapes)
    try:
        converted = openvino.convert_model(program)
    except Exception as error:
        raise UnsupportedOperationError(
            "OpenVINO's frontend cannot convert the module",
            got=str(error)[:2000],
            fix="export it to ONNX (torch.onnx.export), and read that",
        ) from error
    model = models.read_model(converted)
    return Model(fix_shapes(model.graph, _input_sizes(torch, program, model)))


def _input_sizes(torch: Any, program: Any, model: Model) -> dict[str, list[int | str | None]]:
    """Sizes by input, as they were exported: OpenVINO's model leaves all of them open. Dimensions
    that torch found equal have one name."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    wanted = [values.get(name) for name in program.graph_signature.user_inputs]
    tensors: list[Any] = [v for v in wanted if isinstance(v, torch.Tensor)]
    if len(tensors) != len(model.inputs):
        return {}
    return {
        port.name: [_size(d) for d in value.shape]
        for port, value in zip(model.inputs, tensors, strict=True)
    }


def _size(dim: Any) -> int | str | None:
    if isinstance(dim, int):
        return dim
    return str(dim) if str(dim).isidentifier() else None


def import_torch() -> tuple[Any, Any]:
    """The modules torch and openvino. UsageError where one is not installed."""
    try:
        torch, openvino = import_module("torch"), import_module("openvino")
    except ImportError as error:
        raise UsageError(
            "models of torch need torch and OpenVINO's frontend for it",
            got=str(error),
            expected="the packages torch and openvino",
            fix="pip install torch openvino",
        ) from error
    return torch, openvino


def _export(torch: Any, module: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    if isinstance(example_inputs, Mapping):
        named = dict(example_inputs)
    elif isinstance(example_inputs, Sequence):
        args = tuple(example_inputs)
    else:
        args = (example_inputs,)
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return torch.export.export(module, args, named, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise UsageError(
            "torch.export cannot export the module",
            got=str(error)[:2000],
            expected="a module whose control flow does not depend on data",
            fix='use torch.compile(module, backend="irc"), which leaves such parts to torch',
        ) from error
    finally:
        module.train(was_training)
