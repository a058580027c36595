"""IR text for tests: nets from short layer lists, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data" / "ir"
MATMUL = Path(__file__).resolve().parents[3] / "samples" / "matmul1"


def dims(shape: Sequence[int]) -> str:
    """`<dim>` elements."""
    return "".join(f"<dim>{d}</dim>" for d in shape)


def port(number: int, shape: Sequence[int] = (), precision: str = "FP32", names: str = "") -> str:
    """A `<port>`."""
    named = f' names="{names}"' if names else ""
    return f'<port id="{number}" precision="{precision}"{named}>{dims(shape)}</port>'


def layer(
    number: int | str,
    kind: str,
    *,
    name: str | None = None,
    data: str = "",
    inputs: str = "",
    outputs: str = "",
    version: str = "opset1",
    more: str = "",
) -> str:
    """A `<layer>` on one line; `data` are the attributes of its `<data>`."""
    parts = [f'<layer id="{number}" name="{f"l{number}" if name is None else name}" ']
    parts.append(f'type="{kind}" version="{version}">')
    parts.append(f"<data {data}/>" if data else "")
    parts.append(more)
    parts.append(f"<input>{inputs}</input>" if inputs else "")
    parts.append(f"<output>{outputs}</output>" if outputs else "")
    return "".join([*parts, "</layer>"])


def edge(from_layer: int, from_port: int, to_layer: int, to_port: int) -> str:
    """An `<edge>`."""
    return (
        f'<edge from-layer="{from_layer}" from-port="{from_port}" '
        f'to-layer="{to_layer}" to-port="{to_port}"/>'
    )


def net(layers: Sequence[str], edges: Sequence[str], version: int = 11, tail: str = "") -> bytes:
    """A whole model, one line per layer and edge."""
    lines = [
        f'<net name="m" version="{version}">',
        "<layers>",
        *layers,
        "</layers>",
        "<edges>",
        *edges,
        "</edges>",
        tail,
        "</net>",
    ]
    return "\n".join(lines).encode()


def parameter(
    number: int, shape: str = "2,3", dtype: str = "f32", precision: str = "FP32", **more: str
) -> str:
    """A Parameter; static shapes are declared at its port too."""
    static = shape.split(",") if shape and all(c in "0123456789," for c in shape) else []
    ports = port(0, [int(d) for d in static], precision, more.pop("names", ""))
    data = f'shape="{shape}" element_type="{dtype}"'
    return layer(number, "Parameter", data=data, outputs=ports, **more)


def result(number: int, **more: str) -> str:
    """A Result."""
    return layer(number, "Result", inputs='<port id="0"/>', **more)


def constant(number: int, dtype: str, shape: str, offset: int, size: int, **more: str) -> str:
    """A Const; its port declares no sizes."""
    data = f'element_type="{dtype}" shape="{shape}" offset="{offset}" size="{size}"'
    precision = {"boolean": "BOOL", "u1": "BIN", "f32": "FP32", "f16": "FP16", "f64": "FP64"}
    declared = port(0, (), precision.get(dtype, dtype.upper()))
    return layer(number, "Const", data=data, outputs=declared, **more)


def constant_net(dtype: str, shape: str, offset: int, size: int, **more: str) -> bytes:
    """A Const that goes to a Result."""
    return net(
        [constant(0, dtype, shape, offset, size, **more), result(1)],
        [edge(0, 0, 1, 0)],
    )


def unary_net(kind: str = "Abs", shape: str = "2,3", **more: str) -> bytes:
    """Parameter (layer 0), one operation (layer 1), Result (layer 2)."""
    operation = layer(1, kind, inputs=port(0), outputs='<port id="1" precision="FP32"/>', **more)
    return net(
        [parameter(0, shape), operation, result(2)],
        [edge(0, 0, 1, 0), edge(1, 1, 2, 0)],
    )


def matmul_net(
    a: str, b: str, declared: Sequence[int], *, ta: bool = False, tb: bool = False, rest: str = ""
) -> bytes:
    """Two Parameters and a MatMul that declares an output."""
    data = f'transpose_a="{str(ta).lower()}" transpose_b="{str(tb).lower()}"{rest}'
    product = layer(
        2,
        "MatMul",
        name="product",
        data=data,
        inputs=port(0) + port(1),
        outputs=port(2, declared),
    )
    edges = [edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 2, 3, 0)]
    return net([parameter(0, a), parameter(1, b), product, result(3)], edges)
