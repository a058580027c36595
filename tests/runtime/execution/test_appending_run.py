"""Runs that append to variables on the tables of the run before have the results of any run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from weakref import ref

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.runtime.execution.appending_run import AppendingRun
from irc_compiler.runtime.execution.execution_context import ExecutionContext
from irc_compiler.runtime.execution.native_segment import NativeSegment
from irc_compiler.runtime.execution.region_instance import RegionInstance
from support.models.tiny_decoder import decoder_model, run_decoder

# Rows of 2 KiB: a variable of 32 rows has memory of its own.
_ROW_BYTES = 2048


@cache
def wide_net(threads: int = 1) -> Any:
    model = decoder_model(layers=2, heads=4, kv_heads=4, head_size=128, inner=64)
    return irc.compile_model(model, num_threads=threads)


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """The shape of the first input of each run that continued another."""
    found: list[tuple[int, ...]] = []
    original = AppendingRun.run

    def run(self: Any) -> Any:
        instance, layout = self.instance, self.instance.layout
        found.append(layout.inputs[0])
        np.testing.assert_array_equal(instance.table[:, 3], layout.flags)
        dims = instance.code.tables.dims(layout.sizes)
        dims[instance.code.prefix_copies.sizes] = 0  # nothing is copied
        np.testing.assert_array_equal(instance.dims, dims)
        return original(self)

    monkeypatch.setattr(AppendingRun, "run", run)
    yield found


def bind_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no run continue another."""
    monkeypatch.setattr(ExecutionContext, "continue_appending", lambda *_: None)


def compare(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[], list[Any]], net: Any = None
) -> list[Any]:
    """The results of a use of requests, bit for bit those of runs that are bound each time."""
    mine = use()
    with monkeypatch.context() as patch:
        bind_each_run(patch)
        theirs = use()
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    return mine


def show_state(request: Any) -> list[Any]:
    return [variable.state for variable in request.query_state()]


@pytest.mark.parametrize("threads", [1, 2])
def test_tokens_behind_a_prompt_continue_each_other(
    threads: int, continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def use() -> list[Any]:
        request = wide_net(threads).create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 24])]
        found += [run_decoder(request, past, [[past % 30]]) for past in range(48, 120)]
        return [*found, *show_state(request)]

    compare(monkeypatch, use)
    # All but where the sizes of a prompt end and where 96 rows of room are full.
    assert len(continued) >= 60


def test_tokens_from_an_empty_cache_on(
    continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, past, [[past % 30]]) for past in range(80)]
        found.append(run_decoder(request, 80, [[3] * 40]))
        request.reset_state()
        found += [run_decoder(request, 0, [[3] * 40]), run_decoder(request, 40, [[3] * 40])]
        return [*found, *show_state(request)]

    compare(monkeypatch, use)
    assert continued


def test_the_first_rows_of_a_cache_are_not_continued() -> None:
    """They were appended to an empty array, which is elsewhere."""
    request = wide_net().create_infer_request()
    seen = []
    for past, count in ((0, 40), (40, 1)):
        run_decoder(request, past, [[1] * count])
        seen.append(len(wide_net().session._pool[-1]._appending))
    assert seen == [0, 1]


def test_a_mask_that_gets_too_large_to_be_copied(
    continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 1020])]
        found += [run_decoder(request, past, [[past % 30]]) for past in range(2040, 2056)]
        return [*found, *show_state(request)]

    compare(monkeypatch, use)
    assert len(continued) >= 10


def test_requests_that_take_turns(continued: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def use() -> list[Any]:
        found = []
        requests = [wide_net().create_infer_request() for _ in range(2)]
        for n, request in enumerate(requests):
            found.append(run_decoder(request, 0, [[n + 1, 2] * 24]))
        for past in range(48, 60):
            for n in (0, 0, 1, 1):
                offset = past - 48
                at = 48 + 2 * offset + (len(found) % 2)
                found.append(run_decoder(requests[n], at, [[(past + n) % 30]]))
        return [*found, *show_state(requests[0]), *show_state(requests[1])]

    compare(monkeypatch, use)
    assert continued


def test_state_that_a_caller_changes(continued: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 24])]
        found += [run_decoder(request, past, [[4]]) for past in range(48, 52)]
        request.trim_state(2, 40)
        found += [run_decoder(request, past, [[5]]) for past in range(40, 44)]
        request.drop_state(2, 4)
        found += [run_decoder(request, past, [[6]]) for past in range(40, 44)]
        for variable in request.query_state():
            variable.state = variable.state[:, :, ::-1] * 0.5
        found += [run_decoder(request, past, [[7]]) for past in range(44, 48)]
        for view in request.state_views():
            view *= 2
        found += [run_decoder(request, past, [[8]]) for past in range(48, 52)]
        for view in request.renew_state({0: 1, 2: 50}):
            view.fill(0.25)
        found += [run_decoder(request, past, [[9]]) for past in range(50, 54)]
        return [*found, *show_state(request)]

    compare(monkeypatch, use)
    assert continued


def test_rows_that_diverge_and_end(continued: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 24])]
        found.append(run_decoder(request, 48, [[4], [5]], [0, 0]))
        found += [run_decoder(request, past, [[4], [5]]) for past in range(49, 55)]
        found.append(run_decoder(request, 55, [[6], [7]], [1, 0]))
        found += [run_decoder(request, past, [[4], [5]]) for past in range(56, 60)]
        found.append(run_decoder(request, 60, [[6]], [1]))
        found += [run_decoder(request, past, [[4]]) for past in range(61, 64)]
        return [*found, *show_state(request)]

    compare(monkeypatch, use)
    assert {shape[0] for shape in continued} == {1, 2}


def test_an_input_in_the_room_behind_a_variable(
    continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels would read this mask in place, and write the new row over it."""
    past = 2100

    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        run_decoder(request, 0, [[1, 2] * (past // 2)])
        found = [run_decoder(request, past, [[3]]), run_decoder(request, past + 1, [[4]])]
        value = request._state.values[0]
        room = np.ndarray((value.nbytes + 16 * _ROW_BYTES,), np.uint8, request._state._memory[0][0])
        mask = room[value.nbytes : value.nbytes + 8 * (past + 3)].view(np.int64)
        mask[:] = np.arange(past + 3) >= 200
        outputs = request(
            input_ids=np.array([[5]]),
            attention_mask=mask[None],
            position_ids=np.array([[past + 2]]),
            beam_idx=np.array([0], np.int32),
        )
        found.append(outputs["logits"][:, -1])
        return [*found, *show_state(request)]

    mine = compare(monkeypatch, use)
    assert continued
    assert len(mine) > 3


def test_a_run_that_fails_leaves_what_the_next_one_needs(
    continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any) -> None:
        raise KeyboardInterrupt

    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 24])]
        found += [run_decoder(request, past, [[3]]) for past in range(48, 52)]
        with monkeypatch.context() as patch:
            patch.setattr(NativeSegment, "run", fail)
            with pytest.raises(KeyboardInterrupt):
                run_decoder(request, 52, [[9]])
        found += [run_decoder(request, past, [[5]]) for past in range(52, 58)]
        return [*found, *show_state(request)]

    mine = compare(monkeypatch, use)
    assert mine[-1].shape[2] == 58 and len(continued) >= 6


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_run_that_ends_behind_new_sizes_leaves_no_others_under_the_old_ones(
    error: type[BaseException], continued: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RegionInstance.resize

    def fail(self: Any, layout: Any) -> bool:
        original(self, layout)
        raise error

    def use() -> list[Any]:
        request = wide_net().create_infer_request()
        found = [run_decoder(request, 0, [[1, 2] * 24])]
        found += [run_decoder(request, past, [[3]]) for past in range(48, 52)]
        if not found_before:
            with monkeypatch.context() as patch:
                patch.setattr(RegionInstance, "resize", fail)
                with pytest.raises((error, irc.Error)):
                    run_decoder(request, 52, [[9]])
        request.trim_state(2, 51)  # the sizes that the instance had
        found += [run_decoder(request, past, [[5]]) for past in range(51, 56)]
        found_before.append(found)
        return [*found, *show_state(request)]

    found_before: list[Any] = []
    compare(monkeypatch, use)
    assert continued


def test_sizes_that_do_not_fit_are_refused(continued: list[Any]) -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1, 2] * 24])
    for past in range(48, 52):
        run_decoder(request, past, [[3]])
    assert continued
    for _ in range(2):
        with pytest.raises(irc.Error):
            run_decoder(request, 60, [[4]])  # a mask of 61 columns for 53
    assert [s.shape[2] for s in show_state(request)] == [52] * len(request.query_state())
    run_decoder(request, 52, [[4]])


def test_a_request_that_is_gone_holds_no_memory(continued: list[Any]) -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1, 2] * 24])
    for past in range(48, 52):
        run_decoder(request, past, [[3]])
    assert continued
    held = [ref(value) for value in request._state.values]
    held += [ref(memory) for memory, _ in request._state._memory]
    del request
    gc.collect()
    assert [value() for value in held] == [None] * len(held)
