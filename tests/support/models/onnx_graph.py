"""A graph written node by node, with the names PyTorch's exporter would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import helper, numpy_helper

Dims = Sequence[int | str | None]


class OnnxGraph:
    """Values are their names. A node inside `scope("a")`, `scope("b")` is called "/a/b/Op_1".

    `constants`: "nodes" writes small constants as Constant nodes, as PyTorch's older exporter does;
    "initializers" writes them as initialisers.
    """

    def __init__(self, opset: int = 17, *, constants: str = "nodes") -> None:
        if constants not in ("nodes", "initializers"):
            raise ValueError(f"constants={constants!r}: expected 'nodes' or 'initializers'")
        self.opset = opset
        self.constants = constants
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._scopes: list[str] = []
        self._seen: Counter[str] = Counter()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def input(self, name: str, shape: Dims | None, dtype: DTypeLike = np.float32) -> str:
        self.inputs.append(value_info(name, shape, dtype))
        return name

    def output(self, name: str, shape: Dims | None = None, dtype: DTypeLike | None = None) -> str:
        """Declares a value as an output; without a dtype the type is left to be inferred."""
        untyped = onnx.ValueInfoProto(name=name)
        self.outputs.append(untyped if dtype is None else value_info(name, shape, dtype))
        return name

    @property
    def path(self) -> str:
        """The scopes that are open, joined by dots: the name of a module of the source program."""
        return ".".join(self._scopes)

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """An initialiser; a name that exists already is an error."""
        if name in self.initializers:
            raise ValueError(f"initialiser {name!r} exists already")
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def constant(self, value: ArrayLike, dtype: DTypeLike) -> str:
        """A small constant, by default as a Constant node."""
        array = np.asarray(value, dtype)
        name = self._next("Constant")
        if self.constants == "initializers":
            return self.weight(name, array)
        tensor = numpy_helper.from_array(array)
        output = f"{name}_output_0"
        self.nodes.append(helper.make_node("Constant", [], [output], name=name, value=tensor))
        return output

    def op(self, op_type: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        """Adds a node with one output, called `result` if given. An attribute of None is absent."""
        results = 1 if result is None else [result]
        return self.ops(op_type, *inputs, results=results, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: str, results: int | Sequence[str], **attributes: Any
    ) -> list[str]:
        """Adds a node with that many outputs, or with outputs of these names. "" is not an
        input."""
        name = self._next(op_type)
        if isinstance(results, int):
            results = [f"{name}_output_{i}" for i in range(results)]
        present = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op_type, list(inputs), list(results), name=name, **present)
        self.nodes.append(node)
        return list(results)

    def axes_op(self, op_type: str, x: str, axes: Sequence[int]) -> str:
        """Squeeze or Unsqueeze: the axes are an attribute before opset 13, an input since."""
        if self.opset < 13:
            return self.op(op_type, x, axes=list(axes))
        return self.op(op_type, x, self.constant(axes, np.int64))

    def model(self, name: str = "test", *, check: bool = True) -> onnx.ModelProto:
        """The model, checked; output types that were not declared are inferred."""
        graph = helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, list(self.initializers.values())
        )
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(
            graph,
            opset_imports=[opset],
            ir_version=helper.find_min_ir_version_for([opset]),
            producer_name="irc tests",
        )
        if any(not output.type.WhichOneof("value") for output in self.outputs):
            infer_output_types(model)
        if check:
            onnx.checker.check_model(model)
        return model

    def _next(self, op_type: str) -> str:
        path = "/" + "/".join([*self._scopes, op_type])
        count = self._seen[path]
        self._seen[path] += 1
        return f"{path}_{count}" if count else path


def value_info(name: str, shape: Dims | None, dtype: DTypeLike) -> onnx.ValueInfoProto:
    """Shape None is an unknown rank; a dim of None is unknown and unnamed."""
    return helper.make_tensor_value_info(name, element_type(dtype), shape)


def element_type(dtype: DTypeLike) -> int:
    """The TensorProto data type; `str` or `object` is STRING, ml_dtypes' types are known too."""
    resolved = np.dtype(dtype)
    if resolved.kind in "OUST":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(resolved)


def infer_output_types(model: onnx.ModelProto) -> None:
    """Fills in the types of outputs that have none, in place."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    types = {value.name: value.type for value in inferred.graph.output}
    for output in model.graph.output:
        if not output.type.WhichOneof("value"):
            output.type.CopyFrom(types[output.name])
