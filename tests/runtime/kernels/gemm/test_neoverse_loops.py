"""Inner loops of products on Neoverse cores, as llvm-mca predicts them: nearly all cycles multiply.

The record docs/dev/tuning/neoverse-loops.md has the table that these tests print.
"""

from __future__ import annotations

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.processors import PROCESSORS, processor_target
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from support.kernels.inner_loops import busiest_loop, find_llvm_mca, predicted_cycles
from support.kernels.products import Case, make

U8, I8, BF16, F16 = DType.u8, DType.i8, DType.bf16, DType.f16
# Vector multiply-adds, or products of bytes, that a core begins in a cycle.
PER_CYCLE = {"neoverse-n1": 2, "neoverse-v1": 4, "neoverse-v2": 4}
# The product, the processor whose features it is compiled for, its instruction, the least share.
LOOPS = {
    "f32": (Case(48, 256, 64), "neoverse-n1", "fmla", 0.9),
    "i8 by i8, DotProd": (Case(48, 256, 64, dtype=I8, b_dtype=I8), "neoverse-n1", "sdot", 0.9),
    "u8 by i8, I8MM, B not constant": (
        Case(48, 256, 64, b="rows", dtype=U8, b_dtype=I8),
        "neoverse-v1",
        "sudot",
        0.85,
    ),
    "u8 by i8, I8MM, constant B": (
        Case(48, 256, 256, dtype=U8, b_dtype=I8),
        "neoverse-v1",
        "usmmla",
        0.95,
    ),
    "f16": (Case(48, 256, 64, compute_dtype=F16), "neoverse-n1", "fmla", 0.9),
    "bf16, constant B": (Case(48, 256, 64, compute_dtype=BF16), "neoverse-v1", "bfmmla", 0.95),
}


@pytest.mark.skipif(find_llvm_mca() is None, reason="not run: no llvm-mca of LLVM 17 or later")
@pytest.mark.parametrize("core", PER_CYCLE)
@pytest.mark.parametrize("name", LOOPS)
def test_inner_loops_multiply_in_nearly_all_cycles(name: str, core: str) -> None:
    case, processor, instruction, least = LOOPS[name]
    if core == "neoverse-n1" and processor != core:
        pytest.skip("not run: Neoverse N1 has neither I8MM nor BF16")
    target = processor_target(processor)
    assembly = emit_assembly(generate(make(case, processor)[0], target, "k").text, target)
    loop, count = busiest_loop(assembly, instruction)
    features = ",".join(f"+{f}" for f in sorted(PROCESSORS[processor]))
    share = count / PER_CYCLE[core] / predicted_cycles(loop, core, features)
    print(f"| {name} | {core} | {count} | {share:.0%} |")
    assert share >= least


def test_the_busiest_loop_is_the_one_with_most_products() -> None:
    """Without the tool: the loop is found, and has as many products as a tile has registers."""
    target = processor_target("neoverse-n1")
    text = generate(make(Case(48, 256, 64), "neoverse-n1")[0], target, "k").text
    loop, count = busiest_loop(emit_assembly(text, target), "fmla")
    assert count % 24 == 0 and count > 0 and loop[-1].strip().startswith("b")
