"""A user's file of thresholds: read, checked, and used by every part of a compilation."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.ir.errors import UsageError
from irc_compiler.plan.heuristics import THRESHOLDS, Heuristics
from irc_compiler.runtime.machine.detect import detected_target, host_target
from irc_compiler.runtime.machine.heuristics_file import chosen_heuristics, read_heuristics
from onnx import TensorProto, helper, numpy_helper


def write(folder: Path, text: str) -> Path:
    path = folder / "heuristics.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_overrides_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "# a machine\ngemm_min_chains = 6\nwinograd_min_speedup = 1.5\n")
    wanted = Heuristics(gemm_min_chains=6, winograd_min_speedup=1.5)
    assert read_heuristics(path) == wanted
    monkeypatch.setenv("IRC_HEURISTICS", "")
    plain = host_target()
    assert chosen_heuristics() == plain.heuristics == Heuristics()
    monkeypatch.setenv("IRC_HEURISTICS", str(path))
    assert host_target().heuristics == wanted and host_target().key() != plain.key()
    assert host_target() is host_target()
    assert detected_target().heuristics == Heuristics()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("gemm_min_chains = 0", "got: 0"),
        ("gemm_min_chain = 4", "such as gemm_min_chains"),
        ("[gemm]\nmin_chains = 4", "unknown"),
        ("gemm_min_chains", "not TOML"),
        ("gemm_min_chains = 4\ngemm_min_chains = 5", "not TOML"),
        ("x = " + "[" * 5000, "not TOML"),
        ("#" * 70_000, "too large"),
    ],
)
def test_wrong_file_is_one_clear_error(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_heuristics(write(tmp_path, text))
    assert what in str(caught.value) and "heuristics.toml" in str(caught.value)


def test_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_heuristics(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        read_heuristics(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        read_heuristics(tmp_path / "bytes.toml")


def products_and_convolutions() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model whose kernels read thresholds of every kind that vector registers have."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    constants = {"f": draw(24, 16, 3, 3), "g": draw(24, 1, 3, 9), "v": draw(700, 40)}
    constants["w"] = draw(40, 33)
    nodes = [
        helper.make_node("Conv", ["image", "f"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "g"], ["y"], pads=[1, 4, 1, 4], group=24),
        helper.make_node("MatMul", ["rows", "v"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["z"]),
    ]
    shapes: dict[str, list[int | str]] = {"image": [1, 16, 14, 29], "rows": ["M", 700]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [onnx.ValueInfoProto(name=n) for n in "yz"],
        [numpy_helper.from_array(array, n) for n, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return made, {"image": draw(1, 16, 14, 29), "rows": draw(31, 700)}


@pytest.mark.slow
def test_compiled_code_depends_on_thresholds_and_results_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the defaults, at both ends of all ranges, and at random ends."""
    model, arrays = products_and_convolutions()
    rng = np.random.default_rng(1)
    ends = {name: threshold.metadata["range"] for name, threshold in THRESHOLDS.items()}
    values = [{}, *({name: end[i] for name, end in ends.items()} for i in (0, 1))]
    values += [{name: end[rng.integers(2)] for name, end in ends.items()} for _ in range(4)]
    found, keys = set[bytes](), set[str]()
    for chosen in values:
        text = "".join(f"{name} = {value}\n" for name, value in chosen.items())
        monkeypatch.setenv("IRC_HEURISTICS", str(write(tmp_path, text)))
        net = irc.compile_model(model, conv_algorithm="direct")
        results = net(arrays)
        found.add(results["y"].tobytes() + results["z"].tobytes())
        keys.add(net.plan.target_key)
    assert len(found) == 1, "a threshold changes a bit"
    assert len(keys) == len(values)
