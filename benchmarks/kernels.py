"""How long kernels take to compile: `python -m benchmarks.kernels`.

Every distinct kernel of the zoo, of its neighbours and of the products that benchmarks.gemm times,
in float32 and in bf16, and products whose sizes are all known at run time only. Each is generated
and compiled once, by one thread, without any cache; the time is the processor's, so that a
busy machine counts less. The bar is 120 ms a kernel.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

from .measurement.result_files import Row, add_option, add_rows

BAR = 0.120
# What is above the bar is tried again: on a shared core a second try may be a third shorter.
_TRIES = 3


def models(zoos: str, only: list[str]) -> Iterator[tuple[str, Any, str]]:
    """Names, models (files or bytes) and precisions; of the zoos those named in `only`, or all."""
    from .workloads.neighbours import NEIGHBOURS
    from .workloads.products import DATA, GROUPS
    from .workloads.zoo import ZOO, model_path

    for name, group in GROUPS.items() if zoos != "none" else ():
        for work in group.works:
            precision = "bf16" if group.precision == "bf16" else "f32"
            yield f"{name} {work.name}", DATA[group.kind](work, group.precision).model, precision
    for name, zoo in {"zoo": ZOO, "neighbours": NEIGHBOURS}.items():
        named = [e for e in zoo.values() if not only or e.name in only]
        for entry in named if zoos in (name, "all") else ():
            for precision in ("f32", "bf16"):
                yield f"{entry.name} {precision}", str(model_path(entry)), precision


def open_products() -> Iterator[tuple[str, Any]]:
    """Products of every type whose sizes and strides of rows, or all strides, are dynamic."""
    from irc_compiler.ir.dtype import DType
    from irc_compiler.ir.scalar.builder import Builder
    from irc_compiler.plan.packing.panel_params import accumulator
    from irc_compiler.plan.specs.base import Operand, RuntimeDim
    from irc_compiler.plan.specs.gemm import GemmSpec

    m, n, k, a, b, c, x, y, z = map(RuntimeDim, range(9))
    apart = ((a, x), (b, y), (c, z))
    layouts = {
        "": ((a, 1), (b, 1), (c, 1)), ", transposed": ((a, 1), (1, b), (c, 1)),
        ", any strides": apart, ", transposed to any": ((1, a), (1, b), (c, z)),
    }  # fmt: skip
    bytes_ = [(left, right) for left in (DType.u8, DType.i8) for right in (DType.u8, DType.i8)]
    others = [(t, t) for t in (DType.f32, DType.f64, DType.f16, DType.bf16, DType.i32, DType.i64)]
    for left, right in [*bytes_, *others]:
        acc, zeros, out = accumulator(left), {}, left
        if left.bits == 8:
            zeros = {"a_zero_point": Operand(left, (1,)), "b_zero_point": Operand(right, (1,))}
            out = acc
        build = Builder()
        program = build.finish(build.cast(build.input(0, acc), out))
        for name, (of_left, of_right, of_out) in layouts.items():
            for factors in (None, DType.bf16) if left in (DType.f32, DType.bf16) else (None,):
                yield (
                    f"product of {left.name} and {right.name}{name}, any size",
                    GemmSpec(
                        (), m, n, k, Operand(left, of_left), Operand(right, of_right),
                        Operand(out, of_out), acc, None, program, (), factors, **zeros,
                    ),
                )  # fmt: skip


def compressed_products(target: Any) -> Iterator[tuple[str, Any]]:
    """Products with compressed weights and any number of rows."""
    from irc_compiler.ir.dtype import DType
    from irc_compiler.ir.scalar.builder import Builder
    from irc_compiler.plan.packing.panel_params import compressed_layout
    from irc_compiler.plan.specs.base import Operand, RuntimeDim
    from irc_compiler.plan.specs.gemm import Compressed, GemmSpec

    size, group, still, rows = 4096, 128, (0, 0), Operand(DType.f32, (4096, 1))
    for codes in (DType.u4, DType.i4, DType.u8, DType.i8):
        layout = compressed_layout(size, size, codes, group, target)
        zero = Operand(DType.i8 if codes.is_signed else DType.u8, still)
        build = Builder()
        program = build.finish(build.op("add", *(build.input(i, DType.f32) for i in range(2))))
        half_types = itertools.product((DType.f16, DType.bf16), (False, True))
        for scale, normal in ((DType.f32, False), *half_types):
            scales = f"{'normal ' * normal}{scale.name}"
            yield (
                f"product with {codes.name} times {scales}, any number of rows",
                GemmSpec(
                    (), RuntimeDim(0), size, size, rows, Operand(codes, still), rows, DType.f32,
                    layout, program, (Operand(DType.f32, (0, 1)),), None, Compressed(group,
                    Operand(scale, still), zero, normal),
                ),
            )  # fmt: skip


def plan_of(model: Any, precision: str) -> Any:
    """The plan for this machine, of which nothing is compiled."""
    import irc_compiler as irc
    from irc_compiler.compiler.lowering.lower import lower
    from irc_compiler.compiler.options import Options
    from irc_compiler.compiler.pipeline import optimize
    from irc_compiler.runtime.machine.detect import host_target

    graph, options = irc.read_model(model).graph, Options(precision)
    optimize(graph, options)
    return lower(graph, host_target(), options)[0]


def compile_seconds(spec: Any, target: Any) -> float:
    """Seconds of processor time that a kernel takes, from its spec to machine code."""
    from irc_compiler.runtime.jit.llvm import emit_object
    from irc_compiler.runtime.kernels.kernel_table import generate

    best = float("inf")
    for _ in range(_TRIES):
        gc.collect()
        start = time.thread_time()
        emit_object(generate(spec, target, "kernel").text, target)
        best = min(best, time.thread_time() - start)
        if best <= BAR:
            break
    return best


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("--zoo", choices=("none", "zoo", "neighbours", "all"), default="all")
    parser.add_argument("--only", default="", help="models of the zoo, comma separated")
    parser.add_argument("--slowest", type=int, default=10, help="how many of them are printed")
    add_option(parser)
    options = parser.parse_args(arguments)
    from irc_compiler.runtime.machine.detect import host_target

    target, specs = host_target(), dict[Any, str]()
    for name, spec in (*open_products(), *compressed_products(target)):
        specs.setdefault(spec, name)
    compile_seconds(next(iter(specs)), target)  # LLVM starts
    times = {spec: compile_seconds(spec, target) for spec in specs}
    for name, model, precision in models(options.zoo, [n for n in options.only.split(",") if n]):
        new = [s for s in plan_of(model, precision).specs() if s not in specs]
        specs.update(dict.fromkeys(new, name))
        times.update((spec, compile_seconds(spec, target)) for spec in new)
        most = max((times[spec] for spec in new), default=0.0)
        print(f"{name}: {len(new)} kernels, at most {most * 1e3:.0f} ms", file=sys.stderr)
    families = sorted({spec.family for spec in times})
    print(f"{'family':14}{'kernels':>8}{'median ms':>11}{'most ms':>9}")
    for family in families:
        of = sorted(t for spec, t in times.items() if spec.family == family)
        print(f"{family:14}{len(of):8}{of[len(of) // 2] * 1e3:11.0f}{of[-1] * 1e3:9.0f}")
    if options.results:
        add_rows(options.results, (family_row(f, times) for f in families))
    print(f"\nthe slowest of {len(times)}:")
    order = sorted(times, key=lambda spec: -times[spec])
    for spec in order[: options.slowest]:
        print(f"{times[spec] * 1e3:6.0f} ms  {spec.family:12} {specs[spec]}")
    above = sum(t > BAR for t in times.values())
    print(f"\nabove the bar of {BAR * 1e3:.0f} ms: {above}")
    return 0


def family_row(family: str, times: dict[Any, float]) -> Row:
    """Processor seconds to compile the kernels of a family: the median and the extremes."""
    of = sorted(t for spec, t in times.items() if spec.family == family)
    measures = {"kernels": len(of), "largest_seconds": of[-1]}
    return Row(
        "kernel compile time", family, "irc", 1, "all", of[len(of) // 2], of[0], measures=measures
    )


if __name__ == "__main__":
    sys.exit(main())
