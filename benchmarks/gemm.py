"""Matrix products against peers: `python -m benchmarks.gemm --against onnxruntime,openvino`.

Every row is checked against the f64 answer before it is timed. All rivals of a row alternate in
one run, together with a loop of multiply-adds that measures the peak of a core; ratios are medians
over medians. With --precision bf16 factors are rounded to bf16, by peers that can (openvino) too;
the peak stays that of f32.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from .peers import PEERS, Peer
from .timing import Peak, alternate


@dataclass(frozen=True)
class Work:
    """One product: constant B with bias and ReLU, or (`batch` given) both operands variable."""

    m: int
    k: int
    n: int
    batch: int = 0
    transposed: bool = False

    @property
    def name(self) -> str:
        size = f"{self.m}x{self.k}x{self.n}"
        return f"{self.batch}x({size}{', B^T' if self.transposed else ''})" if self.batch else size

    @property
    def flops(self) -> int:
        return 2 * max(1, self.batch) * self.m * self.k * self.n


WORK: dict[str, list[Work]] = {
    "main": [Work(64, 768, 3072), Work(128, 768, 768), Work(256, 1024, 1024)],
    "large": [Work(512, 512, 512), Work(1024, 1024, 1024), Work(2048, 2048, 2048)],
    "odd": [Work(13, 257, 511), Work(100, 300, 77), Work(33, 1000, 65), Work(200, 147, 64)],
    "skinny": [
        Work(1, 1024, 1000),
        Work(1, 4096, 4096),
        Work(8, 1024, 1024),
        Work(10, 1024, 1000),
        Work(1000, 1024, 1),
    ],
    "batched": [
        Work(128, 64, 128, batch=12),
        Work(32, 64, 32, batch=96, transposed=True),
        Work(16, 16, 16, batch=64),
    ],
}


@dataclass(frozen=True)
class Data:
    """A work's ONNX model, inputs, weights and the f64 answer."""

    model: bytes
    inputs: dict[str, np.ndarray]
    weights: tuple[np.ndarray, ...]
    answer: np.ndarray


def data_of(work: Work, precision: str = "f32") -> Data:
    """The answer is that of the factors as `precision` rounds them."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(work.m + work.k + work.n)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def factor(x: np.ndarray) -> np.ndarray:
        return (x.astype(ml_dtypes.bfloat16) if precision == "bf16" else x).astype(np.float64)

    def port(name: str, shape: tuple[int, ...]):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    if work.batch:
        a = normal(work.batch, work.m, work.k)
        shape = (work.n, work.k) if work.transposed else (work.k, work.n)
        b = normal(work.batch, *shape)
        right = b.swapaxes(1, 2) if work.transposed else b
        answer = factor(a) @ factor(right)
        nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
        if work.transposed:
            nodes[0].input[1] = "t"
            nodes.insert(0, helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]))
        inputs, weights, constants = {"a": a, "b": b}, (), []
    else:
        a, b, c = normal(work.m, work.k), normal(work.k, work.n), normal(work.n)
        answer = np.maximum(factor(a) @ factor(b) + c, 0)
        nodes = [
            helper.make_node("Gemm", ["a", "b", "c"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
        ]
        inputs, weights = {"a": a}, (b, c)
        constants = [numpy_helper.from_array(b, "b"), numpy_helper.from_array(c, "c")]
    graph = helper.make_graph(
        nodes,
        "gemm",
        [port(k, v.shape) for k, v in inputs.items()],
        [port("y", answer.shape)],
        constants,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    return Data(model.SerializeToString(), inputs, weights, answer)


def api_rival(work: Work, data: Data, threads: int, precision: str) -> Peer:
    """irc as a user calls it: compile_model and a bound call."""
    import irc

    net = irc.compile_model(data.model, precision=precision, num_threads=threads)
    call = net.bind(**data.inputs)
    return Peer("irc", call, lambda: [np.array(call()[0])])


def kernel_rival(work: Work, data: Data, threads: int, precision: str) -> Peer:
    """The kernel alone on one thread, called through ctypes."""
    from irc.ir.dtype import DType
    from irc.ir.plan import Constant
    from irc.ir.scalar import Builder, identity
    from irc.ir.specs import GemmSpec, Operand
    from irc.ir.tiles import packed_layout
    from irc.runtime.codegen.llvm import emit_object, load_objects
    from irc.runtime.kernels.gemm import generate, pack
    from irc.runtime.machine import host_target

    if threads != 1:
        raise SystemExit("the kernel alone runs on one thread: use --through api")
    f32, target = DType.f32, host_target()
    factors = DType.bf16 if precision == "bf16" else None
    m, k, n = work.m, work.k, work.n
    if work.batch:
        b_strides = (k * n, 1, k) if work.transposed else (k * n, n, 1)
        spec = GemmSpec(
            (work.batch,), m, n, k, Operand(f32, (m * k, k, 1)), Operand(f32, b_strides),
            Operand(f32, (m * n, n, 1)), f32, None, identity(f32), (), factors,
        )  # fmt: skip
        inputs = [data.inputs["a"], data.inputs["b"]]
    else:
        builder = Builder()
        total = builder.op("add", builder.input(0, f32), builder.input(1, f32))
        program = builder.finish(builder.op("max", total, builder.const(0, f32)))
        packed = packed_layout(k, n, f32, target, factors)
        stored = factors if factors and packed else f32
        spec = GemmSpec(
            (), m, n, k, Operand(f32, (k, 1)), Operand(stored, (n, 1)), Operand(f32, (n, 1)),
            f32, packed, program, (Operand(f32, (0, 1)),), factors,
        )  # fmt: skip
        b, c = data.weights
        constant = Constant(0, stored, b.shape, packed, rounds=stored is not f32)
        inputs = [data.inputs["a"], pack(b, constant), c]
    kernel = generate(spec, target, "gemm")
    library = load_objects([emit_object(kernel.text, target)], ["gemm"], target)
    pointer, i32 = ctypes.c_void_p, ctypes.c_int32
    entry = library.function("gemm", pointer, pointer, i32, i32, pointer)
    out = _aligned(np.zeros(data.answer.shape, np.float32))
    kept = [*map(_aligned, inputs), out, _aligned(np.zeros(kernel.scratch, np.uint8))]
    table = (pointer * len(kept))(*(x.ctypes.data for x in kept))
    scratch = kept[-1].ctypes.data
    return Peer("irc", lambda: entry(table, None, 0, 1, scratch), lambda: [np.array(kept and out)])


def _aligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


RIVALS: dict[str, Callable[[Work, Data, int, str], Peer]] = {
    "api": api_rival,
    "kernel": kernel_rival,
}


# Peers that compute products in a precision.
ABLE: dict[str, list[str]] = {"f32": ["onnxruntime", "openvino"], "bf16": ["openvino"]}


@dataclass(frozen=True)
class Row:
    """One line of the table. Times in seconds; `ratio` is the fastest peer's time over irc's."""

    size: str
    threads: int
    seconds: dict[str, float]
    gflops: float
    peak: float
    ratio: float


def measure(
    work: Work, threads: int, through: str, peers: list[str], seconds: float, precision: str
) -> Row:
    data = data_of(work, precision)
    rivals = [RIVALS[through](work, data, threads, precision)]
    how = {"precision": precision} if precision != "f32" else {}
    rivals += [PEERS[name](data.model, data.inputs, threads, **how) for name in peers]
    for rival in rivals:
        check(rival, work, data)
    peak = Peak()
    times = alternate({r.name: r.run for r in rivals} | {"peak": peak.run}, seconds=seconds)
    median = {r.name: times[r.name].median for r in rivals}
    gflops = work.flops / median["irc"] / 1e9
    best = peak.flops / times["peak"].best / 1e9 * threads
    others = [median[p] for p in peers]
    ratio = min(others) / median["irc"] if others else float("nan")
    return Row(work.name, threads, median, gflops, gflops / best, ratio)


def check(rival: Peer, work: Work, data: Data) -> None:
    """Refuse to time a wrong answer: K roundings of the largest sum are far more than it needs."""
    rival.run()
    found = rival.outputs()[0].astype(np.float64)
    error = np.abs(found - data.answer).max() / np.abs(data.answer).max()
    if not error < work.k * 2.0**-24:
        raise SystemExit(f"{rival.name} is wrong at {work.name}: relative error {error:.1e}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.gemm", description=__doc__)
    parser.add_argument("--against", help="peers, comma separated (default: all that can)")
    parser.add_argument("--precision", choices=sorted(ABLE), default="f32")
    parser.add_argument("--threads", default="1", help="thread counts, comma separated")
    parser.add_argument("--work", default="main", help=f"of {', '.join(WORK)}, or all, or MxKxN")
    parser.add_argument("--through", choices=sorted(RIVALS), default=default_way())
    parser.add_argument("--seconds", type=float, default=3.0, help="per row")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args(arguments)
    able = ABLE[options.precision]
    peers = able if options.against is None else [p for p in options.against.split(",") if p]
    unknown = sorted(set(peers) - set(PEERS))
    if unable := sorted(set(peers) - set(able) - set(unknown)):
        parser.error(f"no {options.precision} in {', '.join(unable)}")
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if not options.json:
        print(heading(peers))
    rows: list[Row] = []
    for threads in map(int, options.threads.split(",")):
        for work in chosen(options.work, parser):
            row = measure(work, threads, options.through, peers, options.seconds, options.precision)
            rows.append(row)
            print(json.dumps(vars(row)) if options.json else line(row, peers), flush=True)
    if not options.json and peers:
        mean = float(np.exp(np.mean([np.log(r.ratio) for r in rows])))
        print(f"geometric mean of the ratios: {mean:.3f}, least: {min(r.ratio for r in rows):.3f}")
    return 0


def default_way() -> str:
    import irc

    return "api" if hasattr(irc, "compile_model") else "kernel"


def chosen(text: str, parser: argparse.ArgumentParser) -> list[Work]:
    found: list[Work] = []
    for name in text.split(","):
        if name == "all":
            found += [w for group in WORK.values() for w in group]
        elif name in WORK:
            found += WORK[name]
        elif len(sizes := name.split("x")) == 3 and all(s.isdigit() for s in sizes):
            found.append(Work(*map(int, sizes)))
        else:
            parser.error(f"no such work: {name}; there are {', '.join(WORK)}, all, and MxKxN")
    return found


def heading(peers: list[str]) -> str:
    names = "".join(f"{p + ' us':>16}" for p in peers)
    return (
        f"{'M x K x N':24}{'threads':>8}{'irc us':>11}{names}{'GFLOP/s':>10}{'peak':>7}{'ratio':>7}"
    )


def line(row: Row, peers: list[str]) -> str:
    times = "".join(f"{row.seconds[p] * 1e6:16.1f}" for p in peers)
    return (
        f"{row.size:24}{row.threads:8}{row.seconds['irc'] * 1e6:11.1f}{times}"
        f"{row.gflops:10.1f}{row.peak:7.0%}{row.ratio:7.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
