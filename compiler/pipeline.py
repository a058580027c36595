"""The passes in order, on one screen.

The graph comes inferred from a frontend. Each pass is a set of rules run to a fixed point by the
engine (rewrite.py); the order below is explained line by line. Bodies of control flow go through
the same passes afterwards (bodies.py).
"""

from __future__ import annotations

from ..ir.graph import Graph
from .bodies import optimise_bodies
from .options import Options
from .passes.cancel_concats import cancel_concats
from .passes.cancel_transposes import cancel_transposes
from .passes.find_fake_quantize import find_fake_quantize
from .passes.find_group_norm import find_group_norm
from .passes.find_quantized import find_quantized
from .passes.fold_batch_norm import fold_batch_norm
from .passes.fold_constants import fold_all_but_bytes, fold_constants
from .passes.fold_scales import fold_scales
from .passes.fold_transposes import fold_transposes
from .passes.fuse_activations import fuse_activations
from .passes.fuse_attention import fuse_attention
from .passes.fuse_gelu import fuse_gelu
from .passes.fuse_layer_norm import fuse_layer_norm
from .passes.fuse_matmul_add import fuse_matmul_add
from .passes.gather_codes import gather_codes
from .passes.group_elementwise import group_elementwise
from .passes.join_lists import join_lists
from .passes.merge_products import merge_products
from .passes.move_dequantize import move_dequantize
from .passes.multiply_bytes import multiply_bytes
from .passes.multiply_planes import multiply_planes
from .passes.place_maxima import place_maxima
from .passes.refuse_branches import refuse_branches
from .passes.remove_identities import remove_identities
from .passes.settle_shapes import settle_shapes
from .passes.share_subexpressions import share_subexpressions
from .passes.simplify_bodies import simplify_bodies
from .passes.spell_bags import spell_bags
from .passes.spell_grids import spell_grids
from .passes.spell_moves import spell_moves
from .passes.spell_norms import spell_norms
from .passes.spell_quantized import spell_quantized
from .passes.spell_ranges import spell_ranges
from .passes.spell_sums import spell_sums
from .passes.unroll_cells import unroll_cells
from .passes.unsign_bytes import unsign_bytes
from .rewrite import Pass, run_pass
from .trace import Trace

PASSES: tuple[Pass, ...] = (
    # A branch that what follows cannot take: with one rank left everything behind has types. First:
    # other passes remove nodes that take one rank only.
    refuse_branches,
    # Bytes next: once folded, a quantised weight is four times as large and nobody knows it.
    find_quantized,
    find_fake_quantize,
    # Constants: shape arithmetic disappears, and every later pattern sees plain constants.
    fold_all_but_bytes,
    # Einsum is a product like others, and meets the patterns of products.
    spell_sums,
    # So are norms, movements and others that have no kernel of their own.
    spell_norms,
    spell_moves,
    spell_ranges,
    spell_grids,
    # Then what does nothing, so that patterns need not look through it.
    remove_identities,
    cancel_concats,
    # A cell runs by the kernel of sequences; what it reshapes is folded below.
    unroll_cells,
    # Where a pool found its maxima is compared out, while elementwise chains are still open.
    place_maxima,
    # Lists that loops fill are memory, not Python's.
    join_lists,
    # Constants go into the bodies that read them; what is left outside is not theirs.
    simplify_bodies,
    # A loop over bags of rows is one operation on all rows.
    spell_bags,
    # Equal work once: an exporter's repeated scale or mask is one value for the patterns below.
    share_subexpressions,
    # Reshapes with constant targets: nobody reads the shape of a product that wants an epilogue.
    settle_shapes,
    # Bytes of one sign, while each is read by nothing but what opens it.
    unsign_bytes,
    # What is quantised: movements on bytes, products of bytes, one scale behind them. What no
    # product takes is folded or plain again before the patterns for floats look at it.
    move_dequantize,
    # Rows of compressed tables are picked as they are stored.
    gather_codes,
    multiply_bytes,
    fold_scales,
    fold_constants,
    spell_quantized,
    # Compound functions while their primitives still stand alone.
    fuse_gelu,
    # Before others take a norm's scale: groups of channels are found by the reshapes around them.
    find_group_norm,
    fuse_layer_norm,
    # Scales and shifts per channel go into the filters of convolutions.
    fold_batch_norm,
    # What mixes places between products is one of them; the filters have taken their scales.
    multiply_planes,
    # Transposes meet and cancel, move through elementwise operations, and end in flags.
    cancel_transposes,
    fold_transposes,
    # Scores, softmax and mixture are one operation; while products are still plain.
    fuse_attention,
    # Products take their bias, scale and activation.
    fuse_matmul_add,
    fuse_activations,
    # Products of the same rows are one, now that each has its addend.
    merge_products,
    # What the fusions left constant.
    fold_constants,
    # What is still elementwise becomes one kernel per chain. Last: a group is opaque to patterns.
    group_elementwise,
)

_ROUNDS = 2


def optimise(graph: Graph, options: Options, trace: Trace | None = None) -> Trace:
    """Run all passes on the graph in place. Returns the trace of what they did.

    `options.stop_after` ends after that many rule applications. Operations with bodies get new
    ones: a copy of the graph shares those it had.
    """
    trace = trace if trace is not None else Trace(budget=options.stop_after)
    for each in PASSES:
        if trace.exhausted:
            break
        run_pass(graph, each, options, trace)
    # What bodies hand on unchanged shows once they are optimised, and then they shrink again.
    for _ in range(_ROUNDS):
        found = optimise_bodies(graph, options, trace, optimise)
        if not found or trace.exhausted or not run_pass(graph, simplify_bodies, options, trace):
            break
    return trace
