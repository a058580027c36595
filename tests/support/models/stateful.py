"""Stateful models, built by OpenVINO's own Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino._offline_transformations import apply_make_stateful_transformation
from openvino.op.util import Variable, VariableInfo

CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


def parameter(name: str, shape: list[int], dtype: Any = np.float32) -> Any:
    made = op.parameter(shape, dtype, name=name)
    made.output(0).set_names({name})
    return made


def named(node: Any, name: str) -> Any:
    node.output(0).set_names({name})
    return node


def variable(name: str, shape: list[int], dtype: Any = ov.Type.f32) -> Variable:
    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape(shape), dtype, name
    return Variable(info)


def save(path: Path, results: list[Any], parameters: list[Any], sinks: list[Any]) -> str:
    ov.save_model(ov.Model(results, sinks, parameters, "m"), path, compress_to_fp16=False)
    return str(path)


def request(path: str) -> Any:
    return ov.Core().compile_model(path, "CPU", CONFIG).create_infer_request()


def growing(path: Path) -> str:
    """A variable of rows that starts with one row of fives and takes in every input's rows."""
    held = variable("rows", [-1, 4])
    x = parameter("x", [-1, 4])
    read = op.read_value(op.constant(np.full((1, 4), 5, np.float32)), held)
    grown = op.concat([read, x], 0)
    total = named(op.reduce_sum(grown, op.constant(np.array([0])), False), "total")
    return save(path, [op.result(total)], [x], [op.assign(grown, held)])


def derived(path: Path) -> str:
    """Variables that start as functions of the input, one of another variable, and one that is
    never assigned anything but its own value."""
    x = parameter("x", [-1, 4])
    first, second, fixed = (variable(n, [-1, 4]) for n in ("first", "second", "fixed"))
    doubled = op.multiply(x, op.constant(np.float32(2)))
    a = op.read_value(doubled, first)
    b = op.read_value(op.add(a, op.constant(np.float32(100))), second)
    c = op.read_value(doubled, fixed)
    after = op.add(a, x)
    sinks = [op.assign(after, first), op.assign(op.add(b, a), second), op.assign(c, fixed)]
    results = [op.result(named(n, s)) for n, s in ((a, "a"), (b, "b"), (op.add(c, x), "c"))]
    return save(path, results, [x], sinks)


def decoder(path: Path, layers: int = 2, heads: int = 2, size: int = 16) -> str:
    """A small decoder over embeddings, its key-value caches made stateful by OpenVINO."""
    rng = np.random.default_rng(0)
    width = heads * size

    def weight(*shape: int) -> Any:
        return op.constant((rng.standard_normal(shape) / 8).astype(np.float32))

    def split(value: Any) -> Any:
        cut = op.reshape(value, op.constant(np.array([1, -1, heads, size])), False)
        return op.transpose(cut, op.constant(np.array([0, 2, 1, 3])))

    def normal(value: Any) -> Any:
        return op.mvn(value, op.constant(np.array([2])), True, 1e-5, "inside_sqrt")

    x = value = parameter("x", [1, -1, width])
    parameters, results, pairs = [x], list[Any](), dict[str, str]()
    for n in range(layers):
        q, k, v = (
            split(op.matmul(normal(value), weight(width, width), False, False)) for _ in "qkv"
        )
        held: list[Any] = []
        for name, fresh in (("key", k), ("value", v)):
            past = parameter(f"past.{n}.{name}", [1, heads, -1, size])
            grown = named(op.concat([past, fresh], 2), f"present.{n}.{name}")
            parameters.append(past)
            results.append(op.result(grown))
            pairs[f"past.{n}.{name}"] = f"present.{n}.{name}"
            held.append(grown)
        scores = op.multiply(op.matmul(q, held[0], False, True), op.constant(np.float32(0.25)))
        mixed = op.matmul(op.softmax(scores, -1), held[1], False, False)
        joined = op.transpose(mixed, op.constant(np.array([0, 2, 1, 3])))
        joined = op.reshape(joined, op.constant(np.array([1, -1, width])), False)
        value = op.add(value, op.matmul(joined, weight(width, width), False, False))
        wide = op.gelu(op.matmul(normal(value), weight(width, 4 * width), False, False), "erf")
        value = op.add(value, op.matmul(wide, weight(4 * width, width), False, False))
    results.insert(0, op.result(named(value, "y")))
    model = ov.Model(results, parameters, "decoder")
    apply_make_stateful_transformation(model, pairs)
    ov.save_model(model, path, compress_to_fp16=False)
    return str(path)


OPSET3 = """<net name="old" version="10"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/>
<output><port id="0" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="1" name="read" type="ReadValue" version="opset3"><data variable_id="v"/>
<input><port id="0"><dim>2</dim></port></input>
<output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="2" name="sum" type="Add" version="opset1">
<input><port id="0"><dim>2</dim></port><port id="1"><dim>2</dim></port></input>
<output><port id="2" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="3" name="keep" type="Assign" version="opset3"><data variable_id="v"/>
<input><port id="0"><dim>2</dim></port></input>
<output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
<layer id="4" name="out" type="Result" version="opset1">
<input><port id="0"><dim>2</dim></port></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
<edge from-layer="{from_layer}" from-port="{from_port}" to-layer="4" to-port="0"/>
</edges></net>"""
