"""Resampled axes: every rule against the operations' own meaning, sizes, strides, workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import AdaptiveAvgPool, AdaptiveMaxPool, Interpolate
from irc_compiler.ir.ops.tensor.padding import pad_array
from irc_compiler.plan.specs.base import EMPTY_AXIS, Operand
from irc_compiler.plan.specs.resample import (
    COORDINATE_MODES,
    PADDING,
    ROUNDINGS,
    Columns,
    ResampleSpec,
)
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, Sizes, run, same_bits

F32 = DType.f32


def resampled(
    data: np.ndarray,
    count: int,
    isa: str,
    rule: str,
    *,
    dynamic: bool = False,
    dtype: DType = F32,
    stored: DType | None = None,
    **how: object,
) -> np.ndarray:
    """Axis 1 of [outer, axis, middle, inner] by a kernel; the number of workers must not show."""
    outer, axis, middle, inner = data.shape
    found: list[np.ndarray] = []
    for workers in (1, 3):
        sizes = Sizes(dynamic)
        dims = [sizes(n) for n in (outer, axis, count, middle, inner)]
        step = sizes(middle * inner)
        strides = [(sizes(n * middle * inner), step, sizes(inner), 1) for n in (axis, count)]
        types = (dtype, stored or dtype)
        operands = [Operand(t, s) for t, s in zip(types, strides, strict=True)]
        acc = F32 if dtype.bits == 16 else dtype
        spec = ResampleSpec(rule, *dims, *operands, acc, **how)  # type: ignore[arg-type]
        shape = (outer, count, middle, inner)
        made = run(spec, [data], [shape], isa=isa, dims=sizes.dims, workers=workers)
        assert made.status == 0
        found.append(made.outs[0])
    assert same_bits(*found)
    return found[0]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def wanted(data: np.ndarray, count: int, scale: float | None, **how: object) -> np.ndarray:
    """What Interpolate says of axis 1."""
    given = [count] if scale is None else [scale]
    mode = "sizes" if scale is None else "scales"
    op = Interpolate(shape_calculation_mode=mode, **how)  # type: ignore[arg-type]
    return op.evaluate(data, np.array(given), np.array([1]))[0]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rule", ["linear", "cubic", "mean", "max"])
def test_results_of_f32_are_stored_as_bf16_without_denormals(isa: str, rule: str) -> None:
    data = noise(2, 6, 1, 19)
    data[0], data[1, 2] = data[0] * 1e-39, np.inf
    wide = resampled(data, 4, isa, rule, scale=4 / 6)
    wide[np.abs(wide) < 2.0**-126] *= 0
    found = resampled(data, 4, isa, rule, scale=4 / 6, stored=DType.bf16)
    assert same_bits(found, wide.astype(DType.bf16.numpy))


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_nearest_is_the_same_element(isa: str, dynamic: bool) -> None:
    data = noise(2, 7, 1, 19)
    turned = (*ROUNDINGS[2:], *ROUNDINGS[:2])
    for coordinate_mode, rounding in (
        *zip(COORDINATE_MODES, ROUNDINGS, strict=True),
        *zip(COORDINATE_MODES, turned, strict=True),
    ):
        scale, count = (2.0, 14) if rounding == "simple" or not dynamic else (None, 9)
        how = {"coordinate_mode": coordinate_mode, "rounding": rounding, "scale": scale}
        found = resampled(data, count, isa, "nearest", dynamic=dynamic, **how)
        same = wanted(
            data,
            count,
            scale,
            mode="nearest",
            coordinate_transformation_mode=coordinate_mode,
            nearest_mode=rounding,
        )
        assert same_bits(found, same), how


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rule", ["linear", "cubic"])
def test_weights(isa: str, rule: str) -> None:
    for coordinate_mode, shape, count, scale in zip(
        COORDINATE_MODES,
        ((1, 5, 3, 70), (2, 4, 1, 8), (3, 6, 1, 3), (1, 9, 2, 1), (1, 1, 1, 33)),
        (11, 1, 12, 4, 3),
        (None, None, 2.0, 0.5, None),
        strict=True,
    ):
        data = noise(*shape)
        found = [
            resampled(
                data, count, isa, rule, dynamic=d, coordinate_mode=coordinate_mode, scale=scale
            )
            for d in (False, True)
        ]
        assert same_bits(*found)
        mode = "linear_onnx" if rule == "linear" else rule
        exact = wanted(
            data.astype(np.float64),
            count,
            scale,
            mode=mode,
            coordinate_transformation_mode=coordinate_mode,
        )
        assert np.abs(found[0] - exact).max() <= 4e-6


@pytest.mark.parametrize("isa", ISAS)
def test_weights_of_doubles_in_front_of_the_axis(isa: str) -> None:
    """A coordinate of -1/6 is 5/6 behind -1, which takes more bits than a coordinate has."""
    data = noise(1, 6, 2, 3).astype(np.float64)
    found = resampled(
        data, 9, isa, "cubic", dtype=DType.f64, coordinate_mode="half_pixel", scale=1.5
    )
    exact = wanted(data, 9, 1.5, mode="cubic", coordinate_transformation_mode="half_pixel")
    assert np.abs(found - exact).max() <= 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, DType.f16, DType.i64, DType.u8], ids=str)
def test_paddings(isa: str, dtype: DType) -> None:
    data = (np.arange(2 * 5 * 2 * 21) % 251).astype(dtype.numpy).reshape(2, 5, 2, 21)
    fill = np.array(3, dtype.numpy)
    bits = int.from_bytes(fill.tobytes(), "little")
    for rule in PADDING:
        for begin, end in ((2, 3), (4, 0)):
            count = 5 + begin + end
            how = {"begin": begin, "fill": bits, "dtype": dtype}
            found = resampled(data, count, isa, rule, dynamic=begin == 2, **how)
            same = pad_array(data, [(0, 0), (begin, end), (0, 0), (0, 0)], rule, fill)
            assert same_bits(found, same), (rule, begin, end)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_pieces(isa: str, dynamic: bool) -> None:
    for axis, count, inner in ((7, 3, 19), (8, 4, 64), (5, 5, 1), (3, 7, 130), (1, 2, 2)):
        data = np.random.default_rng(axis).integers(-9, 9, (2, axis, 2, inner)).astype(np.float32)
        turned = np.moveaxis(data, 1, 3)
        sizes = np.array([inner, count]) if turned.ndim == 4 else np.array([count])
        largest = AdaptiveMaxPool().evaluate(turned, sizes)[0]
        mean = AdaptiveAvgPool().evaluate(turned, sizes)[0]
        found = resampled(data, count, isa, "max", dynamic=dynamic)
        assert same_bits(found, np.ascontiguousarray(np.moveaxis(largest, 3, 1)))
        found = resampled(data, count, isa, "mean", dynamic=dynamic)
        assert np.abs(found - np.moveaxis(mean, 3, 1)).max() <= 1e-6


@pytest.mark.parametrize("isa", ISAS)
def test_nan_is_the_largest_and_stays_in_its_piece(isa: str) -> None:
    data = noise(1, 6, 1, 5)
    data[0, 1, 0, 2], data[0, 4, 0, 3] = np.nan, np.inf
    found = resampled(data, 3, isa, "max")
    assert np.isnan(found[0, 0, 0, 2]) and np.isnan(found).sum() == 1
    found = resampled(data, 3, isa, "mean")
    assert np.isnan(found).sum() == 1 and np.isinf(found).sum() == 1


@pytest.mark.parametrize("isa", ISAS)
def test_rows_side_by_side_and_nothing_to_read(isa: str) -> None:
    data = noise(20, 6)  # the axis is the last one; rows are the inner axis
    strides = [(0, 1, 0, 6), (0, 1, 0, 12)]
    operands = [Operand(F32, s) for s in strides]
    spec = ResampleSpec("linear", 1, 6, 12, 1, 20, *operands, F32, "half_pixel", scale=2.0)
    found = run(spec, [data], [(20, 12)], isa=isa).outs[0]
    how = {"mode": "linear_onnx", "coordinate_transformation_mode": "half_pixel"}
    assert np.abs(found - wanted(data, 12, 2.0, **how)).max() <= 1e-6
    for rule in ("edge", "mean", "constant"):
        spec = ResampleSpec(rule, 1, 0, 4, 1, 3, *[Operand(F32, (0, 3, 0, 1))] * 2, F32)
        found = run(spec, [np.zeros((0, 3), np.float32)], [(4, 3)], isa=isa)
        if rule == "constant":
            assert found.status == 0 and np.all(found.outs[0] == 0)
        else:
            assert found.status == EMPTY_AXIS


def image(
    data: np.ndarray,
    counts: tuple[int, int],
    isa: str,
    rule: str,
    scales: tuple[float | None, float | None],
    *,
    dynamic: bool = False,
    dtype: DType = F32,
    **how: object,
) -> np.ndarray:
    """Axes 1 and 2 of [outer, rows, columns, inner] by one kernel."""
    outer, *axes, inner = data.shape
    found: list[np.ndarray] = []
    for workers in (1, 3):
        sizes = Sizes(dynamic)
        shapes = [[sizes(n) for n in lengths] for lengths in (axes, counts)]
        operands = [
            Operand(dtype, (sizes(h * w * inner), sizes(w * inner), sizes(inner), 1))
            for h, w in (axes, counts)
        ]
        columns = Columns(shapes[0][1], shapes[1][1], scales[1])
        spec = ResampleSpec(
            rule,
            sizes(outer),
            shapes[0][0],
            shapes[1][0],
            1,
            sizes(inner),
            *operands,
            F32 if dtype.bits == 16 else dtype,
            scale=scales[0],
            columns=columns,
            **how,  # type: ignore[arg-type]
        )
        verify_specs([spec], host_target())
        shape = (outer, *counts, inner)
        made = run(spec, [data], [shape], isa=isa, dims=sizes.dims, workers=workers)
        assert made.status == 0
        found.append(made.outs[0])
    assert same_bits(*found)
    return found[0]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("rule", "dtype"),
    [
        ("linear", F32),
        ("linear", DType.f64),
        ("linear", DType.f16),
        ("cubic", F32),
        ("nearest", F32),
        ("nearest", DType.u8),
        ("nearest", DType.i64),
    ],
    ids=str,
)
def test_rows_and_columns(isa: str, dynamic: bool, rule: str, dtype: DType) -> None:
    """The same bits as the rows resampled and then the columns, with nothing rounded between."""
    for shape, counts, scales in (
        ((2, 3, 4, 70), (6, 12), (2.0, 3.0)),
        ((1, 7, 5, 19), (3, 5), (0.5, 1.0)),
        ((1, 1, 6, 128), (4, 2), (4.0, 0.4)),
        ((3, 2, 1, 1), (2, 3), (1.0, 3.0)),
    ):
        for mode in ("half_pixel", "asymmetric", "align_corners"):
            data = (noise(*shape) * 50).astype(dtype.numpy)
            how = {"coordinate_mode": mode, "dtype": dtype, "dynamic": dynamic}
            found = image(data, counts, isa, rule, scales, **how)
            if dtype is DType.f16:
                data, how["dtype"] = data.astype(np.float32), F32
            rows = resampled(data, counts[0], isa, rule, scale=scales[0], **how)
            turned = np.ascontiguousarray(rows.reshape(-1, *rows.shape[2:])[:, :, None, :])
            want = resampled(turned, counts[1], isa, rule, scale=scales[1], **how)
            want = want.reshape(found.shape).astype(dtype.numpy)
            assert same_bits(found, want), (shape, mode)


@pytest.mark.parametrize("isa", ISAS)
def test_nearest_of_rows_and_columns_whose_scales_follow_from_sizes(isa: str) -> None:
    data = noise(2, 3, 4, 21)
    found = image(data, (6, 8), isa, "nearest", (None, None), dynamic=True)
    assert same_bits(found, data.repeat(2, 1).repeat(2, 2))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("empty", [0, 1])
def test_empty_rows_and_columns(isa: str, empty: int) -> None:
    for inner in (0, 3):
        sizes = Sizes(True)
        axes = [0 if n == empty else 2 for n in (0, 1)]
        rows, row, columns, count, n = (sizes(k) for k in (axes[0], 2, axes[1], 2, inner))
        operands = [Operand(F32, (0, sizes(2 * inner), n, 1))] * 2
        across = Columns(columns, count, 2.0)
        spec = ResampleSpec("linear", 1, rows, row, 1, n, *operands, F32, scale=2.0, columns=across)
        data = np.zeros((*axes, inner), np.float32)
        found = run(spec, [data], [(2, 2, inner)], isa=isa, dims=sizes.dims)
        assert found.status == (EMPTY_AXIS if inner else 0)


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "mean"},
        {"rule": "edge"},
        {"middle": 2},
        {"scale": None},
        {"columns": Columns(3, 6, None)},
        {"columns": Columns(3, 6, float("inf"))},
        {"columns": Columns(-1, 6, 2.0)},
        {"columns": Columns(3, 1 << 60, 2.0)},
        {"rule": "nearest", "rounding": "simple", "columns": Columns(3, 6, None)},
    ],
    ids=str,
)
def test_refused_columns(change: dict[str, object]) -> None:
    operands = [Operand(F32, (36, 12, 4, 1)), Operand(F32, (144, 24, 4, 1))]
    columns = Columns(3, 6, 2.0)
    spec = ResampleSpec("linear", 1, 3, 6, 1, 4, *operands, F32, scale=2.0, columns=columns)
    target = host_target()
    verify_specs([spec], target)
    with pytest.raises(VerificationError):
        verify_specs([replace(spec, **change)], target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "nothing"},
        {"coordinate_mode": "nowhere"},
        {"rounding": "simple", "rule": "nearest"},
        {"scale": 0.0},
        {"coefficient": float("nan")},
        {"acc": DType.f16},
        {"data": Operand(DType.i32, (1, 1, 1, 1))},
    ],
    ids=str,
)
def test_refused(change: dict[str, object]) -> None:
    operands = [Operand(F32, (24, 4, 4, 1))] * 2
    spec = ResampleSpec("linear", 1, 6, 6, 1, 4, *operands, F32)
    target = host_target()
    verify_specs([spec], target)
    with pytest.raises(VerificationError):
        verify_specs([replace(spec, **change)], target)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [F32, DType.f16, DType.i64, DType.u8], ids=str)
def test_padded_rows(isa: str, dynamic: bool, dtype: DType) -> None:
    """The axis is the last one: rows are copied in vectors, long ones in pieces."""
    fill = np.array(3, dtype.numpy)
    bits = int.from_bytes(fill.tobytes(), "little")
    rng = np.random.default_rng(1)
    for shape, begin, end in (
        ((3, 2, 5, 9), 2, 3),
        ((1, 3, 1, 1), 0, 4),
        ((2, 1, 2, 130), 70, 0),
        ((1, 1, 1, 9000), 4100, 33),
        ((2, 1, 1, 4096), 0, 0),
    ):
        outer, middle, inner, axis = shape
        count = begin + axis + end
        data = rng.integers(0, 99, shape).astype(dtype.numpy)
        for rule in PADDING:
            found: list[np.ndarray] = []
            for workers in (1, 3):
                sizes = Sizes(dynamic)
                dims = [sizes(n) for n in (outer, axis, count, middle, inner)]
                operands = [
                    Operand(dtype, (sizes(middle * inner * n), 1, sizes(inner * n), sizes(n)))
                    for n in (axis, count)
                ]
                spec = ResampleSpec(rule, *dims, *operands, dtype, begin=sizes(begin), fill=bits)
                made = run(
                    spec, [data], [(*shape[:3], count)], isa=isa, dims=sizes.dims, workers=workers
                )
                assert made.status == 0
                found.append(made.outs[0])
            assert same_bits(*found)
            want = pad_array(data, [(0, 0)] * 3 + [(begin, end)], rule, fill)
            assert same_bits(found[0], want), (rule, shape)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rule", PADDING)
def test_rows_without_elements_of_an_empty_axis(isa: str, rule: str) -> None:
    """Nothing is written, and nothing divided by the size of the axis."""
    for in_rows in (False, True):
        sizes = Sizes(True)
        axis, count, inner = (sizes(n) for n in (0, 4, 0))
        steps = (0, 1, 0, 4) if in_rows else (0, inner, 0, 1)
        operands = [Operand(F32, steps)] * 2
        spec = ResampleSpec(rule, 1, axis, count, 1, inner, *operands, F32, begin=2)
        made = run(spec, [np.zeros((0, 0), np.float32)], [(4, 0)], isa=isa, dims=sizes.dims)
        assert made.status == 0
