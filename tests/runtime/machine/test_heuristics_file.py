"""A user's file of thresholds: read, checked, and used by every part of a compilation."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.errors import UsageError
from irc_compiler.plan.heuristics import Heuristics
from irc_compiler.runtime.machine.detect import detected_target, host_target
from irc_compiler.runtime.machine.heuristics_file import chosen_heuristics, read_heuristics


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


@pytest.mark.slow
def test_compiled_code_depends_on_the_thresholds_and_results_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    w, a = (rng.standard_normal(s).astype(np.float32) for s in ((300, 40), (33, 300)))
    x = ops.parameter("x", [33, 300])
    model = ops.model({"y": ops.matmul(x, w)})
    found = []
    for text in ("", "gemm_max_tile_rows = 3\ngemm_a_block_l2_divisor = 64\n"):
        monkeypatch.setenv("IRC_HEURISTICS", str(write(tmp_path, text)))
        net = irc.compile_model(model)
        found.append((net.plan.target_key, net(a)["y"].tobytes()))
    (key, result), (other_key, other_result) = found
    assert key != other_key and result == other_result
