"""Who may use tiles of AMX: the kernel is asked once, and a refusal is named."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Iterator

import pytest
from irc_compiler.cli.commands.doctor import tiles
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit import amx_permission as amx
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.machine.roofline import peak_loop

WITH = frozenset({"amx-tile", "amx-bf16", "amx-int8", "avx512f"})


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """What the kernel says, and how often it was asked."""
    state = {"error": 0, "asked": 0}

    def request() -> int:
        state["asked"] += 1
        return state["error"]

    monkeypatch.delenv("IRC_AMX", raising=False)
    monkeypatch.delenv("IRC_CPU", raising=False)  # no mask of what is detected below
    monkeypatch.setattr(amx, "_request", request)
    monkeypatch.setattr(host, "_detect_features", lambda: WITH)
    amx._request_permission.cache_clear()
    yield state
    amx._request_permission.cache_clear()


def test_permission_is_asked_for_once(answers: dict[str, int]) -> None:
    assert host.host_features() >= WITH and not host.without_tiles()
    assert host.host_features() >= WITH and answers["asked"] == 1


def test_a_refusal_is_named_and_takes_the_features_away(answers: dict[str, int]) -> None:
    answers["error"] = errno.EPERM
    assert not any(f.startswith("amx") for f in host.host_features())
    assert "Operation not permitted" in host.without_tiles()
    assert "Operation not permitted" in tiles(generic_target("avx512"))
    assert answers["asked"] == 1


def test_tiles_may_be_left_alone(answers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_AMX", "0")
    assert not any(f.startswith("amx") for f in host.host_features())
    assert "IRC_AMX" in host.without_tiles() and not answers["asked"]


def test_machines_without_tiles_are_not_asked(
    answers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_detect_features", lambda: WITH - {"amx-tile"})
    assert not host.without_tiles() and tiles(generic_target("avx512")) == "none"
    assert host.host_features() and not answers["asked"]


def test_a_report_says_why_tiles_stay_unused(
    answers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import irc_compiler as irc
    from irc_compiler import ops

    x = ops.parameter("x", [2, 3])
    compiled = irc.compile_model(ops.model({"y": ops.relu(x)}))
    assert "tiles" not in compiled.report()
    answers["error"] = errno.ENOSPC
    amx._request_permission.cache_clear()
    assert "tiles      none: AMX is there, but the operating system" in compiled.report()


@pytest.mark.skipif(host.host_arch() != "x86_64", reason="not run: this machine is not a x86-64")
def test_the_kernel_is_really_asked() -> None:
    """Wherever this runs, the answer is an answer: yes, or one of the errors that Linux gives."""
    found = amx._request()
    known = (0, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ENOSPC, errno.ENOSYS)
    assert found in known, errno.errorcode.get(found, found)


@pytest.mark.parametrize("unit, tile", [("bf16", "tdpbf16ps"), ("int8", "tdpbusd")])
def test_the_peak_of_a_machine_with_tiles_is_theirs(unit: str, tile: str) -> None:
    """Four products of 16 x 16 x 64 bytes per turn, from registers; without tiles the vectors'."""
    plain = generic_target("avx512")
    more = {"amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512vnni"}
    for lacking, expected in ((None, 4), ("amx-tile", 0), (f"amx-{unit}", 0)):
        names = tuple(sorted({*plain.cpu_features, *(more - {lacking})}))
        target = dataclasses.replace(plain, cpu_features=names)
        module, operations = peak_loop(unit, target)
        text = emit_assembly(module.text(), target)
        assert text.count(tile) == expected and ("tileloadd" in text) == bool(expected)
        each = 2 if unit == "bf16" else 4
        assert operations == 2 * each * (4 * 16**3 if expected else 20 * 16)
        if expected:
            loop = text.rpartition(".LBB")[0].rpartition("\n.LBB")[2]
            assert loop.count(tile) == 4 and "tileload" not in loop
