"""Signatures of the functions of OpenVINO's opset modules.

One line each: name, first operation set, operation, parameters. `@` marks an attribute (with its
name in XML after a colon, where that differs), `*` a list of inputs, `**` a mapping of attributes;
others are inputs. After `=` comes the default.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TABLE = """
absolute 1 Abs node
acos 1 Acos node
acosh 4 Acosh node
adaptive_avg_pool 8 AdaptiveAvgPool data output_shape
adaptive_max_pool 8 AdaptiveMaxPool data output_shape @index_element_type='i64'
add 1 Add left_node right_node @auto_broadcast='NUMPY'
asin 1 Asin node
asinh 4 Asinh node
assign 3 Assign new_value @variable_id
atan 1 Atan node
atanh 4 Atanh node
avg_pool 1 AvgPool data_batch @strides @pads_begin @pads_end @kernel_shape:kernel
    @exclude_pad:exclude-pad @rounding_type='floor' @auto_pad=None
avg_pool 14 AvgPool data_batch @strides @pads_begin @pads_end @kernel_shape:kernel
    @exclude_pad:exclude-pad @rounding_type='floor' @auto_pad=None
avg_pool 16 AvgPool data_batch @strides @pads_begin @pads_end @kernel_shape:kernel
    @exclude_pad:exclude-pad @rounding_type='floor' @auto_pad=None @dilations=None
batch_norm_inference 1 BatchNormInference data gamma beta mean variance @epsilon
batch_norm_inference 5 BatchNormInference data gamma beta mean variance @epsilon
batch_to_space 2 BatchToSpace data block_shape crops_begin crops_end
binary_convolution 1 BinaryConvolution data filters @strides @pads_begin @pads_end @dilations
    @mode @pad_value @auto_pad='EXPLICIT'
bitwise_and 13 BitwiseAnd left_node right_node @auto_broadcast='NUMPY'
bitwise_left_shift 15 BitwiseLeftShift arg0 arg1 @auto_broadcast='NUMPY'
bitwise_not 13 BitwiseNot node
bitwise_or 13 BitwiseOr left_node right_node @auto_broadcast='NUMPY'
bitwise_right_shift 15 BitwiseRightShift arg0 arg1 @auto_broadcast='NUMPY'
bitwise_xor 13 BitwiseXor left_node right_node @auto_broadcast='NUMPY'
broadcast 1 Broadcast data target_shape axes_mapping=None @mode='NUMPY'
broadcast 3 Broadcast data target_shape axes_mapping=None @broadcast_spec:mode='NUMPY'
bucketize 3 Bucketize data buckets @output_type='i64' @with_right_bound=True
ceiling 1 Ceiling node
clamp 1 Clamp data @min_value:min @max_value:max
col2im 15 Col2Im data output_size kernel_size @strides=None @dilations=None @pads_begin=None
    @pads_end=None
concat 1 Concat *nodes @axis
convert 1 Convert data @destination_type
convert_like 1 ConvertLike data like
convert_promote_types 14 ConvertPromoteTypes left_node right_node @promote_unsafe=False
    @pytorch_scalar_promotion=False @u64_integer_promotion_target='f32'
convolution 1 Convolution data filters @strides @pads_begin @pads_end @dilations
    @auto_pad='EXPLICIT'
convolution_backprop_data 1 ConvolutionBackpropData data filters @strides output_shape=None
    @pads_begin=None @pads_end=None @dilations=None @auto_pad=None @output_padding=None
cos 1 Cos node
cosh 1 Cosh node
ctc_greedy_decoder 1 CTCGreedyDecoder data sequence_mask
    @merge_repeated:ctc_merge_repeated=True
ctc_greedy_decoder_seq_len 6 CTCGreedyDecoderSeqLen data sequence_length blank_index=None
    @merge_repeated=True @classes_index_type='i32' @sequence_length_type='i32'
ctc_loss 4 CTCLoss logits logit_length labels label_length blank_index=None
    @preprocess_collapse_repeated=False @ctc_merge_repeated=True @unique=False
cum_sum 3 CumSum arg axis @exclusive=False @reverse=False
deformable_convolution 1 DeformableConvolution data deformable_values filters @strides
    @pads_begin @pads_end @dilations @auto_pad='EXPLICIT' @group=1 @deformable_group=1
deformable_convolution 8 DeformableConvolution data offsets filters @strides @pads_begin
    @pads_end @dilations mask=None @auto_pad='EXPLICIT' @group=1 @deformable_group=1
    @bilinear_interpolation_pad=False
deformable_psroi_pooling 1 DeformablePSROIPooling feature_maps coords @output_dim
    @spatial_scale @group_size=1 @mode='bilinear_deformable' @spatial_bins_x=1
    @spatial_bins_y=1 @trans_std=1.0 @part_size=1 offsets=None
depth_to_space 1 DepthToSpace node @mode @block_size=1
detection_output 1 DetectionOutput box_logits class_preds proposals **attrs
    aux_class_preds=None aux_box_preds=None
detection_output 8 DetectionOutput box_logits class_preds proposals **attrs
    aux_class_preds=None aux_box_preds=None
dft 7 DFT data axes signal_size=None
divide 1 Divide left_node right_node @auto_broadcast='NUMPY'
einsum 7 Einsum *inputs @equation
elu 1 Elu data @alpha
embedding_bag_offsets 15 EmbeddingBagOffsets emb_table indices offsets default_index=None
    per_sample_weights=None @reduction='sum'
embedding_bag_offsets_sum 3 EmbeddingBagOffsetsSum emb_table indices offsets
    default_index=None per_sample_weights=None
embedding_bag_packed 15 EmbeddingBagPacked emb_table indices per_sample_weights=None
    @reduction='sum'
embedding_bag_packed_sum 3 EmbeddingBagPackedSum emb_table indices per_sample_weights=None
embedding_segments_sum 3 EmbeddingSegmentsSum emb_table indices segment_ids num_segments=None
    default_index=None per_sample_weights=None
equal 1 Equal left_node right_node @auto_broadcast='NUMPY'
erf 1 Erf node
exp 1 Exp node
extract_image_patches 3 ExtractImagePatches image @sizes @strides @rates @auto_pad
eye 9 Eye num_rows num_columns diagonal_index @output_type batch_shape=None
fake_convert 13 FakeConvert data scale shift=None @destination_type='f8e4m3'
fake_quantize 1 FakeQuantize data input_low input_high output_low output_high @levels
    @auto_broadcast='NUMPY'
fake_quantize 13 FakeQuantize data input_low input_high output_low output_high @levels
    @auto_broadcast='NUMPY'
floor 1 Floor node
floor_mod 1 FloorMod left_node right_node @auto_broadcast='NUMPY'
gather 1 Gather data indices axis
gather 7 Gather data indices axis @batch_dims=0
gather 8 Gather data indices axis @batch_dims=0
gather_elements 6 GatherElements data indices @axis=0
gather_nd 5 GatherND data indices @batch_dims=0
gather_nd 8 GatherND data indices @batch_dims=0
gather_tree 1 GatherTree step_ids parent_idx max_seq_len end_token
gelu 2 Gelu node
gelu 7 Gelu data @approximation_mode
generate_proposals 9 GenerateProposals im_info anchors deltas scores @min_size @nms_threshold
    @pre_nms_count @post_nms_count @normalized=True @nms_eta=1.0 @roi_num_type='i64'
greater 1 Greater left_node right_node @auto_broadcast='NUMPY'
greater_equal 1 GreaterEqual left_node right_node @auto_broadcast='NUMPY'
grid_sample 9 GridSample data grid **attributes
grn 1 GRN data @bias
group_convolution 1 GroupConvolution data filters @strides @pads_begin @pads_end @dilations
    @auto_pad='EXPLICIT'
group_convolution_backprop_data 1 GroupConvolutionBackpropData data filters @strides
    output_shape=None @pads_begin=None @pads_end=None @dilations=None @auto_pad='EXPLICIT'
    @output_padding=None
group_normalization 12 GroupNormalization data scale bias @num_groups @epsilon
gru_cell 3 GRUCell X initial_hidden_state W R B @hidden_size @activations=None
    @activations_alpha=None @activations_beta=None @clip=0.0 @linear_before_reset=False
gru_sequence 5 GRUSequence X initial_hidden_state sequence_lengths W R B @hidden_size
    @direction @activations=None @activations_alpha=None @activations_beta=None @clip=0.0
    @linear_before_reset=False
hard_sigmoid 1 HardSigmoid data alpha beta
hsigmoid 5 HSigmoid data
hswish 4 HSwish data
i420_to_bgr 8 I420toBGR arg arg_u=None arg_v=None
i420_to_rgb 8 I420toRGB arg arg_u=None arg_v=None
identity 16 Identity data
idft 7 IDFT data axes signal_size=None
interpolate 1 Interpolate image output_shape **attrs
interpolate 10 Interpolate image output_shape scales @mode @shape_calculation_mode
    @pads_begin=None @pads_end=None @coordinate_transformation_mode='half_pixel'
    @nearest_mode='round_prefer_floor' @antialias=False @cube_coeff=-0.75 axes=None
interpolate 11 Interpolate image scales_or_sizes @mode @shape_calculation_mode
    @pads_begin=None @pads_end=None @coordinate_transformation_mode='half_pixel'
    @nearest_mode='round_prefer_floor' @antialias=False @cube_coeff=-0.75 axes=None
inverse 14 Inverse data @adjoint=False
irdft 9 IRDFT data axes signal_size=None
is_finite 10 IsFinite data
is_inf 10 IsInf data **attributes=None
is_nan 10 IsNaN data
istft 16 ISTFT data window frame_size frame_step @center @normalized signal_length=None
less 1 Less left_node right_node @auto_broadcast='NUMPY'
less_equal 1 LessEqual left_node right_node @auto_broadcast='NUMPY'
log 1 Log node
log_softmax 5 LogSoftmax data @axis
logical_and 1 LogicalAnd left_node right_node @auto_broadcast='NUMPY'
logical_not 1 LogicalNot node
logical_or 1 LogicalOr left_node right_node @auto_broadcast='NUMPY'
logical_xor 1 LogicalXor left_node right_node @auto_broadcast='NUMPY'
lrn 1 LRN data axes @alpha=1 @beta=0.5 @bias=1 @size=5
lstm_cell 1 LSTMCell X initial_hidden_state initial_cell_state W R B @hidden_size
    @activations=None @activations_alpha=None @activations_beta=None @clip=0.0
lstm_cell 4 LSTMCell X initial_hidden_state initial_cell_state W R B @hidden_size
    @activations=None @activations_alpha=None @activations_beta=None @clip=0.0
lstm_sequence 5 LSTMSequence X initial_hidden_state initial_cell_state sequence_lengths W R B
    @hidden_size @direction @activations=None @activations_alpha=None @activations_beta=None
    @clip=0.0
matmul 1 MatMul data_a data_b @transpose_a @transpose_b
matrix_nms 8 MatrixNms boxes scores @sort_result_type='none' @sort_result_across_batch=False
    @output_type='i64' @score_threshold=0.0 @nms_top_k=-1 @keep_top_k=-1 @background_class=-1
    @decay_function='linear' @gaussian_sigma=2.0 @post_threshold=0.0 @normalized=True
max_pool 1 MaxPool data @strides @pads_begin @pads_end @kernel_shape:kernel
    @rounding_type='floor' @auto_pad=None
max_pool 8 MaxPool data @strides @dilations @pads_begin @pads_end @kernel_shape:kernel
    @rounding_type='floor' @auto_pad=None @index_element_type='i64' @axis=0
max_pool 14 MaxPool data @strides @dilations @pads_begin @pads_end @kernel_shape:kernel
    @rounding_type='floor' @auto_pad=None @index_element_type='i64' @axis=0
maximum 1 Maximum left_node right_node @auto_broadcast='NUMPY'
minimum 1 Minimum left_node right_node @auto_broadcast='NUMPY'
mish 4 Mish data
mod 1 Mod left_node right_node @auto_broadcast='NUMPY'
multiclass_nms 8 MulticlassNms boxes scores @sort_result_type='none'
    @sort_result_across_batch=False @output_type='i64' @iou_threshold=0.0 @score_threshold=0.0
    @nms_top_k=-1 @keep_top_k=-1 @background_class=-1 @nms_eta=1.0 @normalized=True
multiclass_nms 9 MulticlassNms boxes scores roisnum=None @sort_result_type='none'
    @sort_result_across_batch=False @output_type='i64' @iou_threshold=0.0 @score_threshold=0.0
    @nms_top_k=-1 @keep_top_k=-1 @background_class=-1 @nms_eta=1.0 @normalized=True
multinomial 13 Multinomial probs num_samples @convert_type @with_replacement @log_probs
    @global_seed=0 @op_seed=0
multiply 1 Multiply left_node right_node @auto_broadcast='NUMPY'
mvn 2 MVN data @across_channels=False @normalize_variance=False @eps=1e-09
mvn 6 MVN data axes @normalize_variance @eps @eps_mode
negative 1 Negative node
nms_rotated 13 NMSRotated boxes scores max_output_boxes_per_class iou_threshold
    score_threshold @sort_result_descending=True @output_type='i64' @clockwise=True
non_max_suppression 1 NonMaxSuppression boxes scores max_output_boxes_per_class=None
    iou_threshold=None score_threshold=None @box_encoding='corner'
    @sort_result_descending=True
non_max_suppression 3 NonMaxSuppression boxes scores max_output_boxes_per_class=None
    iou_threshold=None score_threshold=None @box_encoding='corner'
    @sort_result_descending=True @output_type='i64'
non_max_suppression 4 NonMaxSuppression boxes scores max_output_boxes_per_class=None
    iou_threshold=None score_threshold=None @box_encoding='corner'
    @sort_result_descending=True @output_type='i64'
non_max_suppression 5 NonMaxSuppression boxes scores max_output_boxes_per_class=None
    iou_threshold=None score_threshold=None soft_nms_sigma=None @box_encoding='corner'
    @sort_result_descending=True @output_type='i64'
non_max_suppression 9 NonMaxSuppression boxes scores max_output_boxes_per_class=None
    iou_threshold=None score_threshold=None soft_nms_sigma=None @box_encoding='corner'
    @sort_result_descending=True @output_type='i64'
non_zero 3 NonZero data @output_type='i64'
normalize_l2 1 NormalizeL2 data axes @eps @eps_mode:mode
not_equal 1 NotEqual left_node right_node @auto_broadcast='NUMPY'
nv12_to_bgr 8 NV12toBGR arg arg_uv=None
nv12_to_rgb 8 NV12toRGB arg arg_uv=None
one_hot 1 OneHot indices depth on_value off_value @axis
one_hot 16 OneHot indices depth on_value off_value @axis @negative_indices_mode=None
pad 1 Pad arg pads_begin pads_end @pad_mode arg_pad_value=None
pad 12 Pad arg pads_begin pads_end @pad_mode arg_pad_value=None
power 1 Power left_node right_node @auto_broadcast='NUMPY'
prelu 1 PRelu data slope
prior_box 1 PriorBox layer_shape image_shape **attrs
prior_box 8 PriorBox layer_shape image_shape **attrs
prior_box_clustered 1 PriorBoxClustered output_size image_size **attrs
proposal 1 Proposal class_probs bbox_deltas image_shape **attrs
proposal 4 Proposal class_probs bbox_deltas image_shape **attrs
psroi_pooling 1 PSROIPooling input coords @output_dim @group_size @spatial_scale
    @spatial_bins_x @spatial_bins_y @mode
random_uniform 8 RandomUniform output_shape min_val max_val @output_type @global_seed=0
    @op_seed=0 @alignment='tensorflow'
range 1 Range start stop step
range 4 Range start stop step @output_type
rdft 9 RDFT data axes signal_size=None
read_value 3 ReadValue init_value @variable_id
reduce_l1 4 ReduceL1 node reduction_axes @keep_dims=False
reduce_l2 4 ReduceL2 node reduction_axes @keep_dims=False
reduce_logical_and 1 ReduceLogicalAnd node reduction_axes @keep_dims=False
reduce_logical_or 1 ReduceLogicalOr node reduction_axes @keep_dims=False
reduce_max 1 ReduceMax node reduction_axes @keep_dims=False
reduce_mean 1 ReduceMean node reduction_axes @keep_dims=False
reduce_min 1 ReduceMin node reduction_axes @keep_dims=False
reduce_prod 1 ReduceProd node reduction_axes @keep_dims=False
reduce_sum 1 ReduceSum node reduction_axes @keep_dims=False
region_yolo 1 RegionYolo input @coords @classes @num @do_softmax @mask @axis @end_axis
    @anchors=None
relu 1 Relu node
reorg_yolo 2 ReorgYolo input @stride
reshape 1 Reshape node output_shape @special_zero
result 1 Result data
reverse_sequence 1 ReverseSequence input seq_lengths @batch_axis @seq_axis
rnn_cell 3 RNNCell X initial_hidden_state W R B @hidden_size @activations @activations_alpha
    @activations_beta @clip=0.0
rnn_sequence 5 RNNSequence X initial_hidden_state sequence_lengths W R B @hidden_size
    @direction @activations=None @activations_alpha=None @activations_beta=None @clip=0.0
roi_align 3 ROIAlign data rois batch_indices @pooled_h @pooled_w @sampling_ratio
    @spatial_scale @mode
roi_align 9 ROIAlign data rois batch_indices @pooled_h @pooled_w @sampling_ratio
    @spatial_scale @mode @aligned_mode='asymmetric'
roi_align_rotated 15 ROIAlignRotated data rois batch_indices @pooled_h @pooled_w
    @sampling_ratio @spatial_scale @clockwise_mode
roi_pooling 2 ROIPooling input coords @output_roi:output_size=None @spatial_scale=None @method='max'
roll 7 Roll data shift axes
round 5 Round data @mode='half_to_even'
scaled_dot_product_attention 13 ScaledDotProductAttention query key value attention_mask=None
    scale=None @causal=False
scatter_elements_update 3 ScatterElementsUpdate data indices updates axis
scatter_elements_update 12 ScatterElementsUpdate data indices updates axis @reduction='None'
    @use_init_val=True
scatter_nd_update 4 ScatterNDUpdate data indices updates
scatter_nd_update 15 ScatterNDUpdate data indices updates @reduction=None
scatter_update 3 ScatterUpdate data indices updates axis
search_sorted 15 SearchSorted sorted_sequence values @right_mode=False
segment_max 16 SegmentMax data segment_ids num_segments=None @fill_mode=None
select 1 Select cond then_node else_node @auto_broadcast='numpy'
selu 1 Selu data alpha lambda_value
shape_of 1 ShapeOf data
shape_of 3 ShapeOf data @output_type='i64'
shuffle_channels 3 ShuffleChannels data @axis @group
sigmoid 1 Sigmoid data
sign 1 Sign node
sin 1 Sin node
sinh 1 Sinh node
slice 8 Slice data start stop step axes=None
slice_scatter 15 SliceScatter data updates start stop step axes=None
softmax 1 Softmax data @axis
softmax 8 Softmax data @axis
softplus 4 SoftPlus data
softsign 9 SoftSign node
space_to_batch 2 SpaceToBatch data block_shape pads_begin pads_end
space_to_depth 1 SpaceToDepth data @mode @block_size=1
sparse_fill_empty_rows 16 SparseFillEmptyRows values dense_shape indices default_value
split 1 Split data axis @num_splits
sqrt 1 Sqrt node
squared_difference 1 SquaredDifference x1 x2 @auto_broadcast='NUMPY'
squeeze 1 Squeeze data axes
squeeze 15 Squeeze data axes=None @allow_axis_skip=False
stft 15 STFT data window frame_size frame_step @transpose_frames
strided_slice 1 StridedSlice data begin end strides @begin_mask @end_mask @new_axis_mask=None
    @shrink_axis_mask=None @ellipsis_mask=None
string_tensor_pack 15 StringTensorPack begins ends symbols
string_tensor_unpack 15 StringTensorUnpack data
subtract 1 Subtract left_node right_node @auto_broadcast='NUMPY'
swish 4 Swish data beta=None
tan 1 Tan node
tanh 1 Tanh node
tile 1 Tile data repeats
topk 1 TopK data k @axis @mode @sort
topk 3 TopK data k @axis @mode @sort @index_element_type='i32'
topk 11 TopK data k @axis @mode @sort @index_element_type='i32' @stable=False
transpose 1 Transpose data input_order
unique 10 Unique data axis=None @sorted=True @index_element_type='i64'
    @count_element_type='i64'
unsqueeze 1 Unsqueeze data axes
variadic_split 1 VariadicSplit data axis split_lengths

"""
_REQUIRED = object()
_KINDS = {"": "input", "*": "inputs", "@": "attribute", "**": "attributes"}


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter. kind: input, inputs (a list), attribute, or attributes (a mapping)."""

    name: str
    kind: str
    xml: str
    default: Any

    def __str__(self) -> str:
        return self.name if self.default is _REQUIRED else f"{self.name}={self.default!r}"


@dataclass(frozen=True)
class FunctionSignature:
    """A function: its name, the set that has it first, its operation and parameters."""

    name: str
    opset: int
    kind: str
    parameters: tuple[FunctionParameter, ...]

    @property
    def is_elementwise(self) -> bool:
        """Whether the operands are of one element type, which plain numbers take."""
        return any(p.name == "auto_broadcast" for p in self.parameters)

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Values by parameter. TypeError where they do not fit, as of any Python function."""
        names = [p.name for p in self.parameters]
        if len(args) > len(names):
            raise TypeError(
                f"{self.name}() takes {len(names)} arguments, and {len(args)} are given"
            )
        given = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise TypeError(f"{self.name}() cannot take {name!r}: it takes {', '.join(names)}")
            given[name] = value
        for parameter in self.parameters:
            if parameter.name not in given:
                if parameter.default is _REQUIRED:
                    raise TypeError(f"{self.name}() needs the argument {parameter.name!r}")
                given[parameter.name] = parameter.default
        return given


def read_signatures() -> list[FunctionSignature]:
    """The table, in order of names and operation sets."""
    joined = _TABLE.replace("\n    ", " ").strip().splitlines()
    return [_read_line(line) for line in joined]


def _read_line(line: str) -> FunctionSignature:
    name, opset, kind, *parameters = line.split()
    return FunctionSignature(name, int(opset), kind, tuple(_read_parameter(p) for p in parameters))


def _read_parameter(text: str) -> FunctionParameter:
    label, equals, default = text.partition("=")
    value = ast.literal_eval(default) if equals else _REQUIRED
    name, _, xml = label.lstrip("*@").partition(":")
    mark = label[: len(label) - len(label.lstrip("*@"))]
    return FunctionParameter(name, _KINDS[mark], xml or name, value)
