"""A product's kernel: its entry, and the loops for the sizes that it may meet."""

from __future__ import annotations

from ....plan.specs.convolution import ConvSpec, express_as_product
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import INPLACE, READ, READ_SHARED, WRITE, open_kernel
from ..emit.contract import Kernel
from .context import GemmContext
from .loops.gemm_loops import GemmLoops
from .schedule import F32AmxSchedule, VectorSchedule
from .tiling import schedule_gemm, without_rounding


def generate_product_of_windows(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution that is a product of matrices."""
    product = express_as_product(spec)
    assert product is not None
    return generate(product, target, symbol, spec)


def generate(
    spec: GemmSpec, target: Target, symbol: str, windows: ConvSpec | None = None
) -> Kernel:
    """The kernel of a product. windows: the convolution whose windows are the rows of A."""
    module, schedule = Module(target), schedule_gemm(spec, target)
    out = INPLACE if spec.epilogue_operands else WRITE
    zeros, scaling = ([READ] * len(x) for x in (spec.zero_points, spec.scaling()))
    buffers = [READ, READ, *zeros, *[READ_SHARED] * len(spec.epilogue_operands), *scaling, out]
    # These tiles take long, compared with the loops around them.
    optimized = not isinstance(schedule.tiles, VectorSchedule | F32AmxSchedule)
    entry = open_kernel(
        module, symbol, buffers, spec.runtime_dims, only_calls=True, optimized=optimized
    )
    loops = GemmLoops(GemmContext.of(spec, target, module, schedule.tiles, windows), entry)
    f = entry.function
    if schedule.n_one:
        loops.column(schedule.dot_rows)
    elif schedule.few is not None:
        exact = without_rounding(spec, target)
        few = GemmLoops(GemmContext.of(exact, target, module, schedule.few), entry)
        with f.if_(f.icmp("sle", loops.m, schedule.few_rows)) as branch:
            few.tiles()
            branch.else_()
            loops.tiles()
        loops.scratch = max(loops.scratch, few.scratch)
    elif schedule.n_one is False:
        loops.tiles()
    else:
        with f.if_(f.icmp("eq", loops.n, 1)) as branch:
            loops.column(schedule.dot_rows)
            branch.else_()
            loops.tiles()
    return Kernel(symbol, module.text(), max(64, loops.scratch))
