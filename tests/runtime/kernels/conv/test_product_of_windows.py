"""Convolutions of f32 as products of matrices on tiles of AMX: the bits of NumPy for integers, the
accuracy of f32 for other numbers, and which convolutions do so.

Where the machine has no tiles, their instructions are caught and emulated (amx_trap.py).
"""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.compiler.report import describe_bf16x3
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedConv
from irc_compiler.plan.packing.panel_params import multiplies_bf16
from irc_compiler.plan.plan import Plan
from irc_compiler.plan.specs.base import RuntimeDim
from irc_compiler.plan.specs.convolution import ConvSpec, express_as_product
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.code_image import FLAT
from irc_compiler.runtime.jit.equal_functions import FunctionPool
from irc_compiler.runtime.jit.llvm import emit_objects
from irc_compiler.runtime.kernels.kernel_table import generate
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import compile_spec, each_tiled_isa, run, same_bits, target_of

from tests.runtime.kernels.conv.test_direct import Case, make

CASES = {
    "padded": Case((9, 13), (3, 3), 32, 33, pads=(1, 1), epilogue="bias"),
    "strided": Case((17, 30), (3, 3), 32, 40, strides=(2, 2), pads=(1, 1), epilogue="residual"),
    "batch": Case((7, 7), (3, 3), 64, 65, pads=(1, 1), epilogue="residual", batch=3),
    "dilated": Case((13, 11), (3, 3), 32, 17, dilations=(2, 3), pads=(2, 3)),
    "uneven": Case((8, 11), (2, 4), 32, 37, strides=(3, 2), pads=(0, 2), pads_end=(1, 0)),
    "line": Case((50,), (5,), 32, 36, pads=(2,), batch=3, epilogue="residual"),
    "volume": Case((5, 6, 7), (3, 2, 3), 32, 39, strides=(1, 2, 1), pads=(1, 0, 1)),
    "far": Case((4, 4), (3, 3), 32, 33, pads=(4, 4)),
    "planes": Case((9, 6), (3, 3), 32, 33, pads=(1, 1), out_last=False, batch=2, epilogue="bias"),
    "blocks of K": Case((6, 5), (3, 3), 224, 34, pads=(1, 1), epilogue="residual"),
    "taps in blocks": Case((3, 5), (1, 3), 1280, 33, pads=(0, 1), epilogue="swish"),
}
each = pytest.mark.parametrize("name", CASES)


def make_product(case: Case, isa: str, floats: bool = False):
    """What `make` gives, as a product on tiles."""
    spec, *others = make(case, isa, floats)
    return (replace(spec, packed=PackedConv(spec.packed.nr), bf16x3=True), *others)


def compute(case: Case, isa: str, workers: int = 1) -> tuple[np.ndarray, np.ndarray]:
    spec, inputs, dims, shape, expected = make_product(case, isa)
    verify_specs([spec], target_of(isa))
    result = run(spec, inputs, [shape], isa=isa, dims=dims, workers=workers)
    assert result.status == 0
    return (np.moveaxis(result.outs[0], -1, 1) if case.out_last else result.outs[0]), expected


@each_tiled_isa
@each
def test_integers_are_exact(name: str, isa: str) -> None:
    for workers in (1, 2, 3):
        found, expected = compute(CASES[name], isa, workers)
        if CASES[name].epilogue == "swish":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, expected)


@each_tiled_isa
def test_a_batch_known_at_run_time(isa: str) -> None:
    """An image has the same bits alone, in a batch, and in one that is known."""
    case = Case((6, 7), (3, 3), 64, 40, strides=(2, 1), pads=(1, 1), epilogue="bias", batch=3)
    spec, inputs, _, shape, _ = make_product(case, isa, floats=True)
    dynamic = replace(spec, batch=RuntimeDim(0))
    assert express_as_product(dynamic).batch and not express_as_product(spec).batch  # type: ignore[union-attr]
    whole = run(spec, inputs, [shape], isa=isa).outs[0]
    for first, end in ((0, 3), (1, 2), (0, 1), (2, 2)):
        some, count = [inputs[0][first:end], *inputs[1:]], end - first
        found = run(dynamic, some, [(count, *shape[1:])], isa=isa, dims=[count], workers=2)
        assert same_bits(found.outs[0], whole[first:end])


@each_tiled_isa
def test_errors_are_those_of_f32(isa: str) -> None:
    """docs/numerics.md: at most 5 * 2^-24 * sum |a||b|."""
    case = Case((8, 9), (3, 3), 96, 40, pads=(1, 1))
    spec, inputs, _, shape, exact = make_product(case, isa, floats=True)
    found = np.moveaxis(run(spec, inputs, [shape], isa=isa).outs[0], -1, 1)
    sizes = [np.abs(x) for x in inputs]
    bound = np.moveaxis(run(spec, sizes, [shape], isa=isa).outs[0], -1, 1)
    # `exact` is a sum in f32 itself, of NumPy's.
    assert (np.abs(found - exact) <= 2 * 5 * 2.0**-24 * bound).all()
    plain = replace(spec, bf16x3=False)
    direct = np.moveaxis(run(plain, inputs, [shape], isa=isa).outs[0], -1, 1)
    assert not same_bits(found, direct)
    assert (np.abs(found - direct) <= 2 * 5 * 2.0**-24 * bound).all()


@each_tiled_isa
def test_special_values_reach_the_windows_that_have_them(isa: str) -> None:
    """Infinities and NaN among the data: windows beside them stay finite, and those with them are
    what a direct convolution makes of them."""
    case = Case((9, 10), (3, 3), 32, 36, pads=(1, 1))
    spec, inputs, _, shape, _ = make_product(case, isa)
    data = inputs[0]
    data[0, 2, 3, 4], data[0, 6, 8, 5], data[0, 5, 1, 31] = np.inf, np.nan, -np.inf
    found = run(spec, inputs, [shape], isa=isa).outs[0]
    direct = run(replace(spec, bf16x3=False), inputs, [shape], isa=isa).outs[0]
    np.testing.assert_array_equal(found, direct)
    assert np.isfinite(found).sum() > found.size / 2 and np.isinf(found).any()


@each_tiled_isa
def test_kernels_multiply_bf16_on_tiles(isa: str) -> None:
    spec = make_product(CASES["padded"], isa)[0]
    text = compile_spec(spec, isa).text
    assert "tdpbf16ps" in text and "split_windows" in text
    assert spec.compute_unit() == "bf16x6"


@each_tiled_isa
def test_code_is_copied_and_not_linked(isa: str) -> None:
    """Functions in assembly are in the image; those that kernels share are compiled once."""
    specs = [make_product(CASES[name], isa)[0] for name in ("padded", "strided", "batch")]
    texts = [generate(spec, target_of(isa), "k").text for spec in specs]
    assert [image.kind for image in emit_objects(texts, target_of(isa))] == [FLAT] * 3
    pool = FunctionPool()
    reduced = [pool.reduce(n, text) for n, text in enumerate(texts)]
    assert any(name.startswith("f32_amx") for name in reduced[2].sources)


@each_tiled_isa
def test_specs_that_no_kernel_computes_are_refused(isa: str) -> None:
    good, target = make_product(CASES["padded"], isa)[0], target_of(isa)
    verify_specs([good], target)
    dim = RuntimeDim(0)
    others = (
        make_product(replace(CASES["padded"], channels=33), isa)[0],
        make_product(replace(CASES["padded"], data_last=False), isa)[0],
        make_product(Case((2, 3), (33, 32), 32, 33, pads=(32, 31)), isa)[0],
        replace(good, packed=replace(good.packed, grouped=True)),
        replace(good, out_sizes=(dim, *good.out_sizes[1:])),
        replace(good, in_sizes=(dim, *good.in_sizes[1:])),
        replace(good, out=replace(good.out, strides=(0, 1, 1000, 33))),
    )
    for spec in others:
        with pytest.raises(VerificationError, match="cannot be a product of windows"):
            verify_specs([spec], target)
    with pytest.raises(VerificationError, match="AMX"):
        verify_specs([good], generic_target("avx512"))


# -- which convolutions do so -------------------------------------------------------------------


def compile_conv(
    channels: int, outputs: int, size: int | str = 12, batch: int | str = 1, **attributes: object
) -> tuple[irc.CompiledModel, np.ndarray]:
    """A model of one convolution with two strides, and its filters."""
    options = {k: attributes.pop(k) for k in ("denormals", "precision") if k in attributes}
    filters = np.random.default_rng(4).standard_normal((outputs, channels, 3, 3))
    w = onnx.numpy_helper.from_array(filters.astype(np.float32), "w")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (batch, channels, size, size)), ("y", None))
    )
    how = {"strides": [2, 2], "pads": [1] * 4, **attributes}
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **how)
    graph = onnx.helper.make_graph([conv], "g", [x], [y], [w])
    return irc.compile_model(onnx.helper.make_model(graph), **options), filters  # type: ignore


def is_product(plan: Plan) -> bool:
    return any(isinstance(s.spec, ConvSpec) and s.spec.bf16x3 for s in plan.kernel_steps())


def test_sizes_decide() -> None:
    tiled = multiplies_bf16(host_target())
    net, _ = compile_conv(64, 96, 20)
    line = "AMX: f32 factors as sums of three bf16 numbers in 1 of 1 convolutions"
    assert is_product(net.plan) == tiled == (f"tiles      {line}" in net.report())
    assert (describe_bf16x3(net.plan) == line) == tiled
    assert is_product(compile_conv(64, 96, 20, "images")[0].plan) == tiled
    others = (
        *(compile_conv(64, 95, 20), compile_conv(48, 96, 20), compile_conv(64, 96, 18)),
        *(compile_conv(64, 96, "side"), compile_conv(64, 96, 20, denormals="keep")),
        compile_conv(64, 96, 20, precision="bf16"),
        # Winograd's transform of larger tiles takes less time.
        compile_conv(64, 96, 56, strides=[1, 1]),
    )
    assert is_product(compile_conv(64, 96, 20, strides=[1, 1])[0].plan) == tiled
    for other, _ in others:
        assert not is_product(other.plan) and describe_bf16x3(other.plan) == ""


def test_a_model_has_the_accuracy_of_f32() -> None:
    net, filters = compile_conv(64, 96, 20, "images")
    x = np.random.default_rng(5).standard_normal((3, 64, 20, 20)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    exact = np.einsum("bchwij,ocij->bohw", windows, filters.astype(np.float32).astype(np.float64))
    sizes = np.einsum("bchwij,ocij->bohw", np.abs(windows), np.abs(filters))
    assert (np.abs(net([x])[0] - exact) <= 5 * 2.0**-24 * sizes).all()
    assert same_bits(net([x[1:2]])[0], net([x])[0][1:2])


def test_a_constant_denormal_that_is_added_keeps_convolutions_on_vectors() -> None:
    filters = np.random.default_rng(6).standard_normal((96, 64, 3, 3)).astype(np.float32)
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 64, 20, 20)), ("y", None))
    )
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["t"], strides=[2, 2], pads=[1] * 4),
        onnx.helper.make_node("Add", ["t", "c"], ["y"]),
    ]
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in (("w", filters), ("c", np.array([1e-40], np.float32)))
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], constants)
    net = irc.compile_model(onnx.helper.make_model(graph))
    assert not is_product(net.plan) and not net.plan.denormals.flush
