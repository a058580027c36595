"""A product's kernel: its entry, and the loops for the sizes that it may meet."""

from __future__ import annotations

from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...jit.llvm import BRIEF
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import INPLACE, READ, READ_SHARED, WRITE, open_kernel
from ..emit.contract import Kernel
from .context import GemmContext
from .loops.gemm_loops import GemmLoops
from .tiling import choose_tiling, tiles_may_expand


def generate(spec: GemmSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a product."""
    module = Module(target)
    out = INPLACE if spec.epilogue_operands else WRITE
    zeros, scaling = ([READ] * len(x) for x in (spec.zero_points, spec.scaling()))
    buffers = [READ, READ, *zeros, *[READ_SHARED] * len(spec.epilogue_operands), *scaling, out]
    entry = open_kernel(module, symbol, buffers, spec.runtime_dims)
    loops = GemmLoops(GemmContext(spec, target, module, choose_tiling(spec, target)), entry)
    f = entry.function
    if spec.n == 1:
        loops.column()
    elif tiles_may_expand(spec, target) and not isinstance(spec.m, int):
        few = GemmLoops(
            GemmContext(spec, target, module, choose_tiling(spec, target, few=True)), entry
        )
        with f.if_(f.icmp("sle", loops.m, few.g.tiling.mr)) as branch:
            few.tiles()
            branch.else_()
            loops.tiles()
        loops.scratch = max(loops.scratch, few.scratch)
    elif isinstance(spec.n, int):
        loops.tiles()
    else:
        with f.if_(f.icmp("eq", loops.n, 1)) as branch:
            loops.column()
            branch.else_()
            loops.tiles()
    return Kernel(symbol, module.text() + BRIEF, max(64, loops.scratch))
