"""Small ONNX models whose data ask for a gibibyte and more, and a program that runs each of them
in a child process with a limit of 64 MiB: `python memory_bombs.py` prints one JSON line a case."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIMIT = 64 << 20
# Address space that a case may take in all: where the limit fails, the case ends by an error that
# is not irc's, and the machine does not run out of memory.
BACKSTOP = 3 << 30
# Seconds after which a case is ended: it is not refused, but runs.
HANGS_AFTER = 120

Feeds = dict[str, np.ndarray[Any, Any]]
Case = tuple[onnx.ModelProto, Feeds]
_GIB_OF_F32 = np.array([1 << 14, 1 << 14], np.int64)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


def graph_of(
    nodes: Sequence[Any], feeds: Feeds, *, constants: Feeds | None = None, dtype: int = 1
) -> Case:
    """A model of these nodes from the inputs `feeds` to the output y, and its inputs."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))
        for name, a in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info("y", dtype, None)]
    held = [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "bomb", inputs, outputs, held)
    sets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9), feeds


def _f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def _i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _one(kind: str, feeds: Feeds, *, dtype: int = 1, **attributes: Any) -> Case:
    return graph_of([node(kind, list(feeds), ["y"], **attributes)], feeds, dtype=dtype)


def _loop(body: Sequence[Any], feeds: Feeds, trips: int, *, more: Sequence[Any] = ()) -> Case:
    """A Loop with one scan output `part`, which reads outer values."""
    inner = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Identity", ["c"], ["d"]), *body],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("d", TensorProto.FLOAT, [1]),
            helper.make_tensor_value_info("part", TensorProto.FLOAT, None),
        ],
    )
    loop = node("Loop", ["trips", "", "first"], ["last", "parts"], body=inner)
    nodes = [loop, *(more or [node("Identity", ["parts"], ["y"])])]
    return graph_of(nodes, {"trips": np.array(trips, np.int64), "first": _f32(1), **feeds})


def _grown_sequence() -> Case:
    """A Loop that inserts a tensor of 1 MiB into a sequence, 4096 times."""
    sequence = helper.make_tensor_sequence_value_info
    inner = helper.make_graph(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Expand", ["x", "s"], ["part"]),
            node("SequenceInsert", ["held", "part"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            sequence("held", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            sequence("more", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"], dtype=TensorProto.FLOAT),
        node("Loop", ["trips", "", "none"], ["all"], body=inner),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    return graph_of(nodes, {"trips": np.array(4096), "x": _f32(1, 1), "s": _i64(1, 1 << 18)})


def _repeated_sequence() -> Case:
    """One tensor 4096 times in a sequence, joined."""
    nodes = [
        node("SequenceConstruct", ["x"] * 4096, ["all"]),
        node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
    ]
    return graph_of(nodes, {"x": _f32(1 << 16)})


def _filled_then(kind: str, elements: int, *, constant: bool) -> Case:
    """A tensor of `elements` ones, of which one number is made: no kernel has to store it."""
    value = numpy_helper.from_array(_f32(1), "v")
    shape = {"s": _i64(elements)}
    nodes = [
        node("ConstantOfShape", ["s"], ["t"], value=value),
        node(kind, ["t"], ["y"], keepdims=0),
    ]
    if not constant:
        return graph_of(nodes, shape)
    nodes.append(node("Identity", ["x"], ["unused"]))
    return graph_of(nodes, {"x": _f32(1)}, constants=shape)


def _expanded_then_sum() -> Case:
    nodes = [
        node("Expand", ["x", "s"], ["t"]),
        node("Add", ["t", "x"], ["u"]),
        node("ReduceSum", ["u"], ["y"], keepdims=0),
    ]
    return graph_of(nodes, {"x": _f32(1), "s": _i64(1 << 40)})


def _outer_then_max() -> Case:
    nodes = [node("Add", ["a", "b"], ["t"]), node("ReduceMax", ["t"], ["y"], keepdims=0)]
    return graph_of(nodes, {"a": _f32(1 << 16, 1), "b": _f32(1, 1 << 16)})


def _transposed_view() -> Case:
    """Inputs that are not contiguous are copied: here a view without memory of its own."""
    model, _ = graph_of([node("ReduceSum", ["x"], ["y"])], {"x": _f32(1 << 14, 1 << 14)[:1, :1]})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    return model, {"x": np.broadcast_to(_f32(1, 1), (1 << 14, 1 << 14))}


def _after(prelude: Sequence[Any], feeds: Feeds, kind: str, *names: str, **attributes: Any) -> Case:
    return graph_of([*prelude, node(kind, names, ["y"], **attributes)], feeds)


# 16 MiB, which the limit allows; what is made of it is not.
_BLOCK = [node("Expand", ["x", "s"], ["t"])]
_BLOCK_FEEDS = {"x": _f32(1), "s": _i64(4 << 20)}
_GRID: Feeds = {"x": _f32(1, 1, 2, 2)}

CASES: dict[str, Callable[[], Case]] = {
    "ConstantOfShape": lambda: graph_of(
        [node("ConstantOfShape", ["s"], ["y"])], {"s": _GIB_OF_F32}
    ),
    "ConstantOfShape of a constant": lambda: graph_of(
        [node("ConstantOfShape", ["s"], ["t"]), node("Add", ["t", "x"], ["y"])],
        {"x": _f32(1)},
        constants={"s": _GIB_OF_F32},
    ),
    "Expand": lambda: _one("Expand", {"x": _f32(1), "s": _GIB_OF_F32}),
    "Tile": lambda: _one("Tile", {"x": _f32(1, 1), "s": _GIB_OF_F32}),
    "Range of f32": lambda: _one(
        "Range",
        {"a": np.array(0, np.float32), "b": np.array(2e8, np.float32),
         "c": np.array(0.5, np.float32)},
    ),
    "Range of i64": lambda: _one(
        "Range", {"a": np.array(0), "b": np.array(1 << 28), "c": np.array(1)}, dtype=7
    ),
    "OneHot": lambda: _one(
        "OneHot", {"i": np.arange(64), "d": np.array(1 << 23), "v": _f32(2)}
    ),
    "Pad": lambda: _one("Pad", {"x": _f32(2, 2), "p": _i64(1 << 13, 1 << 13, 1 << 13, 1 << 13)}),
    "Pad, reflected": lambda: graph_of(
        [node("Pad", ["x", "p"], ["y"], mode="wrap")],
        {"x": _f32(4, 4), "p": _i64(1 << 13, 1 << 13, 1 << 13, 1 << 13)},
    ),
    "Resize by sizes": lambda: graph_of(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="linear")],
        {**_GRID, "s": _i64(1, 1, 1 << 14, 1 << 14)},
    ),
    "Resize by scales": lambda: graph_of(
        [node("Resize", ["x", "", "z"], ["y"], mode="nearest")],
        {**_GRID, "z": np.array([1, 1, 8192, 8192], np.float32)},
    ),
    "Resize, cubic": lambda: graph_of(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="cubic")],
        {**_GRID, "s": _i64(1, 1, 1 << 14, 1 << 14)},
    ),
    "Loop's scan output": lambda: _loop(
        [node("Expand", ["x", "s"], ["part"])], {"x": _f32(1), "s": _i64(1 << 20)}, 1024
    ),
    "Loop's scan output of small parts": lambda: _loop(
        [node("Identity", ["x"], ["part"])], {"x": _f32(1 << 18)}, 4096
    ),
    "Loop's huge parts": lambda: _loop(
        [node("Expand", ["x", "s"], ["part"])], {"x": _f32(1), "s": _i64(1 << 28)}, 2
    ),
    "Loop's scan output, summed": lambda: _loop(
        [node("Expand", ["x", "s"], ["part"])],
        {"x": _f32(1), "s": _i64(1 << 20)},
        1024,
        more=[node("ReduceSum", ["parts"], ["y"])],
    ),
    "a sequence that grows": _grown_sequence,
    "a sequence of one tensor": _repeated_sequence,
    "SplitToSequence and back": lambda: graph_of(
        [
            *_BLOCK,
            node("SplitToSequence", ["t", "n"], ["q"]),
            *[node("ConcatFromSequence", ["q"], [f"c{k}"], axis=0) for k in range(64)],
            node("Concat", [f"c{k}" for k in range(64)], ["y"], axis=0),
        ],
        {**_BLOCK_FEEDS, "n": np.array(1 << 20)},
    ),
    "Concat of one tensor": lambda: _after(
        _BLOCK, _BLOCK_FEEDS, "Concat", *["t"] * 64, axis=0
    ),
    "Gather of one row": lambda: graph_of(
        [
            node("Expand", ["i", "s"], ["many"]),
            node("Gather", ["x", "many"], ["y"]),
        ],
        {"x": _f32(4, 256), "i": _i64(0), "s": _i64(1 << 20)},
    ),
    "GatherND": lambda: graph_of(
        [node("Expand", ["i", "s"], ["many"]), node("GatherND", ["x", "many"], ["y"])],
        {"x": _f32(4, 1024), "i": _i64(0)[None], "s": _i64(1 << 18, 1)},
    ),
    "GatherElements": lambda: graph_of(
        [
            node("Expand", ["i", "s"], ["many"]),
            node("GatherElements", ["x", "many"], ["y"], axis=0),
        ],
        {"x": _f32(4), "i": _i64(0), "s": _i64(1 << 28)},
    ),
    "NonZero": lambda: graph_of(
        [
            node("Expand", ["x", "s"], ["t"]),
            node("NonZero", ["t"], ["y"]),
        ],
        {"x": np.ones((1, 1, 1, 1), np.bool_), "s": _i64(1, 1, 1 << 11, 1 << 13)},
        dtype=7,
    ),
    "Compress": lambda: graph_of(
        [
            node("Expand", ["c", "n"], ["keep"]),
            node("Expand", ["x", "s"], ["t"]),
            node("Compress", ["t", "keep"], ["y"], axis=0),
        ],
        {"x": _f32(1, 1), "s": _i64(1 << 12, 1 << 11), "c": np.ones(1, np.bool_),
         "n": _i64(1 << 12)},
    ),
    "CenterCropPad": lambda: _one("CenterCropPad", {"x": _f32(2, 2), "s": _GIB_OF_F32}),
    "EyeLike": lambda: graph_of(
        [node("ConstantOfShape", ["s"], ["t"]), node("EyeLike", ["t"], ["y"], dtype=1)],
        {"s": _GIB_OF_F32},
    ),
    "outer product": lambda: graph_of(
        [node("MatMul", ["a", "b"], ["y"])], {"a": _f32(1 << 14, 1), "b": _f32(1, 1 << 14)}
    ),
    "outer product of data": lambda: graph_of(
        [
            node("Expand", ["a", "s"], ["t"]),
            node("Transpose", ["t"], ["u"], perm=[1, 0]),
            node("Einsum", ["u", "t"], ["y"], equation="ab,cd->ad"),
        ],
        {"a": _f32(1, 1), "s": _i64(1, 1 << 14)},
    ),
    "broadcast sum": lambda: graph_of(
        [node("Add", ["a", "b"], ["y"])], {"a": _f32(1 << 14, 1), "b": _f32(1, 1 << 14)}
    ),
    "doubling chain": lambda: graph_of(
        [
            node("Expand", ["x", "s"], ["t0"]),
            *[node("Concat", [f"t{k}"] * 2, [f"t{k + 1}"], axis=0) for k in range(20)],
            node("Identity", ["t20"], ["y"]),
        ],
        {"x": _f32(1), "s": _i64(1 << 10)},
    ),
    "many outputs kept": lambda: graph_of(
        [
            *[node("Expand", ["x", "s"], [f"t{k}"]) for k in range(64)],
            *[node("NonZero", [f"t{k}"], [f"u{k}"]) for k in range(64)],
            node("Concat", [f"u{k}" for k in range(64)], ["y"], axis=1),
        ],
        {"x": _f32(1), "s": _i64(1 << 20)},
        dtype=7,
    ),
    "input without memory of its own": _transposed_view,
    "fused: ConstantOfShape, ReduceMax": lambda: _filled_then("ReduceMax", 1 << 40, constant=False),
    "fused: 2^61 elements": lambda: _filled_then("ReduceMax", 1 << 61, constant=False),
    "fused: constant 2^40": lambda: _filled_then("ReduceMax", 1 << 40, constant=True),
    "fused: constant 2^50, ReduceSum": lambda: _filled_then("ReduceSum", 1 << 50, constant=True),
    "fused: Expand, Add, ReduceSum": _expanded_then_sum,
    "fused: outer sum, ReduceMax": _outer_then_max,
}  # fmt: skip


def _run(name: str, mode: str, limit: int | None) -> dict[str, Any]:
    import irc_compiler as irc
    from irc_compiler.ir.interpret import interpret

    model, feeds = CASES[name]()
    data = model.SerializeToString()
    before = begun = _peak_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + BACKSTOP,) * 2)
    signal.alarm(HANGS_AFTER)
    error: BaseException | None = None
    try:
        if mode == "call":
            net = irc.compile_model(onnx.load_from_string(data), max_memory=limit, num_threads=1)
            begun = _peak_bytes()
            net(feeds)
        else:
            read = irc.read_model(onnx.load_from_string(data), max_memory=limit)
            begun = _peak_bytes()
            interpret(read.graph, feeds, max_memory=limit)
    except BaseException as found:
        error = found
    return {
        "name": name,
        "mode": mode,
        "error": type(error).__name__,
        "text": str(error)[:1000],
        "compiling": begun - before,
        "running": _peak_bytes() - begun,
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def main(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    import irc_compiler as irc

    model, feeds = _one("Relu", {"x": _f32(1)})
    irc.compile_model(model, num_threads=1)(feeds)
    for name in names or CASES:
        for mode in ("call", "interpret"):
            limit = None if name.startswith("fused: constant") else LIMIT
            reader, writer = os.pipe()
            if (child := os.fork()) == 0:
                os.write(writer, json.dumps(_run(name, mode, limit)).encode())
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as stream:
                text = stream.read()
            status = os.waitpid(child, 0)[1]
            yield json.loads(text) if text else {"name": name, "mode": mode, "status": status}


if __name__ == "__main__":
    for found in main(sys.argv[1:]):
        print(json.dumps(found), flush=True)
