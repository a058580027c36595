"""Rows of codes: kernels against NumPy bit for bit, through the API, and the stated error."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir import ops as o
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops.quantization.row_codes import dequantize_rows, quantize_rows
from irc_compiler.ir.row_codes import RowCodes
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.row_codes import RowCodesSpec
from irc_compiler.plan.verify.specs import verify_specs
from support.kernels.harness import ISAS, Sizes, run, target_of

LAYOUTS = [RowCodes(*x) for x in ((16, 8), (64, 8), (80, 8), (32, 4), (64, 4), (96, 4), (128, 4))]


def rows_of(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows of several magnitudes and offsets, among them constant, huge, tiny and broken ones."""
    rng = np.random.default_rng(seed)
    lead = (*shape[:-1], 1)
    x = rng.standard_normal(shape) * 10 ** rng.uniform(-2, 2, lead) + rng.standard_normal(lead) * 3
    x = x.astype(np.float32)
    flat = x.reshape(-1, shape[-1])
    if len(flat) > 8:
        flat[0, 3], flat[1, 4], flat[2, 5] = np.nan, np.inf, -np.inf
        flat[3], flat[4] = 7.3, 0
        flat[5] *= 1e7
        flat[6] *= 1e-7
    return x


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_kernels_give_the_bits_of_numpy(isa: str, layout: RowCodes) -> None:
    x = rows_of(3, 5, layout.size)
    codes = quantize_rows(x, layout)
    values = dequantize_rows(codes, layout)
    for dynamic, workers in ((False, 1), (True, 3)):
        for source, want, back in ((x, codes, False), (codes, values, True)):
            size = Sizes(dynamic)
            axes = (size(3), size(5))
            # Heads side by side: the first axis is inside the second.
            strides = {n: (n, size(3 * n), 1) for n in (layout.size, layout.nbytes)}
            spec = RowCodesSpec(
                axes, layout.size, layout.bits,
                Operand(DType.f32, strides[layout.size]),
                Operand(DType.u8, strides[layout.nbytes]),
                back,
            )  # fmt: skip
            verify_specs([spec], target_of(isa))
            given = np.ascontiguousarray(source.transpose(1, 0, 2))
            shape = (5, 3, want.shape[-1])
            found = run(spec, [given], [shape], isa=isa, dims=size.dims, workers=workers)
            np.testing.assert_array_equal(found.outs[0].transpose(1, 0, 2), want)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_error_is_half_a_step_and_the_rounding_of_f16(layout: RowCodes) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((200, layout.size)) * rng.uniform(0.1, 9, (200, 1)) + 2).astype("f4")
    grouped = x.reshape(200, layout.groups, layout.group).astype(np.float64)
    step = np.ptp(grouped, -1, keepdims=True) / ((1 << layout.bits) - 1)
    largest = np.abs(grouped).max(-1, keepdims=True)
    found = dequantize_rows(quantize_rows(x, layout), layout).reshape(grouped.shape)
    # The minimum and the scale are rounded to f16: each moves values by 2^-11 of the largest.
    assert (np.abs(found - grouped) <= step / 2 + 3 * largest * 2.0**-11).all()
    assert np.abs(found - grouped).max() > step.min() / 4


def test_groups_that_are_not_finite_read_as_nan() -> None:
    layout = RowCodes(64, 4)
    x = np.ones((4, 64), np.float32)
    x[0, 3], x[1, 40], x[2, 5], x[3, 6] = np.nan, np.inf, 1e6, -1e6
    found = np.isnan(dequantize_rows(quantize_rows(x, layout), layout))
    assert found[[0, 2, 3], :32].all() and not found[[0, 2, 3], 32:].any()
    assert found[1, 32:].all() and not found[1, :32].any()


@pytest.mark.parametrize("bits", [8, 4])
def test_models_run_them_natively(bits: int) -> None:
    """Also where rows are not contiguous before and behind."""
    x = ops.parameter("x", ["B", "S", 3, 32])
    codes = ops.apply(o.QuantizeRows(bits), ops.transpose(x, [0, 2, 1, 3]))
    values = ops.apply(o.DequantizeRows(bits), codes)
    turned = ops.apply(
        o.QuantizeRows(bits), ops.transpose(ops.transpose(x, [0, 1, 3, 2]), [1, 0, 3, 2])
    )
    model = ops.model({"codes": codes, "values": values, "turned": turned})
    net = irc.compile_model(model, num_threads=2)
    assert "0 in Python" in net.report(), net.report()
    data, layout = rows_of(2, 5, 3, 32), RowCodes(32, bits)
    found = net(x=data)
    wanted = quantize_rows(data.transpose(0, 2, 1, 3), layout)
    np.testing.assert_array_equal(found["codes"], wanted)
    np.testing.assert_array_equal(found["values"], dequantize_rows(wanted, layout))
    np.testing.assert_array_equal(
        found["turned"], quantize_rows(data.transpose(1, 0, 2, 3), layout)
    )


@pytest.mark.parametrize(("size", "bits"), [(40, 4), (24, 8), (32, 5), (0, 8)])
def test_rows_without_codes_are_refused(size: int, bits: int) -> None:
    assert not RowCodes(size, bits).is_valid
    with pytest.raises(irc.Error, match="rows of this size have no codes"):
        ops.apply(o.QuantizeRows(bits), ops.parameter("x", ["N", size]))
    spec = RowCodesSpec((3,), size, bits, Operand(DType.f32, (32, 1)), Operand(DType.u8, (40, 1)))
    with pytest.raises(VerificationError):
        verify_specs([spec], target_of(ISAS[0]))


def test_bytes_that_are_no_rows_are_refused() -> None:
    for nbytes, bits in ((41, 4), (24, 8), (4, 8)):
        with pytest.raises(irc.Error, match="not codes of"):
            ops.apply(o.DequantizeRows(bits), ops.parameter("x", ["N", nbytes], "u8"))
    with pytest.raises(irc.Error, match="f32"):
        ops.apply(o.QuantizeRows(8), ops.parameter("x", ["N", 32], "f16"))
