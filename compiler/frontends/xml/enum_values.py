"""Words that attributes may have: OpenVINO reads them in any case, operations get these forms.

A word that is not listed is an error in the file; one that is listed but not supported is refused
by the operation itself.
"""

from __future__ import annotations

_BROADCAST = ("none", "explicit", "numpy", "pdpd")
_PAD = ("explicit", "same_upper", "same_lower", "valid")

# By attribute, whatever the operation.
_EVERYWHERE: dict[str, tuple[str, ...]] = {
    "auto_broadcast": _BROADCAST,
    "auto_pad": _PAD,
    "rounding_type": ("floor", "ceil", "ceil_torch"),
    "direction": ("forward", "reverse", "bidirectional"),
    "shape_calculation_mode": ("sizes", "scales"),
    "coordinate_transformation_mode": (
        "half_pixel",
        "pytorch_half_pixel",
        "asymmetric",
        "tf_half_pixel_for_nn",
        "align_corners",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"),
    "pad_mode": ("constant", "edge", "reflect", "symmetric"),
    "padding_mode": ("zeros", "border", "reflection"),
    "sort": ("none", "index", "value"),
    "reduction": ("none", "sum", "sub", "prod", "min", "max", "mean"),
    "box_encoding": ("corner", "center"),
    "alignment": ("tensorflow", "pytorch"),
    "aligned_mode": ("asymmetric", "half_pixel_for_nn", "half_pixel"),
    "negative_indices_mode": ("ignore_negative", "normalize"),
    "approximation_mode": ("ERF", "TANH"),
    "out_of_range": ("zeros", "error"),
    "sort_result_type": ("none", "score", "classid"),
    "decay_function": ("linear", "gaussian"),
}
# By operation and attribute, where operations differ.
_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("Broadcast", "mode"): (*_BROADCAST, "bidirectional"),
    ("EmbeddingBagOffsets", "reduction"): ("sum", "mean"),
    ("EmbeddingBagPacked", "reduction"): ("sum", "mean"),
    ("SegmentMax", "fill_mode"): ("zero", "lowest"),
    ("BinaryConvolution", "mode"): ("xnor-popcount",),
    ("DetectionOutput", "code_type"): (
        "caffe.PriorBoxParameter.CORNER",
        "caffe.PriorBoxParameter.CENTER_SIZE",
    ),
    ("Proposal", "framework"): ("", "caffe", "tensorflow"),
    ("PSROIPooling", "mode"): ("average", "bilinear"),
    ("ROIPooling", "method"): ("max", "bilinear"),
    ("DeformablePSROIPooling", "mode"): ("bilinear_deformable",),
    ("DepthToSpace", "mode"): ("blocks_first", "depth_first"),
    ("SpaceToDepth", "mode"): ("blocks_first", "depth_first"),
    ("GridSample", "mode"): ("bilinear", "bicubic", "nearest"),
    ("Interpolate", "mode"): (
        "nearest",
        "linear",
        "linear_onnx",
        "cubic",
        "bilinear_pillow",
        "bicubic_pillow",
    ),
    ("MVN", "eps_mode"): ("INSIDE_SQRT", "OUTSIDE_SQRT"),
    ("NormalizeL2", "eps_mode"): ("add", "max"),
    ("Reverse", "mode"): ("index", "mask"),
    ("ROIAlign", "mode"): ("avg", "max"),
    ("Round", "mode"): ("half_to_even", "half_away_from_zero"),
    ("TopK", "mode"): ("max", "min"),
    ("FakeConvert", "destination_type"): ("f8e4m3", "f8e5m2"),
}


def choices(kind: str, attribute: str) -> tuple[str, ...] | None:
    """The words an attribute may have, or None where it is free text."""
    return _OF.get((kind, attribute)) or _EVERYWHERE.get(attribute)
