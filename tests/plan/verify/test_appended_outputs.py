"""Outputs that begin with a copy of an input, and plans in which they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.plan import KernelStep
from irc_compiler.plan.verify.appended_outputs import find_appended_outputs
from irc_compiler.plan.verify.buffers import buffer_roots
from irc_compiler.plan.verify.plan import verify_plan
from support.models.tiny_decoder import decoder_model


def region_of(*order: str) -> Any:
    """The region of a Concat of these, of a: [N, 4] and b: [M, 4]."""
    given = {name: ops.parameter(name, [size, 4]) for name, size in (("a", "N"), ("b", "M"))}
    parts = {**given, "c": ops.exp(given["b"])}
    model = ops.model({"y": ops.concat([parts[n] for n in order], 0)})
    return irc.compile_model(model, num_threads=1).plan.regions[0]


def find(region: Any) -> list[tuple[str, int]]:
    found = find_appended_outputs(region, buffer_roots(region))
    assert all(f.is_read_later for f in found)
    return [(str(region.buffers[f.input].shape[0]), region.buffers[f.output].index) for f in found]


def test_a_concat_of_an_input_and_a_result_is_found() -> None:
    assert find(region_of("a", "c")) == [("N", 0)]
    assert find(region_of("c", "a")) == [], "the input is not the beginning"
    assert find(region_of("a", "c", "c")) == [], "two steps write behind it"


def test_a_step_that_writes_elsewhere_is_not_believed() -> None:
    region = region_of("a", "c")
    (found,) = find_appended_outputs(region, buffer_roots(region))
    step = region.steps[found.rest]
    assert isinstance(step, KernelStep)
    at = step.spec.operands()[found.operand]
    spec: Any = step.spec
    moved = replace(spec, outs=(replace(at, offset=0),))
    steps = list(region.steps)
    steps[found.rest] = replace(step, spec=moved)
    assert find(replace(region, steps=tuple(steps))) == []
    steps[found.rest] = region.steps[found.copy]  # the copy twice
    assert find(replace(region, steps=tuple(steps))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"axes": (0, 1, 2)},
        {"axes": (0, 0, 1, 2)},
        {"rows": 9999},
        {"rows": 0},
        {"row_axis": 4},
        {"row_axis": -1},
    ],
    ids=str,
)
def test_forged_variables_are_refused(change: dict[str, Any]) -> None:
    plan = irc.compile_model(decoder_model(layers=1), num_threads=1).plan
    verify_plan(plan)
    first, *others = plan.variables
    with pytest.raises(VerificationError):
        verify_plan(replace(plan, variables=(replace(first, **change), *others)))


@pytest.mark.slow
def test_an_artefact_keeps_the_cache(tmp_path: Any) -> None:
    net = irc.compile_model(decoder_model(layers=1), num_threads=1)
    net.export(tmp_path / "m.irc")
    loaded = irc.compile_model(tmp_path / "m.irc", num_threads=1)
    assert loaded.plan.variables == net.plan.variables
    for each in (net, loaded):
        request = each.create_infer_request()
        for past in range(3):
            request(
                input_ids=np.array([[past]]),
                attention_mask=np.ones((1, past + 1), np.int64),
                position_ids=np.array([[past]]),
                beam_idx=np.zeros(1, np.int32),
            )
        assert request.query_state()[0].state.shape == (1, 2, 3, 8)
