"""`torch.compile(module, backend="irc")`: torch finds this module by its entry point.

Dynamo's graph becomes a graph of ATen operations with symbolic sizes (AOTAutograd). What OpenVINO's
frontend converts and irc compiles is replaced by a call of irc; the rest stays with torch, and
`reports` lists it with the reason. Parameters are constants of the compiled graphs: after a change
of weights call torch._dynamo.reset(). Tensors are passed by DLPack, without copies. Graphs that
need gradients stay with torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..compiler import model as models
from ..compiler.options import Options
from ..ir.lazy_dataclass import dataclass
from .compiled_model import CompiledModel, compile_with_options
from .torch_models import import_torch


@dataclass(frozen=True)
class GraphReport:
    """A graph of torch.compile: how many operations irc computes, in how many models; which stay
    with torch, as (operation, reason) pairs."""

    operations: int
    models: int
    eager: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.operations} operations in {self.models} models of irc"]
        return "\n".join([*lines, *(f"eager: {name}: {reason}" for name, reason in self.eager)])


_PICK = "<built-in function getitem>"  # takes one of several outputs: computes nothing
# One for each graph that torch compiled in this process, in order.
reports: list[GraphReport] = []


def compile_graph(graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
    """A callable for Dynamo's graph: the backend's entry point. `options` are irc's
    `num_threads` and `precision`, in torch.compile's `options`."""
    torch, _ = import_torch()
    aot_autograd = import_module("torch._dynamo.backends.common").aot_autograd
    make_boxed_func = import_module("torch._functorch.aot_autograd").make_boxed_func
    disable_current_modes = import_module("torch.utils._python_dispatch")._disable_current_modes
    chosen = options.get("options") or {}
    frozen = {
        n: value.detach()
        for n, value in enumerate(example_inputs)
        if isinstance(value, torch.nn.Parameter) or _is_static(graph_module, n)
    }

    def compile_for_inference(graph: Any, inputs: Sequence[Any]) -> Any:
        # AOTAutograd computes with fake tensors; constants are real ones.
        with torch.no_grad(), disable_current_modes():
            return make_boxed_func(_compile_aten(torch, graph, frozen, chosen))

    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in example_inputs):
        names = tuple((str(n.target), "needs gradients") for n in _calls(graph_module))
        reports.append(GraphReport(0, 0, names))
        return graph_module.forward
    backend = aot_autograd(
        fw_compiler=compile_for_inference,
        inference_compiler=compile_for_inference,
        decompositions=_decompositions(),
    )
    return backend(graph_module, example_inputs)


def _is_static(graph_module: Any, position: int) -> bool:
    """Whether Dynamo marks an input as a buffer of the module."""
    nodes = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    tensor = nodes[position].meta.get("tensor_dict", {})
    return tensor.get("_dynamo_static_input_type") is not None


def _decompositions() -> Any:
    """How ATen operations that OpenVINO's frontend does not know are written with others."""
    from openvino.frontend.pytorch.torchdynamo.decompositions import (
        get_aot_decomposition_list,
        get_inf_decomposition_list,
    )

    return import_module("torch._decomp").get_decompositions(
        get_inf_decomposition_list() + get_aot_decomposition_list()
    )


def _compile_aten(torch: Any, graph: Any, frozen: dict[int, Any], chosen: dict[str, Any]) -> Any:
    """The graph with its supported parts replaced by models of irc."""
    from openvino.frontend.pytorch.torchdynamo.partition import Partitioner

    _freeze(torch, graph, frozen)
    partitioner = Partitioner({"testing": True})
    fused = partitioner.make_partitions(graph, {"testing": True})
    operations, eager, count = 0, [], 0
    for node in list(fused.graph.nodes):
        if node.op == "call_function" and str(node.target) != _PICK:
            eager.append((str(node.target), "OpenVINO's frontend does not convert it"))
        if node.op != "call_module" or not node.name.startswith("fused_"):
            continue
        part = fused.get_submodule(node.target)
        names = [str(n.target) for n in _calls(part)]
        try:
            fused.delete_submodule(node.target)
            fused.add_submodule(node.target, _make_module(torch, part, chosen))
            operations, count = operations + len(names), count + 1
        except Exception as error:
            fused.add_submodule(node.target, part)
            eager += [(name, str(error).splitlines()[0][:200]) for name in names]
    fused.recompile()
    reports.append(GraphReport(operations, count, tuple(eager)))
    return fused.forward


def _calls(graph: Any) -> list[Any]:
    calls = [n for n in graph.graph.nodes if n.op in ("call_function", "call_method")]
    return [n for n in calls if str(n.target) != _PICK]


def _freeze(torch: Any, graph: Any, frozen: dict[int, Any]) -> None:
    """Let the graph read parameters as attributes; their inputs stay, unread."""
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    last = placeholders[-1] if placeholders else None
    for position, value in frozen.items():
        node = placeholders[position]
        if not node.users:
            continue
        name = f"_frozen_{position}"
        graph.register_buffer(name, value)
        with graph.graph.inserting_after(last):
            constant = graph.graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
    graph.recompile()


def _make_module(torch: Any, part: Any, chosen: dict[str, Any]) -> Any:
    """A module that runs a part of the graph with irc."""
    net, is_single = _compile_part(torch, part, chosen)
    kinds = [n.meta.get("val") for n in part.graph.nodes if n.op == "placeholder"]
    convert = [_as_vector if not isinstance(k, torch.Tensor) else _as_given for k in kinds]

    class IrcModule(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            values = [c(a) for c, a in zip(convert, args, strict=True)]
            outputs = [torch.from_numpy(np.asarray(y)) for y in net(values)]
            return outputs[0] if is_single else tuple(outputs)

    return IrcModule()


def _as_vector(value: Any) -> Any:
    return np.array([int(value)], np.int64)


def _as_given(value: Any) -> Any:
    return value.detach().contiguous()


def _compile_part(torch: Any, part: Any, chosen: dict[str, Any]) -> tuple[CompiledModel, bool]:
    """The compiled model of a part, and whether the part returns one value by itself."""
    import openvino
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder

    frontend: Any = FrontEndManager().load_by_framework("pytorch")
    decoder = TorchFXPythonDecoder(part)  # the frontend's model holds no reference to it
    converted = frontend.convert(frontend.load(decoder))
    placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
    for node, port in zip(placeholders, converted.inputs, strict=True):
        value = node.meta["val"]
        parameter = port.get_node()
        if isinstance(value, torch.Tensor):
            shape = [d if isinstance(d, int) else -1 for d in value.shape]
            parameter.set_element_type(_element_type(openvino, torch, value.dtype))
            parameter.set_partial_shape(openvino.PartialShape(shape))
        else:
            parameter.set_element_type(openvino.Type.i64)
            parameter.set_partial_shape(openvino.PartialShape([1]))
    converted.validate_nodes_and_infer_types()
    options = Options(precision=chosen.get("precision", "f32"))
    model = models.read_model(converted)
    net = compile_with_options(model, options, chosen.get("num_threads"))
    result = next(n for n in part.graph.nodes if n.op == "output").args[0]
    return net, not isinstance(result, tuple | list)


def _element_type(openvino: Any, torch: Any, dtype: Any) -> Any:
    if dtype is torch.bool:
        return openvino.Type.boolean
    if dtype is torch.bfloat16:
        return openvino.Type.bf16
    return openvino.Type(torch.empty(0, dtype=dtype).numpy().dtype)
