"""Placement: no two live buffers overlap, the peak is near the least possible; the limit."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from irc_compiler.ir.errors import MemoryLimitError
from irc_compiler.ir.limits.host_memory import default_max_memory, memory_limit
from irc_compiler.ir.limits.memory_budget import text_bytes, value_bytes
from irc_compiler.runtime.machine import memory_planner
from irc_compiler.runtime.machine.memory_planner import (
    ALIGN_BYTES,
    Placement,
    aligned_bytes,
    check_limit,
    drop_file_pages,
    live_peak,
    place_buffers,
    round_up,
)

BUFFERS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 8)), max_size=60
)


def arrays(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 1] + table[:, 2]


def overlaps(p: Placement, sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> list[tuple]:
    found = []
    for a in range(len(sizes)):
        for b in range(a):
            together = first[a] <= last[b] and first[b] <= last[a]
            apart = (
                p.offsets[a] + sizes[a] <= p.offsets[b] or p.offsets[b] + sizes[b] <= p.offsets[a]
            )
            if together and not apart and sizes[a] and sizes[b]:
                found.append((a, b))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("greedy", [4096, 0], ids=["greedy", "by steps"])
@given(BUFFERS)
@settings(max_examples=200, deadline=None)
def test_live_buffers_never_overlap(greedy: int, rows: list[tuple[int, int, int]]) -> None:
    sizes, first, last = arrays(rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory_planner, "MAX_GREEDY_BUFFERS", greedy)
        p = place_buffers(sizes, first, last)
    assert overlaps(p, sizes, first, last) == []
    assert all(o % ALIGN_BYTES == 0 for o in p.offsets)
    assert p.peak == max(
        (int(o + round_up(s)) for o, s in zip(p.offsets, sizes, strict=True)), default=0
    )
    assert p.peak >= live_peak(sizes, first, last)


@pytest.mark.parametrize("pattern", ["chain", "skips", "all at once"])
def test_many_buffers_are_not_compared_with_one_another(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is allocated and freed once, and the peak stays near the least possible."""
    count, rng = 20_000, np.random.default_rng(1)
    first = np.arange(count)
    spans = {
        "chain": np.ones(count, np.int64),
        "skips": np.where(rng.random(count) < 0.2, rng.integers(1, 300, count), 1),
        "all at once": np.full(count, count),
    }
    last = np.minimum(first + spans[pattern], count - 1)
    sizes = rng.choice([1000, 4000, 64_000], count)
    taken, take = 0, memory_planner.FreeRanges.take

    def counted(self: memory_planner.FreeRanges, size: int) -> int:
        nonlocal taken
        taken += 1
        return take(self, size)

    monkeypatch.setattr(memory_planner, "_place_in_order", None)
    monkeypatch.setattr(memory_planner.FreeRanges, "take", counted)
    p = place_buffers(sizes, first, last)
    assert taken == 2 * count
    assert p.peak <= 1.15 * live_peak(sizes, first, last)


@pytest.mark.parametrize("span", [1, 40, 5000], ids=["brief", "longer", "any"])
def test_thousands_of_live_buffers_never_overlap(span: int) -> None:
    """Above the limit of the greedy placement, with empty buffers and equal sizes among them."""
    count, steps, rng = memory_planner.MAX_GREEDY_BUFFERS + 900, 5000, np.random.default_rng(span)
    sizes = np.where(rng.random(count) < 0.5, rng.integers(0, 1 << 20, count), 64)
    sizes[rng.random(count) < 0.1] = 0
    first = rng.integers(0, steps, count)
    last = first + rng.integers(0, span, count)
    p = place_buffers(sizes, first, last)
    assert (p.offsets % ALIGN_BYTES == 0).all() and (p.offsets >= 0).all()
    assert p.peak == (p.offsets + round_up(sizes)).max()
    for a in range(1, count):
        together = (first[a] <= last[:a]) & (first[:a] <= last[a])
        over = (p.offsets[a] < p.offsets[:a] + sizes[:a]) & (
            p.offsets[:a] < p.offsets[a] + sizes[a]
        )
        assert not (together & over & (sizes[:a] > 0) & (sizes[a] > 0)).any()


@given(BUFFERS, st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_a_placement_serves_smaller_sizes(rows: list[tuple[int, int, int]], seed: int) -> None:
    sizes, first, last = arrays(rows)
    p = place_buffers(sizes, first, last)
    smaller = np.random.default_rng(seed).integers(0, sizes + 1)
    assert p.fits(smaller)
    assert overlaps(p, smaller, first, last) == []
    if len(sizes):
        larger = sizes.copy()
        larger[0] = round_up(larger[0]) + 1
        assert not p.fits(larger)


@given(BUFFERS)
@settings(max_examples=50, deadline=None)
def test_live_peak_is_the_largest_live_set(rows: list[tuple[int, int, int]]) -> None:
    sizes, first, last = arrays(rows)
    by_step = [
        sum(int(round_up(s)) for s, f, t in zip(sizes, first, last, strict=True) if f <= step <= t)
        for step in range(40)
    ]
    assert live_peak(sizes, first, last) == max(by_step)


def encoder(layers: int, tokens: int, width: int, heads: int) -> list[tuple[int, int, int]]:
    """Buffers of a transformer encoder: (bytes, first, last - first)."""
    rows, step = [], 0
    hidden, wide, scores = tokens * width * 4, tokens * width * 16, heads * tokens * tokens * 4
    for _ in range(layers):
        rows += [(hidden, step, 3)] * 3 + [(scores, step + 1, 1), (scores, step + 2, 1)]
        rows += [(hidden, step + 3, 1), (hidden, step + 4, 3), (wide, step + 5, 1)]
        rows += [(hidden, step + 6, 1), (hidden, step + 7, 9)]
        step += 8
    return rows


def residual_network(blocks: int) -> list[tuple[int, int, int]]:
    rows, step, size = [(12_000_000, 0, 1), (3_000_000, 1, 4)], 1, 3_000_000
    for block in range(blocks):
        if block % 3 == 2:
            size //= 2
        rows += [(size // 4, step, 1), (size // 4, step + 1, 1), (size, step + 2, 4)]
        step += 3
    return rows


@pytest.mark.parametrize(
    "rows",
    [
        encoder(12, 128, 768, 12),
        encoder(6, 32, 384, 12),
        encoder(12, 7, 768, 12),
        residual_network(16),
        [(1 << 20, s, 1) for s in range(200)],
    ],
)
def test_the_peak_is_within_a_tenth_of_the_largest_live_set(rows: list) -> None:
    sizes, first, last = arrays(rows)
    assert place_buffers(sizes, first, last).peak <= 1.1 * live_peak(sizes, first, last)


def test_placement_is_the_same_each_time() -> None:
    sizes, first, last = arrays(encoder(4, 33, 64, 4))
    assert (
        place_buffers(sizes, first, last).offsets == place_buffers(sizes, first, last).offsets
    ).all()


def test_nothing_to_place() -> None:
    assert place_buffers(*arrays([])).peak == 0
    assert place_buffers(*arrays([(0, 0, 3), (0, 1, 1)])).peak == 0


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4097])
def test_aligned_bytes(size: int) -> None:
    a = aligned_bytes(size)
    assert len(a) == size and (size == 0 or a.ctypes.data % ALIGN_BYTES == 0)


def test_strings_are_measured_once() -> None:
    long, short = "x" * 1000, "y" * 10
    array = np.array([long, long, short, long], object)
    assert 1010 < text_bytes(array) < 1200
    assert text_bytes([array, {"k": array, "l": long}]) == text_bytes(array)
    assert text_bytes(np.zeros(1000)) == text_bytes(None) == 0


def test_a_few_short_strings_are_measured_from_above() -> None:
    texts = ["", "x", "é", "ж" * 20, "\U0001f600" * 9, "plain ASCII", b"bytes"]
    for text in texts:
        str(text).encode()  # non-ASCII text keeps this
    array = np.array(texts * 3, object)
    least = array.nbytes + text_bytes(array)
    assert least <= value_bytes(array) <= array.nbytes + 160 * array.size
    # Many, long ones, and other objects are measured as they are.
    for exact in (np.array(["ab"] * 5000, object), np.array(["x" * 1_000_000] * 9, object)):
        assert value_bytes(exact) == exact.nbytes + text_bytes(exact)
    numbers = np.array([None, 1.5, "x"], object)
    assert value_bytes(numbers) == numbers.nbytes + text_bytes(numbers)


def test_maps_of_numbers_take_no_arrays() -> None:
    maps = [{"a": 1.5, "b": 2}, {}, {7: "text", 8: True}]
    assert value_bytes(maps) == 0
    assert value_bytes([*maps, {"c": np.zeros(10)}]) == 80
    assert value_bytes([{"c": [np.zeros(10)]}]) == 80


def test_the_limit_names_the_largest() -> None:
    check_limit(100, 100, [])
    with pytest.raises(MemoryLimitError) as e:
        check_limit(3 << 30, 1 << 30, [("scores", 2 << 30), ("hidden", 1 << 30)], "region 0")
    assert "scores (2 GiB)" in str(e.value) and "max_memory" in str(e.value)


def test_the_default_limit_is_a_share_of_what_there_is() -> None:
    assert 0 < default_max_memory() < memory_limit()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="not run: needs Linux's smaps")
def test_pages_of_files_that_were_read_are_given_back(tmp_path: Path) -> None:
    """But those of a mapping that was written to stay."""
    path = tmp_path / "pages.bin"
    path.write_bytes(bytes(range(256)) * 256)
    with path.open("r+b") as file:
        maps = [mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) for _ in range(2)]
        written = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    written[0] = 7
    assert all(m[0] == 0 for m in maps)
    assert 1 <= drop_file_pages("pages.bin") <= 2  # neighbours with equal rights may be one
    assert _resident_kib("pages.bin", "r--p") == 0 < _resident_kib("pages.bin", "rw-p")
    assert all(m[257] == 1 for m in maps) and written[0] == 7
    assert drop_file_pages("no such file") == 0


def _resident_kib(name: str, access: str) -> int:
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            counts = name in line and f" {access} " in line
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total
