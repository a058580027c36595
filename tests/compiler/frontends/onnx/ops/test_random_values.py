"""Random operators: their distributions, their seeds, and what they refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import ml_dtypes
import numpy as np
import onnxruntime
import openvino
import pytest
from irc_compiler.cli.main import main
from onnx import TensorProto, helper

COUNT = 40_000
KINDS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}


@pytest.fixture(autouse=True)
def forget_the_seed() -> Iterator[None]:
    yield
    irc.set_seed(None)


def model(
    kind: str, data: Any = None, output: int = TensorProto.FLOAT, opset: int = 15, **how: Any
) -> bytes:
    """One node; of an input `x` like `data`, if given."""
    ports = []
    if data is not None:
        element = helper.np_dtype_to_tensor_dtype(data.dtype)
        ports = [helper.make_tensor_value_info("x", element, [None] * data.ndim)]
    node = helper.make_node(kind, ["x"] if ports else [], ["y"], **how)
    end = helper.make_tensor_value_info("y", output, None)
    graph = helper.make_graph([node], "g", ports, [end])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def normal_distribution(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])


def check_distribution(drawn: Any, cumulative: Callable[[Any], Any]) -> None:
    """Kolmogorov and Smirnov: below 1.95 / sqrt(n) for 999 samples of 1000. Seeds are fixed."""
    values = np.sort(np.asarray(drawn, np.float64).reshape(-1))
    expected, n = cumulative(values), len(values)
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    assert distance < 1.95 / math.sqrt(n)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_random_normal_is_normal(kind: int) -> None:
    how = {"shape": [200, COUNT // 200], "mean": 3.0, "scale": 2.0, "dtype": kind}
    (drawn,) = irc.compile_model(model("RandomNormal", output=kind, seed=1.5, **how))()
    assert drawn.shape == (200, COUNT // 200) and drawn.dtype == KINDS[kind]
    check_distribution((drawn - 3) / 2, normal_distribution)
    assert abs(drawn.mean() - 3) < 4 * 2 / math.sqrt(COUNT)
    assert abs(drawn.std() - 2) < 4 * 2 / math.sqrt(2 * COUNT)
    rows = np.corrcoef(drawn.reshape(2, -1))[0, 1]
    neighbours = np.corrcoef(drawn.reshape(-1)[:-1], drawn.reshape(-1)[1:])[0, 1]
    assert max(abs(rows), abs(neighbours)) < 4 / math.sqrt(COUNT / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_float_type_is_drawn(kind: int) -> None:
    opset = 22 if kind == TensorProto.BFLOAT16 else 15
    for name in ("RandomNormal", "RandomUniform"):
        how = {"shape": [COUNT], "dtype": kind, "seed": 2.0}
        (drawn,) = irc.compile_model(model(name, output=kind, opset=opset, **how))()
        assert drawn.dtype == KINDS[kind]
        wide = drawn.astype(np.float64)
        mean, deviation = (0, 1) if name == "RandomNormal" else (0.5, math.sqrt(1 / 12))
        assert abs(wide.mean() - mean) < 5e-2 and abs(wide.std() - deviation) < 5e-2
        assert np.isfinite(wide).all()
        if name == "RandomUniform":
            assert wide.min() >= 0 and wide.max() < 1


def test_random_uniform_is_uniform() -> None:
    how = {"shape": [COUNT], "low": -1.0, "high": 4.0, "seed": 3.0}
    (drawn,) = irc.compile_model(model("RandomUniform", **how))()
    check_distribution(drawn, lambda x: (x + 1) / 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RandomNormalLike", "RandomUniformLike"])
def test_like_takes_the_shape_and_the_type(name: str) -> None:
    for data, how in (
        (np.zeros((3, 5), np.float64), {}),
        (np.zeros((2, 0, 4), np.int64), {"dtype": TensorProto.FLOAT16}),
        (np.zeros((), np.float32), {}),
    ):
        kind = how.get("dtype", helper.np_dtype_to_tensor_dtype(data.dtype))
        (drawn,) = irc.compile_model(model(name, data, kind, **how))({"x": data})
        assert drawn.shape == data.shape and drawn.dtype == KINDS[kind]


def test_multinomial_draws_classes_by_their_weights() -> None:
    weights = np.array([[1, 3, 0, 6], [0, 0, 5, 0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(weights) + np.array([[700], [-700]], np.float32)
    for output in (TensorProto.INT32, TensorProto.INT64):
        how = {"sample_size": COUNT, "dtype": output, "seed": 4.0}
        net = irc.compile_model(model("Multinomial", logits, output, **how))
        (drawn,) = net({"x": logits})
        assert drawn.shape == (2, COUNT)
        assert drawn.dtype == (np.int32 if output == TensorProto.INT32 else np.int64)
        shares = np.bincount(drawn[0], minlength=4) / COUNT
        assert np.abs(shares - weights[0] / 10).max() < 4 * math.sqrt(0.25 / COUNT)
        assert shares[2] == 0 and (drawn[1] == 2).all()


def test_bernoulli_draws_ones_by_their_probability() -> None:
    """As onnx.reference does; the function in ONNX's schema draws zeros by it."""
    x = np.repeat(np.array([0, 0.25, 1], np.float32), COUNT)
    (drawn,) = irc.compile_model(model("Bernoulli", x, seed=5.0))({"x": x})
    shares = drawn.reshape(3, -1).mean(axis=1)
    assert shares[0] == 0 and shares[2] == 1
    assert abs(shares[1] - 0.25) < 4 * math.sqrt(0.25 * 0.75 / COUNT)


NODES: dict[str, tuple[Any, dict[str, Any]]] = {
    "RandomNormal": (None, {"shape": [64]}),
    "RandomUniform": (None, {"shape": [64]}),
    "RandomNormalLike": (np.zeros(64, np.float32), {}),
    "RandomUniformLike": (np.zeros(64, np.float32), {}),
    "Bernoulli": (np.full(64, 0.5, np.float32), {}),
    "Multinomial": (np.zeros((1, 50), np.float32), {"sample_size": 64}),
}


def output_of(name: str) -> int:
    return TensorProto.INT32 if name == "Multinomial" else TensorProto.FLOAT


def draw(name: str, **seed: float) -> Callable[[], list[float]]:
    """Runs of one compiled node."""
    data, how = NODES[name]
    net = irc.compile_model(model(name, data, output_of(name), **how, **seed))
    return lambda: net({} if data is None else {"x": data})[0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("seed", [0.0, 0.5, -1.0, 7.0])
def test_a_node_with_a_seed_draws_the_same_in_every_run(name: str, seed: float) -> None:
    run = draw(name, seed=seed)
    first = run()
    irc.set_seed(3)
    assert run() == first and draw(name, seed=seed)() == first
    assert draw(name, seed=seed + 0.25)() != first


@pytest.mark.parametrize("name", NODES)
def test_the_number_of_threads_does_not_change_what_is_drawn(name: str) -> None:
    data, how = NODES[name]
    proto = model(name, data, output_of(name), seed=2.0, **how)
    inputs = {} if data is None else {"x": data}
    found = [irc.compile_model(proto, num_threads=t)(inputs)[0].tolist() for t in (1, 2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NODES)
def test_a_node_without_a_seed_follows_set_seed(name: str) -> None:
    run = draw(name)
    assert run() != run()
    irc.set_seed(3)
    first, second = run(), run()
    assert first != second
    for seed, same in ((3, True), (4, False), (3 + (1 << 40), False), (-3, False)):
        irc.set_seed(seed)
        assert ((run(), run()) == (first, second)) is same
    irc.set_seed(None)
    assert run() != first


def test_two_nodes_draw_for_themselves() -> None:
    nodes = [helper.make_node("RandomNormal", [], [n], shape=[8]) for n in "ab"]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in "ab"]
    graph = helper.make_graph(nodes, "g", [], ends)
    opsets = [helper.make_opsetid("", 15)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    a, b = irc.compile_model(proto)()
    assert not np.isin(a, b).any()


def test_a_seed_that_is_not_an_integer_is_refused() -> None:
    for wrong in (1.5, "1", True):
        with pytest.raises(irc.UsageError, match="seed is not an integer"):
            irc.set_seed(wrong)  # type: ignore[arg-type]


def test_the_stand_in_of_onnxruntime_has_set_seed() -> None:
    import irc_compiler.compat.onnxruntime as stand_in

    for engine in (stand_in, onnxruntime):
        found = []
        for _ in range(2):
            engine.set_seed(11)
            proto = model("RandomNormal", shape=[4])
            net = engine.InferenceSession(proto, providers=["CPUExecutionProvider"])
            found.append([net.run(None, {})[0].tolist() for _ in range(2)])
        assert found[0] == found[1] and found[0][0] != found[0][1]


def test_irc_run_takes_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model("RandomNormal", shape=[4]))
    printed = []
    for seed in ("5", "5", "6"):
        assert main(["run", str(path), "--json", "--seed", seed]) == 0
        printed.append(json.loads(capsys.readouterr().out)["outputs"][0]["values"])
    assert printed[0] == printed[1] != printed[2]


@pytest.mark.parametrize("name", ["RandomNormal", "Multinomial"])
def test_random_operators_are_saved(name: str, tmp_path: Path) -> None:
    """As IR, where OpenVINO draws other values of the same distribution, and in artefacts."""
    how = {"shape": [COUNT], "mean": 1.0} if name == "RandomNormal" else {"sample_size": COUNT}
    data = None if name == "RandomNormal" else np.log(np.array([[1, 3]], np.float32))
    source = model(name, data, output_of(name), seed=9.0, **how)
    net = irc.compile_model(source)
    inputs = {} if data is None else {"x": data}
    (drawn,) = net(inputs)
    irc.save_model(irc.read_model(source), tmp_path / "m.xml")
    net.export(tmp_path / "m.irc")
    for again in ("m.xml", "m.irc"):
        assert (irc.compile_model(tmp_path / again)(inputs)[0] == drawn).all()
    theirs = openvino.Core().compile_model(tmp_path / "m.xml", "CPU")(inputs)[0]
    assert theirs.shape == drawn.shape
    for sample in (drawn, theirs):
        assert abs(sample.mean() - (1 if name == "RandomNormal" else 0.75)) < 0.03


REFUSED: dict[str, tuple[Any, str, dict[str, Any], str]] = {
    "integers": (np.zeros(3, np.int64), "RandomNormalLike", {}, "of this element type"),
    "rank": (np.zeros(3, np.float32), "Multinomial", {"sample_size": 2}, "rows of classes"),
    "samples": (np.zeros((1, 3), np.float32), "Multinomial", {"sample_size": 0}, "too small"),
    "float samples": (np.zeros((1, 3), np.float32), "Multinomial", {"dtype": 1}, "integers"),
    "no shape": (None, "RandomNormal", {}, "'shape' is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused(case: str) -> None:
    data, name, how, message = REFUSED[case]
    with pytest.raises(irc.ModelFormatError, match=message):
        irc.read_model(model(name, data, output_of(name), **how))
