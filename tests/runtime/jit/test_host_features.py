"""IRC_CPU: the features of this machine masked with those of a named processor."""

from __future__ import annotations

import irc_compiler as irc
import pytest
from irc_compiler.cli.commands.doctor import as_text, examine
from irc_compiler.ir.errors import UsageError, VerificationError
from irc_compiler.plan.processors import PROCESSORS, maskable_processors, processor_target
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.jit import program
from irc_compiler.runtime.machine.detect import detected_target, host_target
from support.artifacts import X, alike, uses_stored_plan
from support.models.small import mlp

HERE = maskable_processors(host.detected_features())
# A processor with fewer features than this machine.
LESS = [p for p in HERE if processor_target(p).cpu_features != detected_target().cpu_features]


@pytest.fixture
def unmasked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("IRC_CPU", raising=False)
    monkeypatch.delenv("IRC_ISA", raising=False)
    return monkeypatch


@pytest.fixture
def lesser(unmasked: pytest.MonkeyPatch) -> str:
    if not LESS:
        pytest.skip("not run: no named processor has fewer features than this machine")
    return LESS[0]


@pytest.mark.parametrize("name", PROCESSORS)
def test_features_are_those_of_the_processor(name: str, unmasked: pytest.MonkeyPatch) -> None:
    if name not in HERE:
        pytest.skip(f"not run: this machine cannot be masked to {name}")
    unmasked.setenv("IRC_CPU", name)
    found = host_target()
    assert host.host_features() == PROCESSORS[name]
    assert found.cpu_features == processor_target(name).cpu_features
    assert found.isa == processor_target(name).isa
    unmasked.delenv("IRC_CPU")
    assert host_target() == detected_target()


@pytest.mark.parametrize(
    ("name", "near"), [("icelake", "icelake-server"), ("Haswell", "haswell"), ("znver6", "znver")]
)
def test_an_unknown_processor_is_refused(
    name: str, near: str, unmasked: pytest.MonkeyPatch
) -> None:
    unmasked.setenv("IRC_CPU", name)
    with pytest.raises(UsageError, match="unknown processor") as caught:
        irc.compile_model(mlp((3, 5, 2), integers=True))
    assert "IRC_CPU" in str(caught.value) and f"did you mean '{near}" in str(caught.value)


@pytest.mark.parametrize("name", [n for n in PROCESSORS if n not in HERE])
def test_a_processor_of_more_features_is_refused(name: str, unmasked: pytest.MonkeyPatch) -> None:
    unmasked.setenv("IRC_CPU", name)
    with pytest.raises(UsageError, match="cannot run code for the processor") as caught:
        host_target()
    for feature in PROCESSORS[name] - host.detected_features():
        assert feature in str(caught.value)
    for possible in HERE:
        assert possible in str(caught.value)


@pytest.mark.slow
def test_doctor_names_the_mask(lesser: str, unmasked: pytest.MonkeyPatch) -> None:
    unmasked.setenv("IRC_CPU", lesser)
    state = examine()
    assert not state["problems"] and f"IRC_CPU={lesser}, without" in "\n".join(as_text(state))
    unmasked.setenv("IRC_CPU", "nothing")
    (problem,) = examine()["problems"]  # type: ignore[misc]
    assert "unknown processor" in problem


@pytest.mark.slow
def test_code_is_cached_for_the_mask_alone(
    cold: object, lesser: str, unmasked: pytest.MonkeyPatch
) -> None:
    """Code of more features is never found under a mask; its own code is."""
    whole = irc.compile_model(mlp((3, 5, 2), integers=True))
    unmasked.setenv("IRC_CPU", lesser)
    program._loaded.clear()
    first = irc.compile_model(mlp((3, 5, 2), integers=True))
    assert first.program.compiled > 0 and alike(first(X), whole(X))
    del first
    program._loaded.clear()
    assert irc.compile_model(mlp((3, 5, 2), integers=True)).program.compiled == 0


def test_an_artefact_runs_under_its_mask(
    cold: object, lesser: str, unmasked: pytest.MonkeyPatch, tmp_path
) -> None:
    path = tmp_path / "masked.irc"
    unmasked.setenv("IRC_CPU", lesser)
    masked = irc.compile_model(mlp((3, 5, 2), integers=True))
    masked.export(path, code=True)
    again = irc.CompiledModel.load(path, trust_code=True)
    assert again.has_stored_code and uses_stored_plan(again)
    assert again.program.compiled == 0 and alike(again(X), masked(X))


@pytest.mark.slow
def test_an_artefact_of_more_features_is_compiled_again(
    cold: object, lesser: str, unmasked: pytest.MonkeyPatch, tmp_path
) -> None:
    """Neither its plan nor its code is used, trusted or not; the plan alone is refused."""
    path = tmp_path / "whole.irc"
    whole = irc.compile_model(mlp((3, 5, 2), integers=True))
    whole.export(path, code=True)
    unmasked.setenv("IRC_CPU", lesser)
    again = irc.CompiledModel.load(path, trust_code=True)
    assert not again.has_stored_code and not uses_stored_plan(again)
    assert again.program.compiled > 0 and alike(again(X), whole(X))
    assert again.program.target == host_target()
    with pytest.raises(VerificationError, match="made for another machine"):
        program.build_program(whole.plan, {}, host_target())


def test_names_are_of_one_architecture() -> None:
    for name in PROCESSORS:
        target = processor_target(name)
        assert target.arch == generic_target(target.isa).arch
