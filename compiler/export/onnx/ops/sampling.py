"""Images resized, sampled and pooled by regions; boxes chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.dtype import DType
from .....ir.ops import (
    Col2Im,
    GridSample,
    Interpolate,
    Interpolate4,
    NonMaxSuppression,
    ROIAlign,
    ROIPooling,
)
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction
from .elementary import narrow_output

# OpenVINO's modes to ONNX's, and whether ONNX filters as Pillow does.
_MODES = {
    "nearest": ("nearest", False),
    "linear": ("linear", False),
    "linear_onnx": ("linear", False),
    "cubic": ("cubic", False),
    "bilinear_pillow": ("linear", True),
    "bicubic_pillow": ("cubic", True),
}
_ROI_MODES = {"asymmetric": "output_half_pixel", "half_pixel_for_nn": "half_pixel"}


def _resize(n: ExportContext) -> Exported:
    op = n.op
    if not isinstance(op, Interpolate | Interpolate4):
        return None
    mode, filtered = _MODES.get(op.mode.lower(), ("", False))
    by_scales = op.shape_calculation_mode.lower() == "scales"
    port = 2 if isinstance(op, Interpolate4) and by_scales else 1
    axes_port = 3 if isinstance(op, Interpolate4) else 2
    coordinate_mode = op.coordinate_transformation_mode.lower()
    if not mode or coordinate_mode == "tf_half_pixel_for_nn" or (op.antialias and mode == "linear"):
        return _resize_by_matrices(n, op, axes_port)
    if filtered and not n.has_attribute("Resize", "antialias"):
        return _resize_by_matrices(n, op, axes_port)
    nearest = _nearest_mode(n, op, port, by_scales)
    if nearest is None:
        return _resize_by_matrices(n, op, axes_port)
    x = n.input(0)
    wide = n.dtype(0)
    if not n.takes("Resize", wide):
        raise n.error(f"{wide} data")
    if any((*op.pads_begin, *op.pads_end)):
        rank = n.rank(0)
        pads = [[*p, *[0] * (rank - len(p))][:rank] for p in (op.pads_begin, op.pads_end)]
        x = n.add("Pad", x, n.ints([*pads[0], *pads[1]]))
    numbers = n.input_as(port, DType.f32 if by_scales else DType.i64)
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinate_mode}
    if mode == "nearest":
        attributes["nearest_mode"] = nearest
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.5 if filtered else op.cube_coeff
    if filtered:
        attributes |= {"antialias": 1, "exclude_outside": 1}
    if n.optional(axes_port) is not None:
        axes = [normalize_axis(a, n.rank(0)) for a in n.ints_of(axes_port, "axes")]
        if axes != list(range(n.rank(0))):
            if n.has_attribute("Resize", "axes"):
                attributes["axes"] = axes
            else:
                numbers = _for_all_axes(n, x, numbers, axes, by_scales=by_scales)
    return n.add(
        "Resize",
        x,
        None,
        numbers if by_scales else None,
        None if by_scales else numbers,
        **attributes,
    )


def _nearest_mode(n: ExportContext, op: Any, port: int, by_scales: bool) -> str | None:
    """ONNX's rule; `simple` rounds up where the image shrinks, else down."""
    if op.nearest_mode.lower() != "simple" or op.mode.lower() != "nearest":
        return op.nearest_mode.lower()
    numbers = n.known(port)
    if not by_scales or numbers is None:
        return None
    scales = [float(v) for v in numbers.reshape(-1)]
    if all(s >= 1 for s in scales):
        return "floor"
    return "ceil" if all(s < 1 or s == 1 for s in scales) else None


def _for_all_axes(
    n: ExportContext, x: str, numbers: str, axes: list[int], *, by_scales: bool
) -> str:
    """Scales or sizes of every axis, from those of some."""
    rank = n.rank(0)
    every = n.constant(np.ones(rank), DType.f32) if by_scales else n.add("Shape", x)
    return n.add("ScatterElements", every, n.ints(axes), numbers, axis=0)


def _resize_by_matrices(n: ExportContext, op: Any, axes_port: int) -> str:
    """A product with a constant matrix per axis, for sizes that are known."""
    shape, out = n.fixed_shape(0), n.out_type().shape
    if shape is None or out is None or any((*op.pads_begin, *op.pads_end)):
        raise n.error(f"the mode {op.mode} {op.coordinate_transformation_mode} of unknown sizes")
    rank, dtype = len(shape), n.dtype(0)
    wide = dtype if dtype in (DType.f32, DType.f64) else DType.f32
    scales = _axis_scales(n, op, axes_port)
    value = n.input_as(0, wide)
    for axis, (size, target) in enumerate(zip(shape, out, strict=True)):
        scale = scales.get(axis)
        if not isinstance(target, int):
            raise n.error("an unknown size")
        if size == target and scale in (None, 1.0):
            continue
        matrix = op.weights_of(size, target, scale or float(np.float32(target) / np.float32(size)))
        order = [*(a for a in range(rank) if a != axis), axis]
        moved = n.add("MatMul", n.transpose(value, order), n.constant(matrix.T, wide))
        value = n.transpose(moved, [order.index(a) for a in range(rank)])
    if dtype.is_int:
        value = n.add("Round", value)
    return narrow_output(n, value, wide)


def _axis_scales(n: ExportContext, op: Any, axes_port: int) -> dict[int, float]:
    if op.shape_calculation_mode.lower() != "scales":
        return {}
    known = n.known(2 if isinstance(op, Interpolate4) else 1)
    if known is None:
        raise n.error("scales that are not constants")
    listed = n.known_ints(axes_port) if n.optional(axes_port) is not None else None
    axes = range(n.rank(0)) if listed is None else listed
    numbers = [float(np.float32(v)) for v in known.reshape(-1)]
    return {normalize_axis(a, n.rank(0)): s for a, s in zip(axes, numbers, strict=True)}


def _grid_sample(n: ExportContext) -> Exported:
    op = n.cast_op(GridSample)
    mode = op.mode.lower()
    if n.opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if not n.takes("GridSample", n.dtype(0)):
        return None
    attributes = {"mode": mode, "padding_mode": op.padding_mode.lower()}
    grid = n.input_as(1, n.dtype(0)) if n.dtype(0).is_float else n.input(1)
    return n.add("GridSample", n.input(0), grid, align_corners=int(op.align_corners), **attributes)


def _roi_align(n: ExportContext) -> Exported:
    op = n.op
    if not isinstance(op, ROIAlign):
        return None
    coordinate_mode = _ROI_MODES.get(op.aligned_mode.lower())
    if coordinate_mode is None:
        raise n.error(f"the aligned_mode {op.aligned_mode}")
    known = n.has_attribute("RoiAlign", "coordinate_transformation_mode")
    if not known and coordinate_mode != "output_half_pixel":
        raise n.error(f"the aligned_mode {op.aligned_mode}, in this operator set")
    return n.add(
        "RoiAlign",
        n.input(0),
        n.input(1),
        n.input_as(2, DType.i64),
        output_height=op.pooled_h,
        output_width=op.pooled_w,
        sampling_ratio=op.sampling_ratio,
        spatial_scale=float(op.spatial_scale),
        mode=op.mode.lower(),
        coordinate_transformation_mode=coordinate_mode if known else None,
    )


def _roi_pooling(n: ExportContext) -> Exported:
    op = n.cast_op(ROIPooling)
    if op.method.lower() != "max":
        raise n.error(f"the method {op.method}")
    sizes = [op.pooled_h, op.pooled_w]
    scale = float(op.spatial_scale)
    return n.add("MaxRoiPool", n.input(0), n.input(1), pooled_shape=sizes, spatial_scale=scale)


def _col2im(n: ExportContext) -> Exported:
    op = n.cast_op(Col2Im)
    attributes: dict[str, Any] = {
        "strides": list(op.strides),
        "dilations": list(op.dilations),
        "pads": [*op.pads_begin, *op.pads_end],
    }
    return n.add("Col2Im", n.input(0), n.vector(1), n.vector(2), **attributes)


def _non_max_suppression(n: ExportContext) -> Exported:
    """ONNX returns indices class by class; scores are gathered by them."""
    op = n.op
    assert isinstance(op, NonMaxSuppression)
    if op.version == 4:
        raise n.error("rows of -1 up to a fixed number (operation set 4)")
    sigma = n.known(5) if n.optional(5) is not None else None
    if n.optional(5) is not None and (sigma is None or float(sigma.reshape(-1)[0]) > 0):
        raise n.error("a soft_nms_sigma")
    limit = n.flatten_scalar(2, DType.i64) if n.optional(2) is not None else n.int_scalar(0)
    least = [n.flatten_scalar(p, DType.f32) if n.optional(p) is not None else None for p in (3, 4)]
    boxes, scores = (n.input_as(port, DType.f32) for port in (0, 1))
    center = int(op.box_encoding.lower() == "center")
    found = n.add("NonMaxSuppression", boxes, scores, limit, *least, center_point_box=center)
    values = n.add("GatherND", n.input(1), found)
    if op.sort_result_descending:
        count = n.size(found, 0)
        values, order = n.add_all("TopK", [values, count], 2, axis=0, largest=1, sorted=1)
        found = n.add("Gather", found, order, axis=0)
    to = op.output_type
    made = [found if to is DType.i64 else n.cast(found, to)]
    if op.output_count() == 1:
        return made
    pair = n.cast(n.slice(found, 0, 2, 1), n.dtype(1))
    made.append(n.add("Concat", pair, n.add("Unsqueeze", values, n.ints([1])), axis=1))
    count = n.size(found, 0)
    return [*made, count if to is DType.i64 else n.cast(count, to)]


EXPORTERS: dict[str, ExportFunction] = {
    "Interpolate": _resize,
    "GridSample": _grid_sample,
    "ROIAlign": _roi_align,
    "ROIPooling": _roi_pooling,
    "Col2Im": _col2im,
    "NonMaxSuppression": _non_max_suppression,
}
