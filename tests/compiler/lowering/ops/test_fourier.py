"""Fourier transforms: products, as `evaluate` says; else on the host, and why."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.verify.values import RegionLayoutTables
from irc_compiler.plan.verify.written_coverage import Coverage


def text_of(
    shape: str,
    size: int = 8,
    step: int = 3,
    window: int = 8,
    dtype: str = "f32",
    transposed: bool = False,
    before: str = "",
    after: str = "",
) -> str:
    """%4 of %0; `before` makes another %9 of it to be transformed, `after` a %5 of %4."""
    read, made = "%9" if before else "%0", "%5" if after else "%4"
    flag = "{transpose_frames=true}" if transposed else ""
    return f"""graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape={shape}}} "x"
%1 = Constant.1() {{data=~1, dtype={dtype}, shape=[{window}]}}
%2 = Constant.1() {{data=[{size}], dtype=i64, shape=[]}}
%3 = Constant.1() {{data=[{step}], dtype=i64, shape=[]}}
{before}%4 = STFT.15({read}, %1, %2, %3) {flag}
{after}%8 = Result.1({made}) "y"
"""


def spectra(*args: Any, **made: Any) -> Graph:
    return parse_graph(text_of(*args, **made))


# A column of a signal, every second sample, backwards: frames of what lies anywhere in memory.
STRIDED = """%10 = Constant.1() {data=[-1], dtype=i64, shape=[1]}
%11 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%12 = Constant.1() {data=[-2], dtype=i64, shape=[1]}
%13 = Constant.1() {data=[1, 0], dtype=i64, shape=[2]}
%14 = Slice.8(%0, %10, %11, %12, %11)
%9 = Transpose.1(%14, %13)
"""
# The shape as it is read most: magnitudes, samples of time last.
MAGNITUDES = """%15 = Constant.1() {data=[3], dtype=i64, shape=[1]}
%16 = ReduceL2.4(%4, %15) {keep_dims=false}
%17 = Constant.1() {data=[0, 2, 1], dtype=i64, shape=[3]}
%5 = Transpose.1(%16, %17)
"""
JOINED = "%5 = Concat.1(%4, %4) {axis=2}\n"
CASES: dict[str, tuple[Graph, list[tuple[int, ...]]]] = {
    "fixed": (spectra("[2, 20]"), [(2, 20)]),
    "symbolic": (spectra('["B", "N"]'), [(3, 41), (1, 8), (2, 10), (2, 11), (0, 20)]),
    "no batch": (spectra('["N"]', transposed=True), [(8,), (30,)]),
    "odd frame": (spectra('["B", "N"]', 7, 2, 5), [(2, 7), (2, 26)]),
    "short window": (spectra('["B", "N"]', 8, 4, 3), [(2, 8), (2, 26)]),
    "step beyond the frame": (spectra('["B", "N"]', 8, 11), [(2, 8), (2, 18), (2, 19), (2, 40)]),
    "one sample": (spectra('["B", "N"]', 1, 1, 1), [(2, 1), (2, 6)]),
    "two samples": (spectra('["B", "N"]', 2, 1, 2, transposed=True), [(2, 2), (2, 6)]),
    "transposed": (spectra('["B", "N"]', transposed=True), [(3, 41), (1, 8), (0, 9)]),
    "doubles": (spectra('["B", "N"]', 24, 5, 24, "f64"), [(2, 64)]),
    "strided": (spectra('["N", "B"]', before=STRIDED), [(50, 2), (17, 3)]),
    "magnitudes": (spectra('["B", "N"]', 16, 4, 16, after=MAGNITUDES), [(2, 40)]),
    "joined": (spectra('["B", "N"]', after=JOINED), [(2, 20)]),
    "speech": (spectra('["B", "N"]', 400, 160, 400), [(1, 16000), (2, 1000)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, optimised: bool, compile_graph) -> None:
    graph, shapes = CASES[name]
    first: list[np.ndarray] = []
    for threads in (1, 2):
        net: irc.CompiledModel = compile_graph(graph.copy(), optimised, threads)
        assert not net.plan.host_steps()
        for number, shape in enumerate(shapes):
            dtype = DType[net.inputs[0].dtype].numpy
            x = np.random.default_rng(number).standard_normal(shape).astype(dtype)
            (got,), (want,) = net([x]), interpret(graph, [x])
            assert got.shape == want.shape and got.dtype == want.dtype
            bound = 1e-6 if want.dtype == np.float32 else 1e-14
            np.testing.assert_allclose(
                got, want, rtol=0, atol=bound * max(1, np.abs(want).max(initial=0))
            )
            if threads == 1:
                first.append(got)
            else:
                assert got.tobytes() == first[number].tobytes()


# A frame of 4 meets the signs of whole turns only: every product and sum is exact.
def test_small_integers_are_exact(compile_graph) -> None:
    graph = parse_graph("""graph "g"
%0 = Parameter.1() {element_type=f32, shape=["B", "N"]} "x"
%1 = Constant.1() {data=[1.0, -2.0, 3.0, 5.0], dtype=f32, shape=[4]}
%2 = Constant.1() {data=[4], dtype=i64, shape=[]}
%3 = Constant.1() {data=[1], dtype=i64, shape=[]}
%4 = STFT.15(%0, %1, %2, %3)
%8 = Result.1(%4) "y"
""")
    x = np.random.default_rng(0).integers(-9, 10, (3, 50)).astype(np.float32)
    (got,) = compile_graph(graph, True, 1)([x])
    np.testing.assert_array_equal(got, interpret(graph, [x])[0])
    np.testing.assert_array_equal(got[1, 7, 0], [np.dot(x[1, 7:11], [1, -2, 3, 5]), 0])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinities_are_those_of_a_product(bad: float, compile_graph) -> None:
    """A fast transform has 0 where a product has 0 * inf, and what else depends on its order."""
    graph = spectra('["B", "N"]', 8, 8)
    x = np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    x[0, 3] = x[1, 20] = bad
    (got,), (want,) = compile_graph(graph, True, 1)([x]), interpret(graph, [x])
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    assert np.isnan(got[0, 0, 0, 1]) and np.isfinite(got[0, 1:]).all()


@pytest.mark.parametrize("shape", ['["B", "N"]', "[2, 7]"])
def test_a_signal_shorter_than_a_frame(shape: str) -> None:
    with pytest.raises(irc.Error) as caught:
        irc.compile_model(irc.Model(spectra(shape)))([np.ones((2, 7), np.float32)])
    assert "7" in str(caught.value) and "8" in str(caught.value)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"step": 0}, "frame_step is 1 or more"),
        ({"size": 0}, "frame_size is 1 or more"),
        ({"window": 9}, "a window is longer than its frame"),
        ({"window": 0}, "a window has one value or more"),
        ({"size": 21, "window": 21}, "a frame is longer than the signal"),
        ({"shape": "[1, 2, 20]"}, "input 'signal' has the wrong rank"),
    ],
)
def test_what_does_not_fit_is_refused(broken: dict[str, Any], what: str) -> None:
    with pytest.raises(irc.Error, match=what):
        spectra(**{"shape": "[2, 20]", **broken})


WINDOW = '%6 = Parameter.1() {element_type=f32, shape=[8]} "w"\n'
NUMBER = '%6 = Parameter.1() {element_type=i64, shape=[]} "n"\n'


@pytest.mark.parametrize(
    ("told", "old", "value", "reason"),
    [
        (WINDOW, "%1", np.hanning(8).astype(np.float32), "the window is known at run time only"),
        (NUMBER, "%2", np.array(9), "the shape of STFT's result depends on data"),
        (NUMBER, "%3", np.array(5), "the shape of STFT's result depends on data"),
    ],
)
def test_sizes_known_at_run_time_are_evaluated(
    told: str, old: str, value: np.ndarray, reason: str
) -> None:
    text = text_of('["B", "N"]').replace("%4 =", told + "%4 =")
    head, call = text.split("STFT.15(")
    graph = parse_graph(head + "STFT.15(" + call.replace(old, "%6", 1))
    net = irc.compile_model(irc.Model(graph))
    assert reason in net.report()
    x = np.random.default_rng(0).standard_normal((2, 30)).astype(np.float32)
    np.testing.assert_array_equal(net([x, value])[0], interpret(graph, [x, value])[0])
    with pytest.raises(irc.Error):
        net([x[:, :7], value])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"dtype": "f16"}, "no kernel for STFT of f16"),
        ({"size": 1026, "window": 1026}, "frames of more than 1024 samples"),
    ],
)
def test_other_forms_are_evaluated(made: dict[str, Any], reason: str) -> None:
    graph = spectra('["B", "N"]', **made)
    net = irc.compile_model(irc.Model(graph))
    assert reason in net.report()
    x = np.random.default_rng(0).standard_normal((2, 1100)).astype(DType[net.inputs[0].dtype].numpy)
    np.testing.assert_array_equal(net([x])[0], interpret(graph, [x])[0])


def transform(
    op: str, shape: str, axes: list[int], sizes: list[int] | None = None, dtype: str = "f32"
) -> Graph:
    """%3 of %0."""
    constant = "Constant.1() {{data={0}, dtype=i64, shape=[{1}]}}"
    given = "" if sizes is None else f"%2 = {constant.format(sizes, len(sizes))}\n"
    return parse_graph(f"""graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape={shape}}} "x"
%1 = {constant.format(axes, len(axes))}
{given}%3 = {op}(%0, %1{", %2" if given else ""})
%8 = Result.1(%3) "y"
""")


# One product: up to 80 values, and more where the factors are long. Two: 96 = 8 * 12, 90, 120.
SHAPES: dict[str, tuple[str, list[int], list[int] | None, tuple[int, ...]]] = {
    "one value": ("[5, 1, 2]", [1], [2], (5, 1, 2)),
    "rows": ('["N", 7, 2]', [-1], None, (4, 7, 2)),
    "no rows": ('["N", 96, 2]', [1], None, (0, 96, 2)),
    "long rows": ('["N", 96, 2]', [1], None, (4, 96, 2)),
    "a prime": ("[3, 97, 2]", [1], None, (3, 97, 2)),
    "columns": ('[2, 6, "W", 2]', [1], None, (2, 6, 33, 2)),
    "long columns": ('[2, 96, "W", 2]', [1], None, (2, 96, 3, 2)),
    "only one": ("[96, 2]", [0], None, (96, 2)),
    "images": ('["N", 3, 90, 14, 2]', [2, 3], None, (2, 3, 90, 14, 2)),
    "turned images": ('["N", 3, 90, 14, 2]', [3, 1], None, (2, 3, 90, 14, 2)),
    "cut and filled": ("[3, 9, 20, 2]", [1, 2], [96, 7], (3, 9, 20, 2)),
    "filled to twice": ("[3, 61, 2]", [1], [120], (3, 61, 2)),
    "cut": ("[3, 130, 2]", [1], [120], (3, 130, 2)),
    "partly cut": ("[3, 9, 20, 2]", [1, 2], [-1, 11], (3, 9, 20, 2)),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["DFT.7", "IDFT.7", "RDFT.9", "IRDFT.9"])
@pytest.mark.parametrize("name", SHAPES)
def test_transforms_of_known_sizes_are_products(
    name: str, op: str, dtype: str, compile_graph
) -> None:
    text, axes, sizes, shape = SHAPES[name]
    if op == "RDFT.9":
        text, shape = text.replace(", 2]", "]"), shape[:-1]
    graph = transform(op, text, axes, sizes, dtype)
    x = np.random.default_rng(0).standard_normal(shape).astype(DType[dtype].numpy)
    (want,) = interpret(graph, [x])
    nets = [compile_graph(graph.copy(), True, threads) for threads in (1, 2)]
    plan = nets[0].plan
    tables = RegionLayoutTables(plan.regions[0], plan.constants)
    # Nothing is read that no step wrote, so that no call has to fill memory with zeros.
    assert not plan.host_steps() and not Coverage(tables).unwritten(tables.sizes({"N": 4, "W": 3}))
    got, again = (net([x])[0] for net in nets)
    assert got.shape == want.shape and got.dtype == want.dtype
    bound = 2e-6 if dtype == "f32" else 1e-14
    atol = bound * np.abs(want).max(initial=0)
    np.testing.assert_allclose(got, want, rtol=0, atol=atol)
    assert got.tobytes() == again.tobytes()


def test_sums_of_small_integers_are_exact(compile_graph) -> None:
    """An axis of 4 is turned by quarters, which are 1, -1, i and -i."""
    x = np.random.default_rng(0).integers(-9, 10, (3, 4, 5, 2)).astype(np.float32)
    for op in ("DFT.7", "IDFT.7"):
        graph = transform(op, "[3, 4, 5, 2]", [1])
        (got,), (want,) = compile_graph(graph, True, 1)([x]), interpret(graph, [x])
        np.testing.assert_array_equal(got, want)


def test_equal_axes_share_their_matrices(compile_graph) -> None:
    graph = transform("DFT.7", "[96, 96, 2]", [0, 1])
    net = compile_graph(graph, True, 1)
    assert len(net.plan.constants) == 2 and len(net.plan.kernel_steps()) > 8


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (("DFT.7", '["N", "M", 2]', [1]), "the axes or their sizes are known at run time only"),
        (("DFT.7", "[2, 6, 2]", [1], None, "f16"), "no kernel for DFT of f16"),
        (("DFT.7", "[2, 4096, 2]", [1]), "an axis of 4096 values"),
        (("RDFT.9", "[2, 2048]", [1]), "an axis of 2048 values"),
        (("IDFT.7", "[2, 257, 2]", [1]), "an axis of 257 values"),
        (("IRDFT.9", "[2, 1, 2]", [1], [1]), "an axis of one value"),
    ],
)
def test_other_axes_are_evaluated(made: tuple[Any, ...], reason: str) -> None:
    graph = transform(*made)
    net = irc.compile_model(irc.Model(graph))
    assert reason in net.report()
    shape = [n if isinstance(n, int) else 6 for n in graph.tensor(Value(0)).shape or ()]
    x = np.random.default_rng(0).standard_normal(shape).astype(DType[net.inputs[0].dtype].numpy)
    np.testing.assert_array_equal(net([x])[0], interpret(graph, [x])[0])
