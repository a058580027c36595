"""Calibration data in every form, read in batches; and each way in which they can be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.model import PortInfo
from irc_compiler.quantization.samples import Samples

PORTS = (PortInfo("x", ("x",), ("N", 4), "f32"), PortInfo("ids", ("ids",), ("N",), "i64"))
FIXED = (PortInfo("x", ("x",), (2, 4), "f32"),)


def batch(rows: int = 8) -> dict[str, Any]:
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return {"x": x, "ids": np.arange(rows, dtype=np.int64)}


def shapes(samples: Samples) -> list[tuple[int, ...]]:
    return [each["x"].shape for each in samples]


def test_a_file_is_read_in_batches(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "data.npz", **batch(70))
    samples = Samples(tmp_path / "data.npz", PORTS)
    assert shapes(samples) == shapes(samples) == [(32, 4), (32, 4), (6, 4)]
    parts = list(samples)
    np.testing.assert_array_equal(np.concatenate([p["x"] for p in parts]), batch(70)["x"])
    np.testing.assert_array_equal(np.concatenate([p["ids"] for p in parts]), np.arange(70))


def test_batches_have_the_size_that_the_model_fixes(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=batch(9)["x"])
    assert shapes(Samples(tmp_path / "data.npz", FIXED)) == [(2, 4)] * 4


def test_a_folder_is_a_batch_per_file(tmp_path: Path) -> None:
    for number, rows in ((2, 5), (1, 7)):
        np.savez(tmp_path / f"{number}.npz", **batch(rows))
    assert shapes(Samples(str(tmp_path), PORTS)) == [(7, 4), (5, 4)]


def test_a_list_and_a_function() -> None:
    def batches() -> Iterator[dict[str, Any]]:
        yield batch()
        yield batch()

    for data in ([batch(), batch()], batches):
        samples = Samples(data, PORTS)
        assert samples.first().keys() == {"x", "ids"}
        assert shapes(samples) == shapes(samples) == [(8, 4)] * 2


def test_only_one_batch_is_held(tmp_path: Path) -> None:
    import tracemalloc

    rows = 20_000
    np.savez(tmp_path / "data.npz", x=np.zeros((rows, 64), np.float32))
    tracemalloc.start()
    for _ in Samples(tmp_path / "data.npz", (PortInfo("x", ("x",), ("N", 64), "f32"),)):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows * 64 * 4 / 4


def wrong(**changes: Any) -> list[dict[str, Any]]:
    made = {**batch(), **changes}
    return [{name: array for name, array in made.items() if array is not None}]


NAN = np.full((8, 4), 1, np.float32)
NAN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wrong(y=np.zeros(1)), "an array that no input takes"),
        (wrong(ids=None), "lacks an input"),
        (wrong(x=np.zeros((8, 5), np.float32)), "another shape"),
        (wrong(x=np.zeros((8,), np.float32)), "another shape"),
        (wrong(x=np.zeros((8, 4))), "another type"),
        (
            wrong(x=NAN),
            r"NaN or infinity\n  where: calibration batch 0, input 'x', element \[3, 2\]",
        ),
        ([np.zeros(3)], "is not a dictionary"),
        ([], "too few calibration samples"),
        ([batch(3)], "too few calibration samples\n  got: 3 samples"),
        (lambda: [], "too few calibration samples"),
    ],
)
def test_wrong_batches(data: Any, message: str) -> None:
    with pytest.raises(irc.InputError, match=message):
        Samples(data, PORTS).first()


def test_a_later_batch_is_checked_too() -> None:
    with pytest.raises(irc.InputError, match="calibration batch 1"):
        list(Samples([batch(), batch() | {"x": NAN}], PORTS))


def test_an_iterator_can_be_read_once() -> None:
    with pytest.raises(irc.UsageError, match="an iterator can be read once"):
        Samples(iter([batch()]), PORTS).first()


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no zip")
    np.savez(tmp_path / "uneven.npz", x=np.zeros((3, 4), np.float32), ids=np.zeros(4, np.int64))
    np.savez(tmp_path / "few.npz", **batch(3))
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("text.npz", "cannot be read"),
        ("missing.npz", "cannot be read"),
        ("uneven.npz", "different numbers of rows"),
        ("few.npz", "too few calibration samples"),
        ("objects.npz", "cannot be read"),
        ("empty", "holds no .npz files"),
    ):
        with pytest.raises(irc.Error, match=message):
            Samples(tmp_path / name, PORTS).first()
