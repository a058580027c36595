"""A cache stays where it is while it grows: nothing but the new rows is written."""

from __future__ import annotations

from functools import cache
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.runtime.execution.native_segment import NativeSegment
from support.models.tiny_decoder import decoder_model, run_decoder


@cache
def wide_net() -> Any:
    """Rows of 2 KiB, so that values have memory of their own."""
    model = decoder_model(layers=1, heads=4, kv_heads=4, head_size=128, inner=64)
    return irc.compile_model(model, num_threads=1)


def addresses(request: Any) -> list[int]:
    return [value.ctypes.data for value in request._state.values]


@pytest.mark.slow
def test_both_caches_are_appended_to() -> None:
    code = wide_net().session.regions.compiled[-1]
    assert len(code.prefix_copies) == len(wide_net().plan.variables) == 2


@pytest.mark.slow
def test_memory_is_taken_again_only_when_it_is_full() -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1] * 64])
    seen = []
    for past in range(64, 300):
        run_decoder(request, past, [[past % 30]])
        seen.append(addresses(request))
    moves = sum(a != b for a, b in zip(seen, seen[1:], strict=False))
    assert moves <= 2, "capacity doubles: 128, 256, 512 rows"
    whole = wide_net().create_infer_request()
    tokens = [1] * 64 + [past % 30 for past in range(64, 300)]
    np.testing.assert_allclose(
        run_decoder(whole, 0, [[*tokens, 5]]),
        run_decoder(request, 300, [[5]]),
        atol=1e-3,
        rtol=1e-3,
    )


def test_no_row_is_copied_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1] * 64])
    run_decoder(request, 64, [[2]])
    copied: list[int] = []
    original = NativeSegment.run

    def run(self: Any) -> None:
        instance = self._instance
        copied.extend(instance.dims[instance.code.prefix_copies.sizes].tolist())
        original(self)

    monkeypatch.setattr(NativeSegment, "run", run)
    run_decoder(request, 65, [[3]])
    assert copied == [0, 0]
    copied.clear()
    run_decoder(request, 66, [[3], [4]], [0, 0])  # rows that diverge are copied once
    run_decoder(request, 67, [[3], [4]])
    assert copied[-2:] == [0, 0]


def test_a_run_that_fails_leaves_the_values_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    request, other = wide_net().create_infer_request(), wide_net().create_infer_request()
    for each in (request, other):
        run_decoder(each, 0, [[1, 2] * 32])
        run_decoder(each, 64, [[3]])

    def fail(self: Any) -> None:
        raise KeyboardInterrupt

    for rows in ([0], [0, 0]):
        with monkeypatch.context() as patch:
            patch.setattr(NativeSegment, "run", fail)
            with pytest.raises(KeyboardInterrupt):
                run_decoder(request, 65, [[9]] * len(rows), rows)
        assert [s.state.shape for s in request.query_state()] == [(1, 4, 65, 128)] * 2
    for mine, theirs in zip(request.query_state(), other.query_state(), strict=True):
        np.testing.assert_array_equal(mine.state, theirs.state)
    np.testing.assert_array_equal(run_decoder(request, 65, [[4]]), run_decoder(other, 65, [[4]]))


def test_trimmed_rows_are_overwritten() -> None:
    request, other = wide_net().create_infer_request(), wide_net().create_infer_request()
    run_decoder(request, 0, [[1, 2] * 32 + [9, 9, 9]])
    request.trim_state(2, 64)
    run_decoder(other, 0, [[1, 2] * 32])
    np.testing.assert_allclose(
        run_decoder(request, 64, [[5]]), run_decoder(other, 64, [[5]]), atol=1e-4, rtol=1e-4
    )


def test_first_rows_are_dropped_where_they_are() -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1, 2] * 32 + [9, 9, 9]])
    whole = [s.state for s in request.query_state()]
    before = [v.ctypes.data for v in request.state_views()]
    request.drop_state(2, 3)
    for variable, value in zip(request.query_state(), whole, strict=True):
        np.testing.assert_array_equal(variable.state, value[:, :, 3:])
    assert [v.ctypes.data for v in request.state_views()] == before
    run_decoder(request, 64, [[5]])
    for variable, value in zip(request.query_state(), whole, strict=True):
        np.testing.assert_array_equal(variable.state[:, :, :64], value[:, :, 3:])
    with pytest.raises(irc.Error, match="cannot be shortened"):
        request.drop_state(9, 1)


def test_lengths_that_differ_are_refused() -> None:
    request = wide_net().create_infer_request()
    run_decoder(request, 0, [[1, 2, 3]])
    first = request.query_state()[0]
    first.state = first.state[:, :, :2]
    with pytest.raises(irc.Error):
        run_decoder(request, 3, [[4]])
