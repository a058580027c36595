"""Constants beyond 4 GiB: models of ONNX (external data) and of IR load, compile and run right.

    python scripts/large_constants.py [FOLDER]

The weights files are sparse except for the rows that are looked at. Each case runs in a process of
its own and prints its peak memory; a case fails where that exceeds MOST_COPIES of the constant.
Needs 10 GiB of free memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import irc_compiler as irc
import numpy as np
from onnx import TensorProto, helper

ROWS, COLUMNS = (1 << 20) + 3, 1024  # f32: 4 GiB and three rows
ITEM = 4
PLACES = (0, (1 << 20) - 1, 1 << 20, ROWS - 1)  # before, at and beyond 2**32 bytes
MOST_COPIES = 2.2
CASES = ("gather-onnx", "gather-ir", "matmul-onnx", "matmul-ir")


def row(number: int) -> np.ndarray:
    return np.arange(COLUMNS, dtype=np.float32) + number % 1000 + 1


def write_weights(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(ROWS * COLUMNS * ITEM)
        for number in PLACES:
            file.seek(number * COLUMNS * ITEM)
            file.write(row(number).tobytes())


def write_onnx(path: Path, kind: str) -> None:
    weight = TensorProto(name="w", data_type=1, dims=[ROWS, COLUMNS], data_location=1)
    for key, value in (("location", "weights.bin"), ("offset", "0")):
        weight.external_data.add(key=key, value=value)
    if kind == "gather":
        nodes = [helper.make_node("Gather", ["w", "x"], ["y"])]
        port = helper.make_tensor_value_info("x", 7, ["n"])
    else:
        nodes = [
            helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ]
        port = helper.make_tensor_value_info("x", 1, ["n", COLUMNS])
    out = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "large", [port], [out], [weight])
    opset = helper.make_opsetid("", 18)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()
    )


def port(number: int, type_: str, *sizes: int) -> str:
    dims = "".join(f"<dim>{n}</dim>" for n in sizes)
    return f'<port id="{number}" precision="{type_}">{dims}</port>'


def write_ir(path: Path, kind: str) -> None:
    gather = kind == "gather"
    x = ("i64", "I64", 4) if gather else ("f32", "FP32", 4, COLUMNS)
    element, precision, *sizes = x
    weight = port(0, "FP32", ROWS, COLUMNS)
    layers = [
        f'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="'
        f'{",".join(map(str, sizes))}" element_type="{element}"/>'
        f"<output>{port(0, precision, *sizes)}</output></layer>",
        f'<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="'
        f'{ROWS},{COLUMNS}" offset="0" size="{ROWS * COLUMNS * ITEM}"/>'
        f"<output>{weight}</output></layer>",
    ]
    if gather:
        layers += [
            '<layer id="2" name="a" type="Const" version="opset1"><data element_type="i64" '
            f'shape="" offset="{ROWS * COLUMNS * ITEM}" size="8"/>'
            f"<output>{port(0, 'I64')}</output></layer>",
            '<layer id="3" name="op" type="Gather" version="opset8"><data batch_dims="0"/><input>'
            f"{weight}{port(1, 'I64', 4)}{port(2, 'I64')}</input>"
            f"<output>{port(3, 'FP32', 4, COLUMNS)}</output></layer>",
        ]
        edges = [(1, 0, 3, 0), (0, 0, 3, 1), (2, 0, 3, 2), (3, 3, 4, 0)]
        result = port(0, "FP32", 4, COLUMNS)
        with path.with_suffix(".bin").open("r+b") as file:
            file.truncate(ROWS * COLUMNS * ITEM + 8)
    else:
        layers.append(
            '<layer id="3" name="op" type="MatMul" version="opset1"><data transpose_a="false" '
            f'transpose_b="true"/><input>{port(0, "FP32", 4, COLUMNS)}'
            f"{port(1, 'FP32', ROWS, COLUMNS)}</input>"
            f"<output>{port(2, 'FP32', 4, ROWS)}</output></layer>"
        )
        edges = [(0, 0, 3, 0), (1, 0, 3, 1), (3, 2, 4, 0)]
        result = port(0, "FP32", 4, ROWS)
    layers.append(
        f'<layer id="4" name="y" type="Result" version="opset1"><input>{result}</input></layer>'
    )
    lines = "".join(
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'
        for a, b, c, d in edges
    )
    path.write_text(
        f'<?xml version="1.0"?><net name="large" version="11"><layers>{"".join(layers)}</layers>'
        f"<edges>{lines}</edges></net>"
    )


def run_case(folder: Path, name: str) -> None:
    """Compile and run one model, compare, print peak memory."""
    kind, form = name.split("-")
    path = folder / ("model.onnx" if form == "onnx" else "weights.xml")
    (write_onnx if form == "onnx" else write_ir)(path, kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    net = irc.compile_model(path)
    if kind == "gather":
        found = net({"x": np.array(PLACES, np.int64)})[0]
        assert np.array_equal(found, np.stack([row(n) for n in PLACES]))
    else:
        x = np.zeros((4, COLUMNS), np.float32)
        x[range(4), range(4)] = 1
        found = net({"x": x})[0]
        wanted = np.zeros((4, ROWS), np.float32)
        for number in PLACES:
            wanted[:, number] = row(number)[:4]
        assert np.array_equal(found, wanted)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    copies = peak / (ROWS * COLUMNS * ITEM)
    print(f"{name}: right, peak {peak / 2**30:.2f} GiB, {copies:.2f} of the constant", flush=True)
    if copies > MOST_COPIES:
        raise SystemExit(f"{name} takes more than {MOST_COPIES} of its constant")


def main(arguments: list[str]) -> None:
    if len(arguments) == 2:
        run_case(Path(arguments[0]), arguments[1])
        return
    with tempfile.TemporaryDirectory(dir=arguments[0] if arguments else None) as folder:
        write_weights(Path(folder) / "weights.bin")
        for name in CASES:
            subprocess.run([sys.executable, __file__, folder, name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
