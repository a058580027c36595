"""Graphs as texts, each one a path through lowering."""

from __future__ import annotations

CASES: dict[str, str] = {
    "matmul_bias_relu": """
%0 = Parameter.1() {element_type=f32, shape=["N", 12]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[12, 20]}
%2 = Constant.1() {data=~2, dtype=f32, shape=[20]}
%3 = MatMul.1(%0, %1)
%4 = Add.1(%3, %2)
%5 = Relu.1(%4)
%6 = Result.1(%5) "y"
""",
    "batched_activation_times_weight": """
%0 = Parameter.1() {element_type=f32, shape=["B", "S", 12]} "x"
%1 = Constant.1() {data=~1, dtype=f32, shape=[20, 12]}
%2 = MatMul.1(%0, %1) {transpose_b=true}
%3 = Parameter.1() {element_type=f32, shape=["B", "S", 20]} "r"
%4 = Add.1(%3, %2)
%5 = Result.1(%4) "y"
""",
    "attention_by_strides": """
%0 = Parameter.1() {element_type=f32, shape=["B", "S", 24]} "x"
%1 = Constant.1() {data=[0, 0, 4, 6], dtype=i64, shape=[4]}
%2 = Reshape.1(%0, %1) {special_zero=true}
%3 = Constant.1() {data=[0, 2, 1, 3], dtype=i64, shape=[4]}
%4 = Transpose.1(%2, %3)
%5 = MatMul.1(%4, %4) {transpose_b=true}
%6 = Constant.1() {data=[0.5], dtype=f32, shape=[]}
%7 = Multiply.1(%5, %6)
%8 = Parameter.1() {element_type=f32, shape=["B", 1, 1, "S"]} "m"
%9 = Add.1(%7, %8)
%10 = Softmax.8(%9) {axis=3}
%11 = MatMul.1(%10, %4)
%12 = Transpose.1(%11, %3)
%13 = Constant.1() {data=[0, 0, 24], dtype=i64, shape=[3]}
%14 = Reshape.1(%12, %13) {special_zero=true}
%15 = Result.1(%14) "y"
""",
    "attention_with_a_mask": """
%0 = Parameter.1() {element_type=f32, shape=["B", "S", 48]} "x"
%1 = Constant.1() {data=[0, 0, 3, 2, 8], dtype=i64, shape=[5]}
%2 = Reshape.1(%0, %1) {special_zero=true}
%3 = Constant.1() {data=[0, 3, 2, 1, 4], dtype=i64, shape=[5]}
%4 = Transpose.1(%2, %3)
%5 = Constant.1() {data=[2], dtype=i64, shape=[]}
%6 = Split.1(%4, %5) {num_splits=3}
%7 = Constant.1() {data=[0, 2, -1, 8], dtype=i64, shape=[4]}
%8 = Reshape.1(%6, %7) {special_zero=true}
%9 = Reshape.1(%6:1, %7) {special_zero=true}
%10 = Reshape.1(%6:2, %7) {special_zero=true}
%11 = Parameter.1() {element_type=f32, shape=["B", 1, 1, "S"]} "m"
%12 = Attention.0(%8, %9, %10, %11) {scale=0.25}
%13 = Constant.1() {data=[0, 2, 1, 3], dtype=i64, shape=[4]}
%14 = Transpose.1(%12, %13)
%15 = Constant.1() {data=[0, 0, -1], dtype=i64, shape=[3]}
%16 = Reshape.1(%14, %15) {special_zero=true}
%17 = Result.1(%16) "y"
""",
    "causal_attention_with_shared_heads": """
%0 = Parameter.1() {element_type=f32, shape=["B", 2, 3, "S", 8]} "q"
%1 = Parameter.1() {element_type=f32, shape=["B", 2, 1, "N", 8]} "k"
%2 = Parameter.1() {element_type=f32, shape=["B", 2, 1, 8, "N"]} "v"
%3 = Constant.1() {data=[0, 1, 2, 4, 3], dtype=i64, shape=[5]}
%4 = Transpose.1(%2, %3)
%5 = Attention.0(%0, %1, %4) {scale=0.5, causal="first"}
%6 = Result.1(%5) "first"
%7 = Parameter.1() {element_type=f32, shape=["B", 2, 3, 1, 8]} "one"
%8 = Attention.0(%7, %1, %4) {scale=0.5, causal="last"}
%9 = Result.1(%8) "single"
%10 = Attention.0(%1, %1, %4) {scale=0.5, causal="last"}
%11 = Transpose.1(%10, %3)
%12 = Result.1(%11) "transposed"
""",
    "attention_of_bytes": """
%0 = Parameter.1() {element_type=u8, shape=["B", "S", 2, 8]} "q"
%1 = Parameter.1() {element_type=u8, shape=["B", 2, "N", 8]} "k"
%2 = Parameter.1() {element_type=f32, shape=["B", 2, "N", 5]} "v"
%3 = Constant.1() {data=[0, 2, 1, 3], dtype=i64, shape=[4]}
%4 = Transpose.1(%0, %3)
%5 = Constant.1() {data=[117], dtype=u8, shape=[]}
%6 = Constant.1() {data=[130], dtype=u8, shape=[]}
%7 = Parameter.1() {element_type=f32, shape=["B", 1, 1, "N"]} "m"
%8 = Attention.0(%4, %1, %2, %7, _, %5, %6) {scale=0.0001}
%9 = Result.1(%8) "masked"
%10 = Attention.0(%4, %1, %2, _, _, %5) {scale=0.0002, causal="last"}
%11 = Result.1(%10) "causal"
%12 = Parameter.1() {element_type=f32, shape=["B", 2, 1, 1]} "s"
%13 = Attention.0(%4, %1, %2, _, %12) {scale=0.0001}
%14 = Result.1(%13) "sink"
""",
    "vectors": """
%0 = Parameter.1() {element_type=f32, shape=[7]} "v"
%1 = Parameter.1() {element_type=f32, shape=["B", 7, 5]} "m"
%2 = MatMul.1(%0, %1)
%3 = Result.1(%2) "row"
%4 = Parameter.1() {element_type=f32, shape=[5]} "w"
%5 = MatMul.1(%1, %4)
%6 = Result.1(%5) "column"
%7 = MatMul.1(%0, %0)
%8 = Result.1(%7) "dot"
""",
    "broadcast_batch": """
%0 = Parameter.1() {element_type=f32, shape=[2, 1, 3, 4]} "a"
%1 = Parameter.1() {element_type=f32, shape=[7, 4, 5]} "b"
%2 = MatMul.1(%0, %1)
%3 = Result.1(%2) "y"
""",
    "gemm_with_all": """
%0 = Parameter.1() {element_type=f32, shape=[9, "M"]} "a"
%1 = Parameter.1() {element_type=f32, shape=[11, 9]} "b"
%2 = Parameter.1() {element_type=f32, shape=["M", 1]} "c"
%3 = Gemm.0(%0, %1, %2) {alpha=0.5, beta=-2.0, transpose_a=true, transpose_b=true}
%4 = Result.1(%3) "y"
""",
    "integers": """
%0 = Parameter.1() {element_type=i32, shape=["N", 6]} "x"
%1 = Constant.1() {data=~3, dtype=i32, shape=[6, 5]}
%2 = MatMul.1(%0, %1)
%3 = Result.1(%2) "y"
""",
    "layer_norm_of_a_residual": """
%0 = Parameter.1() {element_type=f32, shape=["N", 33]} "x"
%1 = Parameter.1() {element_type=f32, shape=["N", 33]} "r"
%2 = Add.1(%0, %1)
%3 = Constant.1() {data=~1, dtype=f32, shape=[33]}
%4 = Constant.1() {data=~2, dtype=f32, shape=[33]}
%5 = LayerNorm.0(%2, %3, %4) {axis=-1, eps=1e-5}
%6 = Relu.1(%5)
%7 = Result.1(%6) "y"
""",
    "mvn_over_two_axes": """
%0 = Parameter.1() {element_type=f32, shape=["N", 5, 7]} "x"
%1 = Constant.1() {data=[1, 2], dtype=i64, shape=[2]}
%2 = MVN.6(%0, %1) {normalize_variance=true, eps=0.01, eps_mode="OUTSIDE_SQRT"}
%3 = Result.1(%2) "y"
""",
    "softmax_of_a_middle_axis": """
%0 = Parameter.1() {element_type=f32, shape=["N", 5, 7]} "x"
%1 = Softmax.8(%0) {axis=1}
%2 = LogSoftmax.5(%0) {axis=0}
%3 = Add.1(%1, %2)
%4 = Result.1(%3) "y"
""",
    "reductions": """
%0 = Parameter.1() {element_type=f32, shape=["N", 5, 7, 2]} "x"
%1 = Constant.1() {data=[1, 3], dtype=i64, shape=[2]}
%2 = ReduceMean.1(%0, %1) {keep_dims=true}
%3 = Constant.1() {data=[2.0], dtype=f32, shape=[]}
%4 = Multiply.1(%2, %3)
%5 = Result.1(%4) "mean"
%6 = ReduceMax.1(%0, %1)
%7 = Result.1(%6) "max"
%8 = Abs.1(%0)
%9 = Constant.1() {data=[0, 1, 2, 3], dtype=i64, shape=[4]}
%10 = ReduceSum.1(%8, %9)
%11 = Result.1(%10) "sum"
%12 = ReduceL2.4(%0, %1)
%13 = Result.1(%12) "l2"
""",
    "slices_and_concat": """
%0 = Parameter.1() {element_type=f32, shape=["N", 9]} "x"
%1 = Constant.1() {data=[1, 7], dtype=i64, shape=[2]}
%2 = Constant.1() {data=[-1, -9], dtype=i64, shape=[2]}
%3 = Constant.1() {data=[2, -2], dtype=i64, shape=[2]}
%4 = Constant.1() {data=[0, 1], dtype=i64, shape=[2]}
%5 = Slice.8(%0, %1, %2, %3, %4)
%6 = Relu.1(%5)
%7 = Abs.1(%5)
%8 = Concat.1(%6, %7, %5) {axis=1}
%9 = Result.1(%8) "y"
""",
    "splits": """
%0 = Parameter.1() {element_type=f32, shape=["N", 12]} "x"
%1 = Constant.1() {data=[1], dtype=i64, shape=[]}
%2 = Split.1(%0, %1) {num_splits=3}
%3 = Add.1(%2, %2:2)
%4 = Constant.1() {data=[5, -1, 4], dtype=i64, shape=[3]}
%5 = VariadicSplit.1(%0, %1, %4) {num_outputs=3}
%6 = Exp.1(%5:1)
%7 = Result.1(%3) "sum"
%8 = Result.1(%6) "middle"
%9 = Result.1(%2:1) "view"
""",
    "gathers": """
%0 = Parameter.1() {element_type=f32, shape=[6, "D"]} "table"
%1 = Parameter.1() {element_type=i64, shape=["N", "S"]} "index"
%2 = Constant.1() {data=[0], dtype=i64, shape=[]}
%3 = Gather.8(%0, %1, %2) {batch_dims=0}
%4 = Result.1(%3) "rows"
%5 = Constant.1() {data=[-1], dtype=i64, shape=[]}
%6 = Constant.1() {data=[1], dtype=i64, shape=[]}
%7 = Constant.1() {data=[0, -1], dtype=i64, shape=[2]}
%8 = Gather.8(%0, %7, %6) {batch_dims=0}
%9 = Result.1(%8) "columns"
%10 = Gather.8(%3, %5, %6) {batch_dims=0}
%11 = Result.1(%10) "last"
""",
    "transposed_output": """
%0 = Parameter.1() {element_type=f32, shape=[3, "N", 5]} "x"
%1 = Constant.1() {data=[2, 0, 1], dtype=i64, shape=[3]}
%2 = Transpose.1(%0, %1)
%3 = Result.1(%2) "y"
%4 = Exp.1(%2)
%5 = Result.1(%4) "e"
""",
    "comparison_and_select": """
%0 = Parameter.1() {element_type=f32, shape=["N", 9]} "x"
%1 = Parameter.1() {element_type=f32, shape=[9]} "z"
%2 = Less.1(%0, %1)
%3 = Select.1(%2, %0, %1)
%4 = Convert.1(%2) {destination_type=f32}
%5 = Multiply.1(%3, %4)
%6 = Result.1(%5) "y"
%7 = Result.1(%2) "mask"
""",
    "one_value_many_results": """
%0 = Parameter.1() {element_type=f32, shape=["N"]} "x"
%1 = Relu.1(%0)
%2 = Result.1(%1) "a"
%3 = Result.1(%1) "b"
%4 = Result.1(%0) "c"
%5 = Constant.1() {data=[1.0, 2.0], dtype=f32, shape=[2]}
%6 = Result.1(%5) "d"
""",
    "in_place_chain": """
%0 = Parameter.1() {element_type=f32, shape=["N", 40]} "x"
%1 = Exp.1(%0)
%2 = Constant.1() {data=~5, dtype=f32, shape=[40, 40]}
%3 = MatMul.1(%1, %2)
%4 = Abs.1(%3)
%5 = Sqrt.1(%4)
%6 = MatMul.1(%5, %2)
%7 = Multiply.1(%6, %1)
%8 = Tanh.1(%7)
%9 = Result.1(%8) "y"
""",
    "in_place_softmax": """
%0 = Parameter.1() {element_type=f32, shape=["N", 40]} "x"
%1 = Constant.1() {data=~5, dtype=f32, shape=[40, 40]}
%2 = MatMul.1(%0, %1)
%3 = Softmax.1(%2) {axis=1}
%4 = MatMul.1(%3, %1)
%5 = Add.1(%4, %3)
%6 = Result.1(%5) "y"
""",
    "broadcast_and_tile": """
%0 = Parameter.1() {element_type=f32, shape=["N", 1, 3]} "x"
%1 = Constant.1() {data=[4, 1], dtype=i64, shape=[2]}
%2 = Broadcast.3(%0, %1) {mode="bidirectional"}
%3 = Result.1(%2) "wide"
%4 = Parameter.1() {element_type=f32, shape=[2, 3]} "t"
%5 = Constant.1() {data=[2, 1, 3], dtype=i64, shape=[3]}
%6 = Tile.1(%4, %5)
%7 = Result.1(%6) "tiled"
""",
    "half_precision": """
%0 = Parameter.1() {element_type=f16, shape=["N", 12]} "x"
%1 = Constant.1() {data=~1, dtype=f16, shape=[12, 8]}
%2 = MatMul.1(%0, %1)
%3 = Tanh.1(%2)
%4 = Softmax.8(%3) {axis=1}
%5 = Result.1(%4) "y"
""",
    "shape_at_run_time": """
%0 = Parameter.1() {element_type=f32, shape=["N", "M"]} "x"
%1 = ShapeOf.3(%0) {output_type=i64}
%2 = Result.1(%1) "shape"
%3 = Relu.1(%0)
%4 = Result.1(%3) "y"
""",
    "data_dependent": """
%0 = Parameter.1() {element_type=f32, shape=["N", 4]} "x"
%1 = Relu.1(%0)
%2 = NonZero.3(%1) {output_type=i64}
%3 = Constant.1() {data=[1, 0], dtype=i64, shape=[2]}
%4 = Transpose.1(%2, %3)
%5 = Convert.1(%4) {destination_type=f32}
%6 = Constant.1() {data=~4, dtype=f32, shape=[2, 3]}
%7 = MatMul.1(%5, %6)
%8 = Result.1(%7) "y"
%9 = Result.1(%1) "r"
""",
}
