"""Weights that stay integers from the graph to the kernel: the same bits as expanded ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler import ops
from irc_compiler.compiler.report import describe_int8_tiles
from irc_compiler.ir.deferred_array import DeferredArray
from irc_compiler.ir.dims import symbol
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.ops import (
    AffineDequantize,
    Constant,
    Convert,
    Dequantize,
    Gemm,
    MatMul,
    Parameter,
    Result,
)
from irc_compiler.llm.architectures.matrix import GroupedMatrix
from irc_compiler.plan.packing.panel_params import has_tiles
from irc_compiler.plan.specs.gather_scatter import GatherSpec
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.runtime.machine.detect import host_target
from openvino import opset13 as op

Compile = Callable[..., irc.CompiledModel]
F32 = DType.f32


class Build:
    """A graph of one input x, and products with compressed weights."""

    def __init__(self, *shape: int | str) -> None:
        self.graph = Graph("test")
        sizes = tuple(symbol(s) if isinstance(s, str) else s for s in shape)
        self.x = Value(self.graph.add(Parameter(F32, sizes), name="x"))

    def constant(self, array: np.ndarray) -> Value:
        op = Constant.of(np.ascontiguousarray(array), DType.from_numpy(array.dtype))
        return Value(self.graph.add(op))

    def add(self, op: object, *inputs: Value | None) -> Value:
        return Value(self.graph.add(op, inputs))  # type: ignore[arg-type]

    def result(self, value: Value, name: str = "y") -> None:
        self.graph.add(Result(), [value], name=name)

    def done(self) -> Graph:
        infer_graph(self.graph)
        return self.graph


def weights(
    shape: tuple[int, ...], dtype: DType, spread: tuple[int, ...], scale: object = np.float32
):
    """(codes, scale, zero) of random integers."""
    rng = np.random.default_rng(3)
    codes = rng.integers(int(dtype.min), int(dtype.max) + 1, shape).astype(dtype.numpy)
    zero = rng.integers(int(dtype.min), int(dtype.max) + 1, spread).astype(dtype.numpy)
    return codes, rng.uniform(0.01, 0.1, spread).astype(scale), zero  # type: ignore[call-overload]


def specs(net: irc.CompiledModel) -> list[GemmSpec]:
    return [s for s in net.plan.specs() if isinstance(s, GemmSpec)]


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


# name: (codes' shape, type, spread of the scales, axis, group, transposed)
CASES = {
    "columns": ((130, 200), DType.u8, (1, 200), 0, 0, False),
    "columns_transposed": ((200, 130), DType.i8, (200, 1), 0, 0, True),
    "groups": ((160, 128), DType.u4, (5, 128), 0, 32, False),
    "groups_transposed": ((128, 150), DType.i4, (128, 5), 1, 32, True),
    "one_scale": ((1, 256, 128), DType.u4, (), 0, 0, False),
    "wide_group": ((160, 128), DType.i8, (2, 1), 0, 128, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_product_reads_compressed_weights(
    name: str, optimised: bool, compile_graph: Compile
) -> None:
    shape, dtype, spread, axis, group, transposed = CASES[name]
    codes, scale, zero = weights(shape, dtype, spread)
    build = Build("N", shape[-1] if transposed else shape[-2])
    op = Dequantize(axis, group)
    given = [build.constant(a) for a in (codes, scale, zero)]
    product = build.add(MatMul(False, transposed), build.x, build.add(op, *given))
    build.result(product)
    graph = build.done()
    net = compile_graph(graph, optimised, 1)
    kept = compile_graph(graph, optimised, 1, denormals="keep")
    for each in (net, kept):
        assert [s.b.dtype for s in specs(each)] == [dtype]
        assert not each.plan.host_steps()
    (expanded,) = op.evaluate(codes, scale, zero)
    plain = Build("N", shape[-1] if transposed else shape[-2])
    plain.result(plain.add(MatMul(False, transposed), plain.x, plain.constant(expanded)))
    expected = compile_graph(plain.done(), True, 1)
    k = shape[-1] if transposed else shape[-2]
    right = expanded.reshape(expanded.shape[-2:]).astype(np.float64)
    right = right.T if transposed else right
    for m in (1, 3, 20):
        x = rows(m, k)
        wanted = expected(x)[0]
        assert np.array_equal(kept(x)[0], wanted)
        # Tiles of AMX add in another order (docs/numerics.md, bf16x3).
        if all(s.compressed is not None and s.compressed.bf16x3 for s in specs(net)):
            bound = 5 * 2.0**-24 * (np.abs(x).astype(np.float64) @ np.abs(right))
            assert (np.abs(net(x)[0] - x.astype(np.float64) @ right) <= bound).all()
        else:
            assert np.array_equal(net(x)[0], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("dtype", [DType.u4, DType.u8, DType.i8])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_reads_weights_with_offsets(
    dtype: DType, transposed: bool, optimised: bool, compile_graph: Compile
) -> None:
    """code * scale + offset in groups, in a vector's product and in one of many rows."""
    shape, spread = ((128, 160), (128, 5)) if transposed else ((160, 128), (5, 128))
    codes, scale, _ = weights(shape, dtype, spread)
    offset = np.random.default_rng(4).standard_normal(spread).astype(np.float32)
    op = AffineDequantize(int(transposed), 32)
    build = Build("N", 160)
    wide = build.add(op, *(build.constant(a) for a in (codes, scale, offset)))
    build.result(build.add(MatMul(False, transposed), build.x, wide))
    net = compile_graph(build.done(), optimised, 1)
    (spec,) = specs(net)
    assert spec.b.dtype is dtype and spec.compressed is not None
    assert spec.compressed.offset is not None and not net.plan.host_steps()
    (expanded,) = op.evaluate(codes, scale, offset)
    exact = expanded.astype(np.float64).T if transposed else expanded.astype(np.float64)
    for m in (1, 3, 20):
        x = rows(m, 160)
        wanted, bound = x @ exact, np.abs(x) @ np.abs(exact)
        assert (np.abs(net(x)[0] - wanted) < 1e-6 * bound).all()


@pytest.mark.parametrize("affine", [False, True])
def test_f32_scales_that_f16_holds_are_stored_in_it(affine: bool, compile_graph: Compile) -> None:
    """The weights are not rounded to f16."""
    codes, scale, zero = weights((160, 128), DType.u4, (5, 128), np.float16)
    offset = np.random.default_rng(4).standard_normal((5, 128)).astype(np.float16)
    last = offset.astype(np.float32) if affine else zero
    op = AffineDequantize(0, 32) if affine else Dequantize(0, 32)
    build = Build("N", 160)
    wide = build.add(op, *(build.constant(a) for a in (codes, scale.astype(np.float32), last)))
    build.result(build.add(MatMul(), build.x, wide))
    net = compile_graph(build.done(), True, 1)
    (spec,) = specs(net)
    assert spec.compressed is not None
    narrow = host_target().has("f16c")
    assert spec.compressed.scale.dtype is (DType.f16 if narrow else F32)
    (expanded,) = op.evaluate(codes, scale.astype(np.float32), last)
    exact = expanded.astype(np.float64)
    for m in (1, 20):
        x = rows(m, 160)
        assert (np.abs(net(x)[0] - x @ exact) < 1e-6 * (np.abs(x) @ np.abs(exact))).all()


def test_half_scales_round_the_weights_first(compile_graph: Compile) -> None:
    codes, scale, zero = weights((160, 256), DType.u8, (1, 256), np.float16)
    build = Build(2, 160)
    wide = build.add(Dequantize(), *(build.constant(a) for a in (codes, scale, zero)))
    build.result(build.add(MatMul(), build.x, build.add(Convert(F32), wide)))
    net = compile_graph(build.done(), True, 1)
    (spec,) = specs(net)
    assert spec.compressed is not None and spec.compressed.scale.dtype is DType.f16
    (expanded,) = Dequantize().evaluate(codes, scale, zero)
    x = rows(2, 160)
    plain = Build(2, 160)
    plain.result(plain.add(MatMul(), plain.x, plain.constant(expanded.astype(np.float32))))
    assert np.array_equal(net(x)[0], compile_graph(plain.done(), True, 1)(x)[0])


def test_gemm_and_a_batch_of_rows_and_bf16(compile_graph: Compile) -> None:
    codes, scale, _ = weights((160, 256), DType.i4, (5, 256))
    build = Build("B", 4, 160)
    wide = build.add(Dequantize(0, 32), build.constant(codes), build.constant(scale))
    build.result(build.add(MatMul(), build.x, wide))
    (expanded,) = Dequantize(0, 32).evaluate(codes, scale)
    x = rows(3, 4, 160)
    for precision, tolerance in (("f32", 1e-5), ("bf16", 1e-2)):
        net = compile_graph(build.done().copy(), True, 1, precision)
        (spec,) = specs(net)
        assert spec.compressed is not None and spec.compressed.zero_point == 0
        exact = x.astype(np.float64) @ expanded.astype(np.float64)
        assert np.abs(net(x)[0] - exact).max() < tolerance * np.abs(exact).max()
    build = Build(3, 160)
    wide = build.add(Dequantize(0, 32), build.constant(codes), build.constant(scale))
    bias = build.constant(rows(256))
    build.result(build.add(Gemm(alpha=0.5, beta=2.0), build.x, wide, bias))
    net = compile_graph(build.done(), True, 1)
    assert specs(net)[0].compressed is not None
    exact = 0.5 * (x[0, :3].astype(np.float64) @ expanded) + 2 * rows(256)
    np.testing.assert_allclose(net(x[0, :3])[0], exact, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("wide", ["f16", "f32"])
@pytest.mark.parametrize("kind", ["u4", "i4", "u8", "i8"])
def test_chains_of_openvino_reach_the_kernel(kind: str, wide: str, tmp_path: Path) -> None:
    """Const -> Convert -> Subtract zero point -> Multiply scale -> Reshape -> Convert f32."""
    rng, n, groups, size = np.random.default_rng(5), 480, 5, 32
    codes = rng.integers(0, 256, (n, groups, size)).astype(np.uint8)
    stored = getattr(ov.Type, kind)
    if kind.endswith("4"):
        halves = codes.reshape(-1)[: codes.size // 2]
        tensor = ov.Tensor(halves, ov.Shape([n, groups, size]), stored)
        codes = np.stack([halves & 15, halves >> 4], -1).reshape(n, groups, size)
    else:
        tensor = ov.Tensor(codes.view(np.uint8 if kind == "u8" else np.int8).copy())
    bits = int(kind[1:])
    whole = codes.astype(np.int32)
    whole = np.where(whole >> bits - 1, whole - (1 << bits), whole) if kind[0] == "i" else whole
    value, middle = op.convert(op.constant(tensor), wide), 0
    if kind[0] == "u":
        middle = 1 << bits - 1
        zero = op.constant(ov.Tensor(np.full((n, groups, 1), middle, np.uint8)))
        value = op.subtract(value, op.convert(zero, wide))
    scale = rng.uniform(0.01, 0.1, (n, groups, 1)).astype({"f16": "f2", "f32": "f4"}[wide])
    value = op.multiply(value, op.constant(scale))
    value = op.reshape(value, op.constant(np.array([n, groups * size])), special_zero=False)
    value = op.convert(value, "f32") if wide == "f16" else value
    x = op.parameter([-1, groups * size], np.float32, name="x")
    model = ov.Model([op.matmul(x, value, False, True)], [x], "m")
    ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    net = irc.compile_model(tmp_path / "m.xml")
    (spec,) = specs(net)
    assert str(spec.b.dtype) == kind and spec.compressed is not None
    assert spec.compressed.group == size and len(net.plan.kernel_steps()) == 1
    rounded = ((whole - middle) * scale).astype(scale.dtype).reshape(n, -1).astype(np.float64)
    for m in (1, 5):
        x = rows(m, groups * size)
        np.testing.assert_allclose(net(x)[0], x @ rounded.T, rtol=1e-5, atol=1e-4)


def test_tied_weights_are_held_once(compile_graph: Compile) -> None:
    codes, scale, zero = weights((160, 160), DType.u4, (5, 160))
    build = Build(2, 160)
    wide = build.add(Dequantize(0, 32), *(build.constant(a) for a in (codes, scale, zero)))
    first = build.add(MatMul(), build.x, wide)
    build.result(build.add(MatMul(), first, wide))
    net = compile_graph(build.done(), True, 1)
    packed = [c for c in net.plan.constants if c.dtype is DType.u4]
    assert len(packed) == 1
    assert "compressed 1 u4 weights (12.5 KiB)" in net.report()


@pytest.mark.parametrize("group", [0, 12])
def test_what_no_kernel_expands_is_expanded_at_compile_time(
    group: int, compile_graph: Compile
) -> None:
    """A scale of each row's own, and groups that cells of 8 values do not divide."""
    spread = (160, 1) if group == 0 else (14, 256)
    codes, scale, zero = weights((160, 256), DType.u4, spread)
    build = Build(2, 160)
    wide = build.add(Dequantize(0, group), *(build.constant(a) for a in (codes, scale, zero)))
    build.result(build.add(MatMul(), build.x, wide))
    net = compile_graph(build.done(), True, 1)
    assert specs(net)[0].compressed is None
    (expanded,) = Dequantize(0, group).evaluate(codes, scale, zero)
    x = rows(2, 160)
    np.testing.assert_allclose(net(x)[0], x @ expanded, rtol=1e-4, atol=1e-4)


def test_a_weight_that_is_also_a_result_is_expanded(compile_graph: Compile) -> None:
    codes, scale, zero = weights((160, 256), DType.u8, (1, 256))
    build = Build(2, 160)
    wide = build.add(Dequantize(), *(build.constant(a) for a in (codes, scale, zero)))
    build.result(build.add(MatMul(), build.x, wide))
    build.result(wide, "w")
    net = compile_graph(build.done(), True, 1)
    assert np.array_equal(net(rows(2, 160))[1], Dequantize().evaluate(codes, scale, zero)[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.u4, DType.i4, DType.u8], ids=str)
def test_artefacts_hold_compressed_weights_once(
    dtype: DType, compile_graph: Compile, tmp_path: Path
) -> None:
    codes, scale, zero = weights((480, 401), dtype, (15, 401))
    build = Build("N", 480)
    wide = build.add(Dequantize(0, 32), *(build.constant(a) for a in (codes, scale, zero)))
    build.result(build.add(MatMul(), build.x, wide))
    net = compile_graph(build.done(), True, 1)
    path = tmp_path / "net.irc"
    net.export(path)
    stored = codes.size * dtype.bits // 8
    assert stored < path.stat().st_size < stored + 4 * scale.nbytes + 60_000
    loaded = irc.compile_model(path)
    assert np.array_equal(loaded(rows(3, 480))[0], net(rows(3, 480))[0])


@pytest.mark.parametrize("dtype", [DType.u4, DType.f32, DType.u8], ids=["codes", "scale", "zero"])
@pytest.mark.parametrize("change", ["shorter", "unpacked", "narrower"])
def test_plans_whose_weights_do_not_fit_are_refused(
    dtype: DType, change: str, compile_graph: Compile
) -> None:
    codes, scale, zero = weights((160, 256), DType.u4, (5, 256))
    build = Build(2, 160)
    wide = build.add(Dequantize(0, 32), *(build.constant(a) for a in (codes, scale, zero)))
    build.result(build.add(MatMul(), build.x, wide))
    plan = compile_graph(build.done(), True, 1).plan
    verify_plan(plan)
    (index,) = [i for i, c in enumerate(plan.constants) if c.dtype is dtype]
    good = plan.constants[index]
    rows_, columns = good.shape
    bad = {
        "shorter": replace(good, shape=(rows_ - 1, columns)),
        "unpacked": replace(good, layout=None),
        "narrower": replace(good, shape=(rows_, columns - 32)),
    }[change]
    constants = tuple(bad if i == index else c for i, c in enumerate(plan.constants))
    region = plan.regions[0]
    buffers = tuple(
        replace(b, shape=bad.shape) if b.kind == "constant" and b.index == index else b
        for b in region.buffers
    )
    broken = replace(plan, constants=constants, regions=(replace(region, buffers=buffers),))
    with pytest.raises(irc.Error):
        verify_plan(broken)
        for each in broken.regions:
            RegionLayoutTables(each, constants).sizes({})


def grouped_product(rows: int | str) -> irc.Model:
    """x f32 [rows, 128] times u4 weights [256, 128] in groups of 32."""
    codes = np.random.default_rng(0).integers(0, 256, (256, 64)).astype(np.uint8)
    w = GroupedMatrix(
        DeferredArray(DType.u8, codes.shape, lambda: codes), DType.u4, 32,
        np.full((256, 4), 0.5, np.float32), "test", zero=8,
    )  # fmt: skip
    return ops.model({"y": w.multiply(ops.parameter("x", (rows, 128)))})


def test_bf16_leaves_products_of_few_rows_exact() -> None:
    x = np.random.default_rng(1).standard_normal((20, 128)).astype(np.float32)
    plain = irc.compile_model(grouped_product("rows"))
    net = irc.compile_model(grouped_product("rows"), precision="bf16")
    assert "by bf16 factors in 1 of 1 products, of more than 8 rows" in net.report()
    for rows in (1, 8):
        assert np.array_equal(net([x[:rows]])[0], plain([x[:rows]])[0])
    for rows in (9, 20):
        wanted = plain([x[:rows]])[0]
        assert 0 < np.abs(net([x[:rows]])[0] - wanted).max() / np.abs(wanted).max() < 0.01
    few = irc.compile_model(grouped_product(8), precision="bf16")
    assert "bf16 (0 of 1 matrix products" in few.report()
    assert np.array_equal(few([x[:8]])[0], plain([x[:8]])[0])


def test_the_report_names_tiles_that_multiply_int8_activations() -> None:
    target = generic_target("avx512")
    features = {*target.cpu_features, "amx-int8", "amx-tile", "avx512vnni"}
    tiled = replace(target, cpu_features=tuple(sorted(features)))
    for rows, wanted in (("rows", 1), (16, 0), (17, 1)):
        plan = irc.compile_model(grouped_product(rows), activations="int8").plan
        line = "AMX: int8 activations of more than 16 rows in 1 of 1 products"
        assert describe_int8_tiles(plan, tiled) == line * wanted
        assert describe_int8_tiles(plan, target) == ""
    net = irc.compile_model(grouped_product("rows"), activations="int8")
    named = "tiles      AMX: int8 activations" in net.report()
    assert named == has_tiles(host_target(), DType.i8, 4)
    assert "AMX: int8" not in irc.compile_model(grouped_product("rows")).report()


def test_int8_activations_are_chosen_reported_and_stored(tmp_path: Path) -> None:
    """f32 without the option; a .irc keeps the option unless another one is given."""
    rng, model = np.random.default_rng(0), grouped_product("rows")
    x = rng.standard_normal((3, 128)).astype(np.float32)
    plain = irc.compile_model(model)
    net = irc.compile_model(model, activations="int8")
    assert "int8" not in plain.report()
    assert "by int8 activations in 1 of 1 products" in net.report()
    error = np.abs(net([x])[0] - plain([x])[0]).max() / np.abs(plain([x])[0]).max()
    assert 0 < error < 0.02
    path = tmp_path / "net.irc"
    net.export(path)
    stored = irc.compile_model(path)
    assert np.array_equal(stored([x])[0], net([x])[0])
    again = irc.compile_model(path, activations="f32")
    assert np.array_equal(again([x])[0], plain([x])[0])
    with pytest.raises(irc.UsageError, match="unknown activations"):
        irc.compile_model(model, activations="u8")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [DType.u4, DType.i8], ids=str)
def test_a_table_that_is_a_weight_too_is_stored_once(dtype: DType) -> None:
    """Rows are picked from the panels that the product reads, with the same bits."""
    rng = np.random.default_rng(0)
    width = 128 * dtype.bits // 8
    codes = rng.integers(0, 256, (300, width)).astype(np.uint8)
    w = GroupedMatrix(
        DeferredArray(DType.u8, codes.shape, lambda: codes), dtype, 32,
        rng.random((300, 4)).astype(np.float32), "test", zero=8 if dtype is DType.u4 else 0,
    )  # fmt: skip
    ids = ops.parameter("ids", (2, "n"), "i64")
    rows = w.pick_rows(ids)
    net = irc.compile_model(ops.model({"rows": rows, "y": w.multiply(rows)}))
    tables = [c for c in net.plan.constants if c.dtype is dtype or c.shape == codes.shape]
    picks = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, GatherSpec)]
    assert len(tables) == 1 and tables[0].layout is not None
    assert [s.packed for s in picks if s.packed is not None] == [tables[0].layout]
    given = rng.integers(0, 300, (2, 7))
    found, y = net([given])
    wanted = w.values()[given]
    assert np.array_equal(found, wanted)
    np.testing.assert_allclose(y, wanted @ w.values().T, rtol=1e-4, atol=1e-2)
    assert not net([np.full((2, 7), 300)])[0].any()  # beyond the end


def test_tables_of_equal_sizes_are_not_taken_for_one_another() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 256, (300, 64)).astype(np.uint8) for _ in range(2)]

    def matrix(codes: np.ndarray) -> GroupedMatrix:
        array = DeferredArray(DType.u8, codes.shape, lambda: codes)
        return GroupedMatrix(array, DType.u4, 32, np.ones((300, 4), np.float32), "test", zero=8)

    table, weight = (matrix(codes) for codes in tables)
    rows = table.pick_rows(ops.parameter("ids", (1, "n"), "i64"))
    net = irc.compile_model(ops.model({"rows": rows, "y": weight.multiply(rows)}))
    given = np.array([[0, 299, 17]])
    assert np.array_equal(net([given])[0], table.values()[given])


def test_a_table_of_rows_that_are_not_whole_cells_is_read_as_it_is() -> None:
    """Of 132 codes of 4 bits, in cells of 8."""
    codes = np.random.default_rng(0).integers(0, 256, (600, 66)).astype(np.uint8)
    w = GroupedMatrix(
        DeferredArray(DType.u8, codes.shape, lambda: codes), DType.u4, 132,
        np.full((600, 1), 0.5, np.float32), "test", zero=8,
    )  # fmt: skip
    ids = ops.parameter("ids", (1, "n"), "i64")
    rows = w.pick_rows(ids)
    net = irc.compile_model(ops.model({"rows": rows, "y": w.multiply(rows)}))
    picks = [s.spec for s in net.plan.kernel_steps() if isinstance(s.spec, GatherSpec)]
    assert all(s.packed is None for s in picks)
    given = np.array([[0, 599, 17]])
    assert np.array_equal(net([given])[0], w.values()[given])
