"""Images resized, sampled and pooled by regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Col2Im,
    Convert,
    Divide,
    Floor,
    Gather,
    GridSample,
    Interpolate,
    Multiply,
    ReduceMax,
    ReduceMin,
    ROIAlign,
    ROIPooling,
)
from ..elementary import convert_value, sizes_of
from ..reference import by_reference

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction

_MODES = {"nearest": "nearest", "linear": "linear_onnx", "bilinear": "linear_onnx"}
_COORDINATE_MODES = (
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "tf_half_pixel_for_nn",
)
_CROPS = ("tf_crop_and_resize", "half_pixel_symmetric")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _mode(n: ImportContext) -> str:
    mode = n.text("mode", "nearest")
    if mode == "cubic":
        return mode
    if mode not in _MODES:
        raise n.error("unknown mode of resizing", got=mode, expected="nearest, linear or cubic")
    return _MODES[mode]


def _by_scales(n: ImportContext, scales: Value) -> Value:
    """Before version 11: all axes by scales, coordinates floored."""
    op = Interpolate(_mode(n), "scales", "asymmetric", "floor")
    return n.add(op, n.input(0), scales)


def upsample_image(n: ImportContext) -> Value:
    """Before version 7: the two last axes of an image, each by its own attribute."""
    scales = [1.0, 1.0, n.number("height_scale"), n.number("width_scale")]
    return _by_scales(n, n.constant(np.array(scales, np.float32), DType.f32))


def upsample_attribute(n: ImportContext) -> Value:
    scales = np.array(n.numbers("scales"), np.float32)
    return _by_scales(n, n.constant(scales, DType.f32))


def upsample(n: ImportContext) -> Value:
    return _by_scales(n, n.input(1))


def resize(n: ImportContext) -> Imported:
    """By scales or sizes, of all axes or of those listed. What Interpolate can't say is left to
    onnx.reference: cropping, weights that leave out what lies outside, filters but Pillow's."""
    x, scales, sizes = n.input(0), n.optional(2), n.optional(3)
    if scales is not None and n.shape(scales) == (0,):
        scales = None
    if (scales is None) == (sizes is None):
        raise n.error("Resize takes either scales or sizes")
    mode, coordinate_mode = _mode(n), n.text("coordinate_transformation_mode", "half_pixel")
    nearest = n.text("nearest_mode", "round_prefer_floor")
    if coordinate_mode in _CROPS:
        return by_reference(n)
    if coordinate_mode not in _COORDINATE_MODES:
        expected = ", ".join((*_COORDINATE_MODES, *_CROPS))
        raise n.error(
            "unknown coordinate_transformation_mode", got=coordinate_mode, expected=expected
        )
    if nearest not in _NEAREST:
        raise n.error("unknown nearest_mode", got=nearest, expected=", ".join(_NEAREST))
    outside, filtered = n.flag("exclude_outside"), n.flag("antialias") and mode != "nearest"
    n.has("extrapolation_value")
    if (
        filtered
        and outside
        and coordinate_mode == "half_pixel"
        and (scales is None or _has_integer_scales(n, x, scales))
    ):
        # As the library Pillow filters, whose cubic has one coefficient.
        if mode != "cubic" or n.number("cubic_coeff_a", -0.75) == -0.5:
            mode = "bicubic_pillow" if mode == "cubic" else "bilinear_pillow"
            outside = filtered = False
    if filtered or (outside and mode == "cubic"):
        return by_reference(n)
    if (
        coordinate_mode == "align_corners"
        and scales is not None
        and not _has_integer_scales(n, x, scales)
    ):
        # OpenVINO rounds sizes before it aligns corners; ONNX does not.
        return by_reference(n)
    axes = n.optional_integers("axes")
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and policy != "stretch":
        sizes = _in_proportion(n, sizes, axes, policy)
    op = Interpolate(
        mode,
        "sizes" if scales is None else "scales",
        coordinate_mode,
        nearest,
        cube_coeff=n.number("cubic_coeff_a", -0.75),
    )
    listed = None if axes is None else n.ints_value(axes)
    return n.add(op, x, sizes if scales is None else scales, listed)


def _in_proportion(n: ImportContext, sizes: Value, axes: list[int] | None, policy: str) -> Value:
    """Sizes that keep the image's proportions: as large as fits, or as covers."""
    if policy not in ("not_larger", "not_smaller"):
        raise n.error("unknown keep_aspect_ratio_policy", got=policy)
    x = n.input(0)
    listed = n.ints_value(range(n.rank(x)) if axes is None else axes)
    have = n.add(Gather(), sizes_of(n, x), listed, n.int_value(0))
    floats = [n.add(Convert(DType.f32), v) for v in (sizes, have)]
    choose = ReduceMin() if policy == "not_larger" else ReduceMax()
    scale = n.add(choose, n.add(Divide(), *floats), n.ints_value([0]))
    half = n.constant(0.5, DType.f32)
    rounded = n.add(Floor(), n.add(Add(), n.add(Multiply(), floats[1], scale), half))
    return n.add(Convert(DType.i64), rounded)


def _has_integer_scales(n: ImportContext, x: Value, scales: Value) -> bool:
    """Whether scales are known to give whole sizes."""
    shape, known = n.shape(x), n.constant_of(scales)
    if shape is None or known is None:
        return False
    numbers = [float(v) for v in known.reshape(-1)]
    return all(s.is_integer() for s in numbers) or all(
        isinstance(d, int) and (d * s).is_integer()
        for d, s in zip(shape, numbers, strict=len(shape) == len(numbers))
    )


def grid_sample(n: ImportContext) -> Imported:
    mode = n.text("mode", "bilinear" if n.version < 20 else "linear")
    names = {"linear": "bilinear", "cubic": "bicubic"}
    padding = n.text("padding_mode", "zeros")
    op = GridSample(n.flag("align_corners"), names.get(mode, mode), padding)
    if n.rank(n.input(0)) != 4:
        return by_reference(n)
    return n.add(op, n.input(0), n.input(1))


def roi_align(n: ImportContext) -> Value:
    """Since version 16 coordinates are shifted by half a pixel by default."""
    standard = "half_pixel" if n.version >= 16 else "output_half_pixel"
    coordinate_mode = n.text("coordinate_transformation_mode", standard)
    modes = {"half_pixel": "half_pixel_for_nn", "output_half_pixel": "asymmetric"}
    if coordinate_mode not in modes:
        raise n.error("unknown coordinate_transformation_mode", got=coordinate_mode)
    op = ROIAlign(
        n.integer("output_height", 1),
        n.integer("output_width", 1),
        n.integer("sampling_ratio", 0),
        n.number("spatial_scale", 1.0),
        n.text("mode", "avg"),
        modes[coordinate_mode],
    )
    return n.add(op, n.input(0), n.input(1), convert_value(n, n.input(2), DType.i64))


def max_roi_pool(n: ImportContext) -> Value:
    sizes = n.integers("pooled_shape")
    if len(sizes) != 2 or min(sizes) < 1:
        raise n.error("pooled_shape is a height and a width", got=sizes, expected="two sizes")
    op = ROIPooling(sizes[0], sizes[1], n.number("spatial_scale", 1.0))
    return n.add(op, n.input(0), n.input(1))


def col2im(n: ImportContext) -> Imported:
    if n.shape(n.input(2)) != (2,):
        return by_reference(n)
    pads = n.integers("pads", [0, 0, 0, 0])
    op = Col2Im(
        tuple(n.integers("strides", [1, 1])),
        tuple(n.integers("dilations", [1, 1])),
        tuple(pads[:2]),
        tuple(pads[2:]),
    )
    return n.add(op, n.input(0), n.input(1), n.input(2))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Upsample": {1: upsample_image, 7: upsample_attribute, 9: upsample},
    "Resize": {10: upsample, 11: resize},
    "GridSample": {16: grid_sample},
    "RoiAlign": {10: roi_align},
    "Col2Im": {18: col2im},
    "MaxRoiPool": {1: max_roi_pool},
}
