"""One node of each operation that only OpenVINO's operation sets have, with inputs that fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset1 as o1
import openvino.opset2 as o2
import openvino.opset3 as o3
import openvino.opset4 as o4
import openvino.opset6 as o6
import openvino.opset8 as o8
import openvino.opset9 as o9
import openvino.opset13 as o13
import openvino.opset14 as o14
import openvino.opset15 as o15
import openvino.opset16 as o16

from .openvino_operations import Build, k

I32 = np.int32
INDICES = np.array([0, 5, 2, 2, 4, 1], I32)
WINDOWS = ([1, 1], [1, 1], [1, 1], [1, 1])


def node_cases(dtype: Any) -> dict[str, tuple[Build, list[Any]]]:
    """Factory and inputs by name; `dtype` is the float type of the inputs."""
    rng = np.random.default_rng(0)

    def f(*shape: int) -> Any:
        return rng.random(shape).astype(dtype)

    def array(values: Any) -> Any:
        return np.array(values, dtype)

    low = rng.random((2, 6, 2))
    boxes = array(np.concatenate([low, low + 0.3], axis=-1))
    rotated = array(np.concatenate([low * 5, low + 1, low[..., :1]], axis=-1))
    table = f(6, 3)
    proposal = {
        **{n: np.uint32(v) for n, v in (("base_size", 16), ("pre_nms_topn", 20))},
        **{n: np.uint32(v) for n, v in (("post_nms_topn", 3), ("feat_stride", 16))},
        **{"min_size": np.uint32(1), "nms_thresh": np.float32(0.7)},
        **{"ratio": array([1.0]).astype(np.float32), "scale": np.array([1, 2, 3], np.float32)},
    }
    anchors = [f(1, 6, 3, 3), f(1, 12, 3, 3), array([48, 48, 1])]
    sizes = [np.array([3, 4], np.int64), np.array([60, 90], np.int64)]
    priors = {"min_size": [16.0], "max_size": [38.0], "aspect_ratio": [2.0], "offset": 0.5}
    fixed = {"fixed_size": [8.0], "density": [2.0], "offset": 0.5}
    clustered = {"width": [4.0], "height": [3.0], "offset": 0.5, "variance": [0.1]}
    output = {"keep_top_k": [4], "nms_threshold": 0.5, "normalized": True}
    detections = [f(1, 48), f(1, 36), f(1, 2, 48)]
    labels = [np.array([5, 5], I32), np.array([[0, 1, 2, 0, 0]] * 2, I32), np.array([3, 3], I32)]
    one_roi = array([[0, 0, 0, 9, 9]])
    return {
        "prior_box": (lambda *x: o8.prior_box(*x, priors), sizes),
        "prior_box_fixed": (lambda *x: o8.prior_box(*x, fixed), sizes),
        "prior_box_clustered": (lambda *x: o1.prior_box_clustered(*x, clustered), sizes),
        "detection_output": (lambda *x: o8.detection_output(*x, output), detections),
        "detection_output_1": (
            lambda *x: o1.detection_output(
                *x, {**output, "num_classes": 3, "background_label_id": 0}
            ),
            detections,
        ),
        "proposal": (lambda *x: o4.proposal(*x, proposal), anchors),
        "generate_proposals": (
            lambda *x: o9.generate_proposals(*x, 1.0, 0.5, 10, 5),
            [array([[40, 48, 1]]), f(3, 3, 2, 4) * 20, f(1, 8, 3, 3), f(1, 2, 3, 3)],
        ),
        "roi_pooling": (
            lambda *x: o2.roi_pooling(*x, output_roi=[2, 2], spatial_scale=0.5),
            [f(1, 3, 6, 6), one_roi],
        ),
        "psroi_pooling": (
            lambda *x: o1.psroi_pooling(*x, 2, 2, 0.5, 1, 1, "average"),
            [f(1, 8, 6, 6), one_roi],
        ),
        "deformable_psroi_pooling": (
            lambda *x: o1.deformable_psroi_pooling(*x, 2, 0.5, 2),
            [f(1, 8, 6, 6), one_roi],
        ),
        "roi_align_rotated": (
            lambda *x: o15.roi_align_rotated(*x, 2, 2, 2, 1.0, True),
            [f(1, 3, 6, 6), array([[3, 3, 2, 2, 0.5]]), np.array([0], I32)],
        ),
        "matrix_nms": (lambda *x: o8.matrix_nms(*x, "score"), [boxes, f(2, 2, 6)]),
        "multiclass_nms": (
            lambda *x: o9.multiclass_nms(*x, None, "score", iou_threshold=0.4),
            [boxes, f(2, 2, 6)],
        ),
        "nms_rotated": (
            lambda *x: o13.nms_rotated(*x),
            [rotated, f(2, 2, 6), k(3), k(0.3, dtype), k(0.1, dtype)],
        ),
        "region_yolo": (
            lambda x: o1.region_yolo(x, 4, 5, 3, True, [0], 1, 3, [1.0]),
            [f(2, 30, 3, 4)],
        ),
        "reorg_yolo": (lambda x: o2.reorg_yolo(x, [2]), [f(1, 8, 4, 4)]),
        "embedding_bag_offsets": (
            lambda *x: o15.embedding_bag_offsets(*x),
            [table, INDICES, np.array([0, 2, 2, 5], I32)],
        ),
        "embedding_bag_packed": (
            lambda *x: o15.embedding_bag_packed(*x, reduction="mean"),
            [table, INDICES.reshape(3, 2)],
        ),
        "embedding_segments_sum": (
            lambda *x: o3.embedding_segments_sum(*x),
            [table, INDICES, np.array([0, 0, 2, 2, 2, 3], I32), k(5, I32)],
        ),
        "segment_max": (
            lambda *x: o16.segment_max(*x, fill_mode="ZERO"),
            [f(5, 2), np.array([0, 0, 1, 3, 3]), k(4)],
        ),
        "extract_image_patches": (
            lambda x: o3.extract_image_patches(x, [3, 3], [2, 2], [1, 1], "SAME_UPPER"),
            [f(2, 3, 9, 9)],
        ),
        "nv12": (lambda *x: o8.nv12_to_rgb(*x), [f(1, 4, 6, 1) * 255, f(1, 2, 3, 2) * 255]),
        "grn": (lambda x: o1.grn(x, 0.1), [f(2, 3, 4, 4)]),
        "deformable_convolution": (
            lambda *x: o8.deformable_convolution(*x, *WINDOWS),
            [f(1, 4, 6, 6), f(1, 18, 6, 6), f(4, 4, 3, 3)],
        ),
        "search_sorted": (lambda *x: o15.search_sorted(*x), [np.sort(f(7)), f(4)]),
        "slice_scatter": (
            lambda *x: o15.slice_scatter(*x),
            [f(3, 4, 5), f(2, 4, 5), k([0]), k([2]), k([1]), k([0])],
        ),
        "gather_tree": (
            lambda *x: o1.gather_tree(*x),
            [f(4, 1, 3), np.zeros((4, 1, 3), dtype), array([4]), k(1, dtype)],
        ),
        "ctc_greedy_decoder": (
            lambda *x: o1.ctc_greedy_decoder(*x),
            [f(5, 2, 4), np.ones((5, 2), dtype)],
        ),
        "ctc_greedy_decoder_seq_len": (
            lambda *x: o6.ctc_greedy_decoder_seq_len(*x),
            [f(2, 5, 4), np.array([5, 4], I32)],
        ),
        "ctc_loss": (lambda *x: o4.ctc_loss(*x), [f(2, 5, 4), *labels]),
        "istft": (
            lambda *x: o16.istft(*x, True, False),
            [f(5, 6, 2), array(np.hanning(8) + 0.1), k(8), k(3)],
        ),
        "inverse": (lambda x: o14.inverse(x), [array(rng.random((3, 3)) + 2 * np.eye(3))]),
        "convert_promote_types": (
            lambda *x: o14.convert_promote_types(*x, True),
            [f(3), INDICES[:3]],
        ),
    }
