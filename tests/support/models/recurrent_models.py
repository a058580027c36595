"""Models of one recurrent layer, and their feeds: static or dynamic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(
    kind: str,
    direction: str = "forward",
    *,
    lengths: bool = False,
    states: Sequence[str] = ("h",),
    peepholes: bool = False,
    hidden: int = 6,
    sizes: tuple[int | str, int | str] = ("T", "N"),
    **attributes: Any,
) -> bytes:
    """One layer with random weights; `sizes` are those of time and batch. Inputs: x, lengths?, and
    the first states that are given (h, c)."""
    rng = np.random.default_rng(0)
    d, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    weights = {
        "w": rng.standard_normal((d, gates * hidden, 5)),
        "r": rng.standard_normal((d, gates * hidden, hidden)) * 0.5,
        "b": rng.standard_normal((d, 2 * gates * hidden)),
    }
    if peepholes:
        weights["p"] = rng.standard_normal((d, 3 * hidden))
    outputs = ["Y", "Y_h", "Y_c"] if kind == "LSTM" else ["Y", "Y_h"]
    time, batch = sizes
    swaps = attributes.get("layout", 0)
    ports: list[tuple[str, int, list[int | str]]] = [
        ("x", TensorProto.FLOAT, [batch, time, 5] if swaps else [time, batch, 5])
    ]
    if lengths:
        ports.append(("lengths", TensorProto.INT32, [batch]))
    shape: list[int | str] = [batch, d, hidden] if swaps else [d, batch, hidden]
    ports += [(s, TensorProto.FLOAT, shape) for s in states]
    names = ["x", "w", "r", "b", "lengths" if lengths else ""]
    names += [s if s in states else "" for s in ("h", "c")][: len(outputs) - 1]
    names += ["p"] if peepholes else []
    node = helper.make_node(
        kind, names, outputs, hidden_size=hidden, direction=direction, **attributes
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info(*p) for p in ports],
        [helper.make_tensor_value_info(s, TensorProto.FLOAT, None) for s in outputs],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return made.SerializeToString()


def feeds(
    names: Sequence[str], d: int, hidden: int, time: int, batch: int, seed: int = 1
) -> dict[str, np.ndarray]:
    """Inputs of a model by name, time first."""
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name in names:
        if name == "lengths":
            found[name] = rng.integers(1, time + 1, batch).astype(np.int32)
        else:
            shape = (time, batch, 5) if name == "x" else (d, batch, hidden)
            found[name] = rng.standard_normal(shape).astype(np.float32)
    return found
