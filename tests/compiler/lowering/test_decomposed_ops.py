"""What has no kernel of its own runs natively in operations that have one, as `evaluate` says."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import parse_element_type
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph

IMAGE = '%0 = Parameter.1() {element_type=f32, shape=["N", 6, "H", "W"]} "x"\n'
FIXED = '%0 = Parameter.1() {element_type=f32, shape=[2, 6, 5, 7]} "x"\n'
END = '%9 = Result.1(%8) "y"\n'


def ints(name: int, *numbers: int) -> str:
    return f"%{name} = Constant.1() {{data={list(numbers)}, dtype=i64, shape=[{len(numbers)}]}}\n"


def number(name: int, value: float, dtype: str = "i64") -> str:
    return f"%{name} = Constant.1() {{data=[{value}], dtype={dtype}, shape=[]}}\n"


def height(dtype: str) -> str:
    return (
        "%1 = ShapeOf.3(%0)\n"
        + number(2, 2)
        + number(3, 0)
        + f"%4 = Gather.8(%1, %2, %3)\n%5 = Convert.1(%4) {{destination_type={dtype}}}\n"
    )


def grid(how: str, image: str = IMAGE) -> str:
    """Places that are the image's own numbers, some of them outside."""
    return (
        image
        + ints(1, 0, 0, 0, 0)
        + ints(2, 2147483647, 2, 3, 3)
        + ints(3, 1, 1, 1, 1)
        + ints(4, 0, 1, 2, 3)
        + "%5 = Slice.8(%0, %1, %2, %3, %4)\n"
        + ints(6, 0, 3, 2, 1)
        + f"%7 = Transpose.1(%5, %6)\n%8 = GridSample.9(%0, %7) {{{how}}}\n"
        + END
    )


CASES = {
    "roll": FIXED + ints(1, -3, 9) + ints(2, 2, 3) + "%8 = Roll.7(%0, %1, %2)\n" + END,
    "roll_of_symbolic_sizes": IMAGE
    + ints(1, -7, 3)
    + ints(2, 2, 3)
    + "%8 = Roll.7(%0, %1, %2)\n"
    + END,
    "roll_of_a_symbolic_batch": IMAGE + ints(1, 2) + ints(2, 1) + "%8 = Roll.7(%0, %1, %2)\n" + END,
    "range": IMAGE
    + height("f32")
    + number(6, -1, "f32")
    + number(7, 2, "f32")
    + "%8 = Range.4(%6, %5, %7) {output_type=f32}\n"
    + END,
    "range_from_a_half": IMAGE
    + height("f32")
    + number(6, 0.5, "f32")
    + number(7, 2, "f32")
    + "%8 = Range.4(%6, %5, %7) {output_type=f32}\n"
    + END,
    "range_from_a_half_to_an_integer": IMAGE
    + height("i64")
    + number(6, -2.5, "f32")
    + number(7, 3)
    + "%8 = Range.4(%6, %5, %7) {output_type=f32}\n"
    + END,
    "eye": IMAGE
    + height("i32")
    + number(6, 3)
    + number(7, 1)
    + "%8 = Eye.9(%5, %6, %7) {output_type=f32}\n"
    + END,
    "lrn": IMAGE
    + ints(1, 1)
    + "%8 = LRN.1(%0, %1) {alpha=0.3, beta=0.75, bias=2.0, size=4}\n"
    + END,
    "normalize": IMAGE
    + ints(1, 1)
    + '%8 = NormalizeL2.1(%0, %1) {eps=0.1, eps_mode="max"}\n'
    + END,
    "mvn_of_channels": IMAGE + ints(1, 1) + "%8 = MVN.6(%0, %1) {eps=0.01}\n" + END,
    "mvn_of_the_batch": IMAGE + ints(1, 3, 0) + "%8 = MVN.6(%0, %1) {eps=0.01}\n" + END,
    "grid": grid('mode="bilinear", padding_mode="zeros", align_corners=false'),
    "grid_of_borders": grid('mode="bilinear", padding_mode="border", align_corners=true'),
    "grid_nearest": grid('mode="nearest", padding_mode="zeros", align_corners=true', FIXED),
}
CASES["filtered"] = (
    FIXED
    + ints(1, 3, 11)
    + ints(2, 2, 3)
    + '%8 = Interpolate.11(%0, %1, %2) {mode="bicubic_pillow", shape_calculation_mode="sizes"}\n'
    + END
)
CASES["filtered_by_scales"] = (
    FIXED.replace("5, 7", "6, 4")
    + "%1 = Constant.1() {data=[0.5, 0.75], dtype=f32, shape=[2]}\n"
    + ints(2, 2, 3)
    + '%8 = Interpolate.11(%0, %1, %2) {mode="linear", shape_calculation_mode="scales", '
    + "antialias=true}\n"
    + END
)
POOLS = {
    "halves": "kernel=[2, 2], strides=[2, 2]",
    "padded": "kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]",
    "uneven": 'kernel=[3, 2], strides=[2, 2], pads_end=[0, 1], rounding_type="ceil", axis=2',
    "spread": "kernel=[3, 3], strides=[3, 2], pads_begin=[1, 1], pads_end=[1, 1], axis=1, "
    'dilations=[1, 2], rounding_type="ceil_torch", index_element_type=i32',
    "one tap": "kernel=[1, 1], strides=[2, 1], axis=2",
    "one tap, padded": "kernel=[1, 1], strides=[1, 2], pads_begin=[1, 0]",
    "nothing but padding": "kernel=[2, 2], strides=[1, 1], pads_begin=[2, 2], pads_end=[0, 2]",
}
SIZES = ({"N": 1, "H": 6, "W": 8}, {"N": 3, "H": 5, "W": 4})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, compile_graph) -> None:
    graph = parse_graph(f'graph "{name}"\n{CASES[name]}')
    net: irc.CompiledModel = compile_graph(graph.copy(), True, 1)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    for seed, sizes in enumerate(SIZES):
        (port,) = net.inputs
        assert port.shape is not None
        shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        (want,) = interpret(graph, [x])
        (found,) = net([x])
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=0, atol=2e-5 * max(1, np.abs(want).max()))


@pytest.mark.slow
@pytest.mark.parametrize("image", (IMAGE, FIXED), ids=("symbolic", "fixed"))
@pytest.mark.parametrize("pool", POOLS)
def test_indices_of_maxima(pool: str, image: str, compile_graph) -> None:
    """Of equal elements the first, never a padding, and NaN before all."""
    text = image + f"%2 = MaxPool.14(%0) {{{POOLS[pool]}}}\n"
    graph = parse_graph(f'graph "g"\n{text}%3 = Result.1(%2) "y"\n%4 = Result.1(%2:1) "i"\n')
    net: irc.CompiledModel = compile_graph(graph.copy(), True, 1)
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    x = np.random.default_rng(0).integers(-2, 3, (2, 6, 5, 7)).astype(np.float32)
    x[0, :, :, :4], x[1, 1, 2, 3] = -np.inf, np.nan
    for found, want in zip(net([x]), interpret(graph, [x]), strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


# Of an image and of its grid.
TYPES = (
    *(("f32", "f64"), ("f32", "f16"), ("f16", "f32"), ("f64", "f32")),
    *((name, name) for name in ("f32", "f16", "bf16", "f64")),
)


@pytest.mark.slow
@pytest.mark.parametrize("corners", ["true", "false"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("types", TYPES, ids=" ".join)
def test_grids_of_all_types_and_modes(
    types: tuple[str, str], mode: str, padding: str, corners: str
) -> None:
    """Symbolic sizes, one of an axis included; coordinates to three times the image's width. Those
    of `nearest` are not halfway between two elements, where types round apart."""
    image_type, grid_type = types
    graph = parse_graph(
        f'graph "g"\n%0 = Parameter.1() {{element_type={image_type}, '
        f'shape=["N", 3, "H", "W"]}} "x"\n'
        f'%1 = Parameter.1() {{element_type={grid_type}, shape=["N", 9, 7, 2]}} "grid"\n'
        f'%8 = GridSample.9(%0, %1) {{mode="{mode}", padding_mode="{padding}", '
        f"align_corners={corners}}}\n" + END
    )
    net = irc.compile_model(irc.Model(graph))
    assert not net.plan.host_steps(), [s.reason for s in net.plan.host_steps()]
    rng = np.random.default_rng(0)
    for height, width in (5, 8), (1, 4):
        image = rng.standard_normal((2, 3, height, width))
        # Multiples of 1/32 are exact in each type.
        at = rng.integers(-96, 96, (2, 9, 7, 2)) / 32 + 1 / 64
        given = zip((image, at), types, strict=True)
        inputs = [array.astype(parse_element_type(name).numpy) for array, name in given]
        (want,) = interpret(graph, inputs)
        (found,) = net(inputs)
        assert found.dtype == want.dtype
        atol = {"f64": 1e-12 if grid_type == "f64" else 1e-5, "f32": 1e-5}.get(image_type, 2e-2)
        wide = (v.astype(np.float64) for v in (found, want))
        np.testing.assert_allclose(*wide, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("where", [0, 1], ids=["in the image", "in the grid"])
@pytest.mark.parametrize("corners", ["true", "false"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_pixels_outside_an_image_are_zeros_whatever_its_border_holds(
    mode: str, corners: str, where: int
) -> None:
    """Infinity and NaN of one input, which as factors of 0 would make NaN of it."""
    graph = parse_graph(
        f'graph "g"\n{FIXED}%1 = Parameter.1() {{element_type=f32, shape=[2, 40, 7, 2]}} "grid"\n'
        f'%8 = GridSample.9(%0, %1) {{mode="{mode}", padding_mode="zeros", '
        f"align_corners={corners}}}\n" + END
    )
    rng = np.random.default_rng(0)
    shapes = (2, 6, 5, 7), (2, 40, 7, 2)
    inputs = [(1.2 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
    some = inputs[where].reshape(-1)[::7]
    some[:] = rng.choice(np.float32([np.nan, np.inf, -np.inf]), some.shape)
    (want,) = interpret(graph, inputs)
    (got,) = irc.compile_model(irc.Model(graph))(inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
