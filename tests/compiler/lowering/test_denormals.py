"""Whether a plan flushes denormals, and what that does to the numbers on every thread."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

TINY = np.finfo(np.float32).tiny


def one_input_model(nodes: list[Any], constants: dict[str, Any], out: int = T.FLOAT) -> Any:
    """x: f32[200, 300] to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, [200, 300])],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def scale_and_sin(scale: float) -> Any:
    """y = sin(x * scale)"""
    nodes = [helper.make_node("Mul", ["x", "s"], ["t"]), helper.make_node("Sin", ["t"], ["y"])]
    return one_input_model(nodes, {"s": np.float32(scale)})


def numbers(scale: float = 1.0) -> Any:
    values = np.random.default_rng(0).uniform(0.5, 1, (200, 300)) * scale
    return values.astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["auto", "flush", "keep"])
def test_denormal_results_are_flushed_or_kept(mode: Any, threads: int) -> None:
    net = irc.compile_model(scale_and_sin(1e-20), denormals=mode, num_threads=threads)
    x = numbers(1e-20)
    for _ in range(3):
        (y,) = net(x)
        if mode == "keep":
            assert ((y != 0) & (y < TINY)).all()
        else:
            assert (y == 0).all()
    bound = net.bind({"x": x})
    assert (np.asarray(bound()[0]) != 0).all() == (mode == "keep")


def test_report_gives_the_reason() -> None:
    def line(net: irc.CompiledModel) -> str:
        return next(t for t in net.report().split("\n") if t.startswith("denormals"))

    assert line(irc.compile_model(scale_and_sin(1.0))).endswith(
        "flushed to zero: the model holds none"
    )
    kept = line(irc.compile_model(scale_and_sin(1e-40)))
    assert "kept: " in kept and "reads a denormal constant" in kept
    assert line(irc.compile_model(scale_and_sin(1.0), denormals="keep")).endswith(
        "kept: as requested"
    )


def test_auto_keeps_masks_written_with_the_least_number() -> None:
    """log(mask + 1e-45) is -103 where the mask is 0; flushed it would be -inf."""
    nodes = [helper.make_node("Add", ["x", "e"], ["t"]), helper.make_node("Log", ["t"], ["y"])]
    model = one_input_model(nodes, {"e": np.float32(1e-45)})
    x = np.zeros((200, 300), np.float32)
    np.testing.assert_allclose(irc.compile_model(model)(x)[0], np.log(1.4e-45), rtol=1e-3)
    assert np.isneginf(irc.compile_model(model, denormals="flush")(x)[0]).all()


def test_auto_ignores_denormal_weights_of_products() -> None:
    weights = np.full((300, 8), 1.0, np.float32)
    weights[3, 4] = 1e-42
    net = irc.compile_model(
        one_input_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights})
    )
    assert net.plan.denormals.flush


def test_vector_of_constants_with_one_denormal_keeps_them() -> None:
    scale = np.ones(300, np.float32)
    scale[7] = -1e-44
    net = irc.compile_model(
        one_input_model([helper.make_node("Mul", ["x", "s"], ["y"])], {"s": scale})
    )
    assert not net.plan.denormals.flush


def test_comparisons_distinguish_denormals_from_zero() -> None:
    nodes = [helper.make_node("Greater", ["x", "z"], ["y"])]
    model = one_input_model(nodes, {"z": np.float32(0)}, T.BOOL)
    net = irc.compile_model(model, denormals="flush")
    assert net(numbers(1e-40))[0].all()
    best = one_input_model(
        [helper.make_node("TopK", ["x", "k"], ["v", "y"])], {"k": np.array([3])}, T.INT64
    )
    x = np.zeros((200, 300), np.float32)
    x[:, [9, 5, 7]] = [3e-44, 2e-44, 1e-44]
    assert (irc.compile_model(best, denormals="flush")(x)[0] == [9, 5, 7]).all()


def test_moves_copy_denormals() -> None:
    model = one_input_model([helper.make_node("Transpose", ["x"], ["y"])], {})
    x = numbers(1e-40)
    assert (irc.compile_model(model, denormals="flush")(x)[0] == x.T).all()


@pytest.mark.parametrize("mode", ["flush", "keep"])
def test_softmax_weights_are_never_denormal(mode: Any) -> None:
    x = np.linspace(0, -120, 300, dtype=np.float32) * np.ones((200, 1), np.float32)
    net = irc.compile_model(
        one_input_model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {}), denormals=mode
    )
    (y,) = net(x)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    assert ((exact > 0) & (exact < TINY)).any() and not ((y > 0) & (y < TINY)).any()
    np.testing.assert_allclose(y, exact, rtol=3e-6, atol=2 * TINY)


def test_artifact_holds_the_mode(tmp_path: Any) -> None:
    net = irc.compile_model(scale_and_sin(1e-20))
    net.export(tmp_path / "auto.irc")
    assert (irc.compile_model(tmp_path / "auto.irc")(numbers(1e-20))[0] == 0).all()
    net = irc.compile_model(scale_and_sin(1e-20), denormals="keep")
    net.export(tmp_path / "m.irc")
    loaded = irc.compile_model(tmp_path / "m.irc")
    assert not loaded.plan.denormals.flush and (loaded(numbers(1e-20))[0] != 0).all()
    flushed = irc.compile_model(tmp_path / "m.irc", denormals="flush")
    assert (flushed(numbers(1e-20))[0] == 0).all()


def test_profile_names_steps_on_denormals() -> None:
    keep = irc.compile_model(scale_and_sin(1e-20), denormals="keep", num_threads=1)
    flush = irc.compile_model(scale_and_sin(1e-20), denormals="flush", num_threads=1)
    if keep.program.target.arch != "x86_64":
        pytest.skip("not run: this processor has no flags for denormals")
    assert any(s.denormals for s in keep.session.profile([numbers(1e-20)]))
    assert not any(s.denormals for s in keep.session.profile([numbers(1.0)]))
    assert not any(s.denormals for s in flush.session.profile([numbers(1e-20)]))


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(irc.UsageError, match="unknown denormals"):
        irc.compile_model(scale_and_sin(1.0), denormals="never")  # type: ignore[arg-type]
