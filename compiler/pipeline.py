"""The passes in order, on one screen.

The graph comes inferred from a frontend. Each pass is a set of rules run to a fixed point by the
engine (compiler/rewrite/engine.py); the order below is explained line by line. Bodies of control
flow go through the same passes afterwards (compiler/rewrite/subgraphs.py).
"""

from __future__ import annotations

from ..ir.graph import Graph
from .lowering.op_table import has_kernel
from .options import Options
from .passes.attention.fuse import fuse_attention
from .passes.canonicalize.common_subexpressions import eliminate_common_subexpressions
from .passes.canonicalize.floor_division import raise_floor_division
from .passes.canonicalize.fold_constants import fold_constants, fold_constants_but_quantized
from .passes.canonicalize.prune_infeasible_branches import prune_infeasible_branches
from .passes.canonicalize.remove_identities import remove_identities
from .passes.canonicalize.simplify_subgraphs import simplify_subgraphs
from .passes.canonicalize.slice_of_concat import fold_slice_of_concat
from .passes.canonicalize.static_reshape_targets import materialize_reshape_targets
from .passes.decompose.data_movement import decompose_data_movement
from .passes.decompose.deformable_convolution import decompose_deformable_convolution
from .passes.decompose.einsum_onehot import decompose_einsum_onehot
from .passes.decompose.embedding_bags import decompose_embedding_bags
from .passes.decompose.grid_sample import decompose_grid_sample
from .passes.decompose.half_convolutions import widen_half_convolutions
from .passes.decompose.image_ops import decompose_image_ops
from .passes.decompose.label_tables import decompose_label_tables
from .passes.decompose.maxpool_indices import decompose_maxpool_indices
from .passes.decompose.norms import decompose_norms
from .passes.decompose.older_versions import upgrade_older_versions
from .passes.decompose.range_eye import decompose_range_eye
from .passes.decompose.rnn_cell_to_sequence import convert_cells_to_sequences
from .passes.decompose.search_sorted import decompose_bucketize, decompose_search_sorted
from .passes.decompose.slice_scatter import decompose_slice_scatter_promotion
from .passes.decompose.suppress_boxes import decompose_non_max_suppression
from .passes.decompose.yolo_layers import decompose_yolo_layers
from .passes.fuse.activations import fuse_activations
from .passes.fuse.batch_norm import fold_batch_norm
from .passes.fuse.dilations import fuse_dilations
from .passes.fuse.elementwise import fuse_elementwise
from .passes.fuse.gelu import fuse_gelu
from .passes.fuse.group_norm import fuse_group_norm
from .passes.fuse.layer_norm import fuse_layer_norm
from .passes.fuse.matmul_add import fuse_matmul_add
from .passes.fuse.pads import fold_pads
from .passes.fuse.parallel_matmuls import fuse_parallel_matmuls
from .passes.fuse.text_ngrams import fuse_text_ngrams
from .passes.layout.cancel_transposes import cancel_transposes
from .passes.layout.conv1x1_to_matmul import convert_conv1x1_to_matmul
from .passes.layout.fold_transposes import fold_transposes
from .passes.layout.outer_products import convert_outer_products
from .passes.quantize.decompose_leftovers import decompose_unsupported_quantized
from .passes.quantize.fold_requantize_scales import fold_requantize_scales
from .passes.quantize.gather_quantized import gather_quantized_table
from .passes.quantize.i8_to_u8 import convert_i8_to_u8
from .passes.quantize.integer_matmul import lower_to_integer_matmul
from .passes.quantize.recognize_fake_quantize import recognize_fake_quantize
from .passes.quantize.recognize_qdq import recognize_qdq
from .passes.quantize.sink_dequantize import sink_dequantize
from .passes.raise_loops.embedding_bag import raise_embedding_bag
from .passes.raise_loops.sequence_to_scan_output import raise_sequence_to_scan_output
from .passes.raise_loops.while_loops import raise_while_loops
from .rewrite.engine import Pass, run_pass
from .rewrite.subgraphs import optimize_subgraphs
from .rewrite.trace import Trace

PASSES: tuple[Pass, ...] = (
    # A branch that what follows cannot take: with one rank left everything behind has types. First:
    # other passes remove nodes that take one rank only.
    prune_infeasible_branches,
    # Earlier definitions of an operation are its latest one; what that moves in weights is folded.
    upgrade_older_versions,
    # Quotients of sizes rounded down: what follows from them is known then.
    raise_floor_division,
    # Recognize QDQ before constant folding, which would expand int8 weights to f32.
    recognize_qdq,
    recognize_fake_quantize,
    # Constants: shape arithmetic disappears, and every later pattern sees plain constants.
    fold_constants_but_quantized,
    # Einsum is a product like others, and meets the patterns of products.
    decompose_einsum_onehot,
    # Every n-th pixel is read where it is, before movements are decomposed.
    fuse_dilations,
    # So are norms, movements and others that have no kernel of their own.
    decompose_norms,
    decompose_data_movement,
    decompose_range_eye,
    decompose_grid_sample(has_kernel),
    decompose_yolo_layers,
    decompose_image_ops,
    decompose_deformable_convolution,
    decompose_embedding_bags,
    decompose_slice_scatter_promotion,
    decompose_bucketize(has_kernel),
    decompose_search_sorted,
    decompose_label_tables,
    decompose_non_max_suppression,
    # Then what does nothing, so that patterns need not look through it.
    remove_identities,
    fold_slice_of_concat,
    # Texts to counts of their words in one step; what flattens the words is gone.
    fuse_text_ngrams,
    # A cell runs by the kernel of sequences; what it reshapes is folded below.
    convert_cells_to_sequences,
    # Where a pool found its maxima is compared out, while elementwise chains are still open.
    decompose_maxpool_indices,
    # Loops that compare a counter with a bound have a known number of iterations.
    raise_while_loops,
    # Lists that loops fill are memory, not Python's.
    raise_sequence_to_scan_output,
    # Constants go into the bodies that read them; the rest outside is not theirs.
    simplify_subgraphs,
    # A loop over bags of rows is one operation on all rows.
    raise_embedding_bag,
    # Equal work once: an exporter's repeated scale or mask is one value for the patterns below.
    eliminate_common_subexpressions,
    # Give Reshapes constant targets: a use by ShapeOf would block the fusion of an epilogue.
    materialize_reshape_targets,
    # Bytes of one sign, while each is read by nothing but what opens it.
    convert_i8_to_u8,
    # What is quantised: movements on bytes, products of bytes, one scale behind them. What no
    # product takes is folded or plain again before the patterns for floats look at it.
    sink_dequantize,
    # Rows of compressed tables are picked as they are stored.
    gather_quantized_table,
    lower_to_integer_matmul,
    fold_requantize_scales,
    fold_constants,
    decompose_unsupported_quantized(has_kernel),
    # Paddings that are steps of their own belong to the windows behind them; bytes have theirs now.
    fold_pads,
    # Compound functions while their primitives are not fused yet.
    fuse_gelu,
    # Before others take a norm's scale: groups of channels are found by the reshapes around them.
    fuse_group_norm,
    fuse_layer_norm,
    # Scales and shifts per channel go into the filters of convolutions.
    fold_batch_norm,
    # What mixes pixels between products is one of them; the filters have taken their scales.
    convert_conv1x1_to_matmul,
    # Transposes meet and cancel, move through elementwise operations, and end in flags.
    cancel_transposes,
    fold_transposes,
    # Scores, softmax and mixture are one operation; while products are still plain.
    fuse_attention,
    # Other products over one element are multiplications, and elementwise.
    convert_outer_products,
    # Products take their bias, scale and activation.
    fuse_matmul_add,
    fuse_activations,
    # Products of the same rows are one, now that each has its addend.
    fuse_parallel_matmuls,
    # What the fusions left constant.
    fold_constants,
    # What is still elementwise becomes one kernel per chain. Last: a group is opaque to patterns.
    fuse_elementwise,
)

_MAX_SIMPLIFY_ROUNDS = 2


def optimize(graph: Graph, options: Options, trace: Trace | None = None) -> Trace:
    """Run all passes on the graph in place. Returns the trace of what they did.

    `options.stop_after` ends after that many rule applications. Operations with bodies get new
    ones: a copy of the graph shares those it had.
    """
    trace = trace if trace is not None else Trace(budget=options.stop_after)
    # First: passes and kernels see convolutions of f32.
    widen_half_convolutions(graph, trace)
    for each in PASSES:
        if trace.is_exhausted:
            break
        run_pass(graph, each, options, trace)
    # Loop-invariant results of bodies are known after the bodies are optimised, which shrinks them
    # again.
    for _ in range(_MAX_SIMPLIFY_ROUNDS):
        found = optimize_subgraphs(graph, options, trace, optimize)
        if (
            not found
            or trace.is_exhausted
            or not run_pass(graph, simplify_subgraphs, options, trace)
        ):
            break
    return trace
