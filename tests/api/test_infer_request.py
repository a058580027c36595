"""Variables: what a request keeps from run to run, against OpenVINO."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.plan.plan import Variable
from irc_compiler.plan.serialization import decode_plan, encode_plan
from irc_compiler.plan.verify.plan import verify_plan
from openvino import opset13 as op
from support.models import stateful
from support.models.stateful import (
    OPSET3,
    decoder,
    derived,
    growing,
    parameter,
    request,
    save,
    variable,
)


def rows(*values: float) -> np.ndarray[Any, Any]:
    return np.repeat(np.float32(values)[:, None], 4, axis=1)


@pytest.mark.parametrize("make", [growing, derived])
def test_runs_and_resets_equal_openvino(make: Callable[[Path], str], tmp_path: Path) -> None:
    path = make(tmp_path / "m.xml")
    net = irc.compile_model(path)
    assert not net.plan.host_steps()
    mine, theirs = net.create_infer_request(), request(path)
    order = [s.name for s in mine.query_state()]
    for run in range(6):
        if run == 3:
            mine.reset_state()
            theirs.reset_state()
        x = rows(run + 1, run + 2)
        expected = list(theirs.infer([x]).values())
        for found, wanted in zip(mine.infer(x), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        states = {s.name: s.state.data.copy() for s in theirs.query_state()}
        for held in mine.query_state():
            np.testing.assert_array_equal(held.state, states[held.name])
    assert sorted(order) == sorted(states)


def test_one_variable_alone_is_reset_or_set(tmp_path: Path) -> None:
    path = derived(tmp_path / "m.xml")
    mine, theirs = irc.compile_model(path).create_infer_request(), request(path)
    for run in range(4):
        if run:
            for each in (mine, theirs):
                next(
                    s for s in each.query_state() if s.name == ["second", "first", "fixed"][run - 1]
                ).reset()
        x = rows(run + 1)
        for found, wanted in zip(mine(x=x), theirs.infer([x]).values(), strict=True):
            np.testing.assert_array_equal(found, wanted)
    first = mine.query_state()[0]
    given = rows(50)
    first.state = given
    given[:] = 0
    held = first.state
    held[:] = 0
    assert mine(rows(1))["a"].tolist() == rows(50).tolist()
    with pytest.raises(irc.InputError, match="fit|dimensions"):
        first.state = np.zeros((2, 5), np.float32)
    with pytest.raises(irc.InputError, match="element type"):
        first.state = np.zeros((2, 4), np.float64)


def test_plain_calls_start_from_the_initial_values(tmp_path: Path) -> None:
    net = irc.compile_model(growing(tmp_path / "m.xml"))
    asked = net.create_infer_request()
    call = net.bind(rows(1))
    for _ in range(3):
        asked(rows(1))
        assert net(rows(1))["total"].tolist() == [6] * 4
        assert call()["total"].tolist() == [6] * 4
    assert asked(rows(1))["total"].tolist() == [9] * 4
    assert irc.compile_model(growing(tmp_path / "m.xml")).create_infer_request().query_state()[
        0
    ].state.shape == (0, 4)


def test_outputs_and_states_own_their_memory(tmp_path: Path) -> None:
    """A variable that is an output, too; and its values in two pieces of memory in turn."""
    held = variable("v", [-1, 4096])
    x = parameter("x", [-1, 4096])
    read = op.read_value(x, held)
    after = op.add(read, op.constant(np.float32(1)))
    path = save(
        tmp_path / "m.xml", [op.result(read), op.result(after)], [x], [op.assign(after, held)]
    )
    asked = irc.compile_model(path).create_infer_request()
    x0 = np.zeros((16, 4096), np.float32)
    kept = [asked(x0) for _ in range(5)]
    for run, (before, now) in enumerate(kept):
        assert (before == run).all() and (now == run + 1).all()
    for before, now in kept:
        before[:], now[:] = -1, -1
    mine = np.empty_like(x0)
    assert asked(x0, out=[None, mine])[1] is mine and (mine == 6).all()


@pytest.mark.parametrize("first", [True, False])
def test_a_variable_keeps_no_array_of_the_caller(first: bool, tmp_path: Path) -> None:
    """Its initial value, or what is assigned to it, is an input as it stands: the caller may write
    into that array after the run."""
    held = variable("v", [-1, 4])
    x = parameter("x", [-1, 4])
    read = op.read_value(x, held) if first else op.read_value(held)
    sinks = [op.assign(read if first else x, held)]
    total = op.add(read, op.constant(np.float32(1)))
    path = save(tmp_path / "m.xml", [op.result(total)], [x], sinks)
    asked = irc.compile_model(path).create_infer_request()
    given = rows(1, 2)
    asked(given)
    given[:] = 50
    np.testing.assert_array_equal(asked(given)[0], rows(1, 2) + 1)


def test_state_in_opset_3(tmp_path: Path) -> None:
    """Also the value an Assign hands on, and a variable's type that is its initial value's."""
    for where, first in (((2, 2), [2, 4]), ((3, 1), [2, 4]), ((1, 1), [1, 2])):
        path = tmp_path / "old.xml"
        path.write_text(OPSET3.format(from_layer=where[0], from_port=where[1]))
        path.with_suffix(".bin").write_bytes(b"")
        asked = irc.compile_model(path).create_infer_request()
        x = np.float32([1, 2])
        found = [asked(x)[0].tolist() for _ in range(3)]
        assert found == [(np.float32(first) + n * x).tolist() for n in range(3)]


def test_a_stateful_model_is_pickled_and_stored(tmp_path: Path) -> None:
    path = derived(tmp_path / "m.xml")
    net = irc.compile_model(path)
    net.export(tmp_path / "m.irc")
    irc.save_model(net.model, tmp_path / "again.xml")
    asked = [
        n.create_infer_request()
        for n in (
            net,
            pickle.loads(pickle.dumps(net)),
            irc.compile_model(tmp_path / "m.irc"),
            irc.compile_model(tmp_path / "again.xml"),
        )
    ]
    theirs = request(str(tmp_path / "again.xml"))
    for run in range(4):
        x = rows(run, 1)
        expected = list(theirs.infer([x]).values())
        for each in asked:
            for found, wanted in zip(each(x), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_a_failed_run_changes_nothing(tmp_path: Path) -> None:
    asked = irc.compile_model(growing(tmp_path / "m.xml")).create_infer_request()
    asked(rows(1))
    with pytest.raises(irc.InputError):
        asked(np.zeros((1, 5), np.float32))
    assert asked(rows(2))["total"].tolist() == [8] * 4


@pytest.mark.slow
def test_requests_run_side_by_side_and_one_at_a_time(tmp_path: Path) -> None:
    net = irc.compile_model(decoder(tmp_path / "m.xml"), num_threads=1)
    steps = np.random.default_rng(1).standard_normal((12, 1, 1, 32)).astype(np.float32)
    alone = net.create_infer_request()
    expected = [alone(s)[0] for s in steps]
    wrong: list[int] = []

    def work(number: int) -> None:
        asked = net.create_infer_request()
        for _ in range(5):
            asked.reset_state()
            for step, wanted in zip(steps, expected, strict=True):
                if not np.array_equal(asked(step)[0], wanted):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    with alone._exclusive_state(), pytest.raises(irc.ExecutionError, match="another thread"):
        alone(steps[0])


@pytest.mark.slow
def test_a_decoder_runs_256_tokens_in_flat_memory(tmp_path: Path) -> None:
    from irc_compiler.runtime.jit import program

    path = decoder(tmp_path / "m.xml")
    net = irc.compile_model(path, num_threads=1)
    assert not net.plan.host_steps()
    asked, theirs = net.create_infer_request(), request(path)
    tokens = np.random.default_rng(2).standard_normal((257, 1, 1, 32)).astype(np.float32)
    stats = []
    for n, token in enumerate(tokens):
        (found,) = asked(token)
        if n == 3:
            compiled = program.compilations()
        if n in (0, 1, 100, 256):
            np.testing.assert_allclose(found, theirs.infer([token])[0], rtol=1e-4, atol=1e-5)
        else:
            theirs.infer([token])
        stats.append(net.stats())
    assert program.compilations() == compiled
    assert asked.query_state()[0].state.shape == (1, 2, 257, 16)
    # Layouts are bounded by bytes: a later text finds those of the same lengths.
    assert sum(layout.nbytes for layout in net.session.regions.layouts.values()) <= 1 << 20
    assert stats[-1].arena_bytes <= 1 << 20
    assert {(s.contexts, s.kernels, s.constant_bytes) for s in stats} == {
        (1, stats[0].kernels, stats[0].constant_bytes)
    }


def test_models_whose_state_has_no_meaning(tmp_path: Path) -> None:
    x = parameter("x", [2, 4])
    held = variable("v", [2, 4])
    one, two = op.constant(np.float32(1)), op.constant(np.zeros((2, 4), np.float32))
    read = op.read_value(two, held)
    twice = [op.assign(op.add(read, x), held), op.assign(op.multiply(read, x), held)]
    path = save(tmp_path / "m.xml", [op.result(read)], [x], twice)
    with pytest.raises(irc.UnsupportedOperationError, match="'v' is assigned twice"):
        irc.compile_model(path)
    other = op.read_value(op.add(x, one), held)
    path = save(tmp_path / "n.xml", [op.result(op.add(read, other))], [x], [op.assign(x, held)])
    with pytest.raises(irc.UnsupportedOperationError, match="different initial values"):
        irc.compile_model(path)


def test_variables_of_a_plan_are_verified(tmp_path: Path) -> None:
    plan = irc.compile_model(derived(tmp_path / "m.xml")).plan
    assert decode_plan(encode_plan(plan)) == plan
    verify_plan(plan)
    first, *rest = plan.variables

    def broken(changed: Variable) -> None:
        with pytest.raises(irc.VerificationError):
            verify_plan(replace(plan, variables=(changed, *rest)))

    broken(replace(first, slot=len(plan.slots)))
    broken(replace(first, after=-1))
    broken(replace(first, initial=rest[0].after))  # made only after it is needed
    broken(replace(first, slot=plan.inputs[0].slot))
    broken(replace(first, slot=rest[0].slot))
    whole = plan.slots[first.after]
    slots = list(plan.slots)
    slots[first.after] = irc.ir.types.TensorType(irc.ir.dtype.DType.i8, whole.shape)
    with pytest.raises(irc.VerificationError):
        verify_plan(replace(plan, slots=tuple(slots)))
    regions = [replace(r, initialises=(7,) if r.initialises else ()) for r in plan.regions]
    with pytest.raises(irc.VerificationError, match="variable that there is not"):
        verify_plan(replace(plan, regions=tuple(regions)))
    regions = [replace(r, initialises=()) for r in plan.regions]
    with pytest.raises(irc.VerificationError, match="never made"):
        verify_plan(replace(plan, regions=tuple(regions)))


def test_the_stand_in_for_openvino_keeps_state(tmp_path: Path) -> None:
    import irc_compiler.compat.openvino as mine
    import openvino as theirs

    path = growing(tmp_path / "m.xml")
    seen: list[Any] = []
    for ov in (mine, theirs):
        compiled = ov.Core().compile_model(path, "CPU", stateful.CONFIG)
        asked = compiled.create_infer_request()
        found = [asked.infer([rows(1)])[0].tolist() for _ in range(2)]
        (held,) = asked.query_state()
        found += [held.name, list(held.state.shape), held.state.data.tolist()]
        held.state = ov.Tensor(rows(7))
        found.append(asked.infer([rows(1)])[0].tolist())
        held.reset()
        found.append(asked.infer([rows(1)])[0].tolist())
        asked.reset_state()
        found += [list(held.state.shape), asked.infer([rows(1)])[0].tolist()]
        found += [compiled([rows(1)])[0].tolist() for _ in range(2)]
        seen.append(found)
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_state_is_read_and_written_in_place_and_given_other_sizes(tmp_path: Path) -> None:
    net = irc.compile_model(decoder(tmp_path / "m.xml"))
    held, other = net.create_infer_request(), net.create_infer_request()
    with pytest.raises(irc.InputError, match="has no value yet"):
        held.state_views()
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((1, n, 32)).astype(np.float32) for n in (5, 1))
    held({"x": x})
    before = [v.copy() for v in held.state_views()]
    assert [v.shape for v in before] == [s.state.shape for s in held.query_state()]
    for target, source in zip(other.renew_state({2: 5}), before, strict=True):
        assert target.shape == source.shape and not target.any()
        target[...] = source
    for _ in range(3):
        np.testing.assert_array_equal(held({"x": y})[0], other({"x": y})[0])
    other.state_views()[0][...] = 0
    assert not other.query_state()[0].state.any()
    with pytest.raises(irc.InputError, match="does not fit variable"):
        other.renew_state({1: 7})
