"""Predictor: batches of every kind, loaded once per process, and the sample on a local run."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api import predictor
from support.models.digits import DIGITS, arrays, two_outputs

X = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def wanted() -> Any:
    return irc.compile_model(DIGITS, num_threads=1)(X)[0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "pair.irc"
    irc.compile_model(two_outputs()).export(path)
    return path


def test_mappings_and_arrays(pair: Path, wanted: Any) -> None:
    predict = irc.Predictor(DIGITS)
    found = predict({"image": X, "label": np.arange(6)})  # other columns of a batch stay behind
    assert list(found) == ["probabilities"] and (found["probabilities"] == wanted).all()
    assert (predict(X) == wanted).all()
    a, b = arrays(5)
    found = irc.Predictor(pair)(a, b)
    assert list(found) == ["sum", "product"] and (found["product"] == a * b).all()
    with pytest.raises(irc.InputError, match="number of inputs"):
        irc.Predictor(pair)(a)
    with pytest.raises(irc.InputError, match="'b' is missing"):
        irc.Predictor(pair)({"a": a})


def test_types_are_cast_only_when_asked(wanted: Any) -> None:
    with pytest.raises(irc.InputError, match="element type"):
        irc.Predictor(DIGITS)(X.astype(np.float64))
    assert (irc.Predictor(DIGITS, cast=True)(X.astype(np.float64)) == wanted).all()
    assert irc.Predictor(DIGITS, cast=True)(X.astype(np.int8)).shape == (6, 10)
    with pytest.raises(irc.InputError, match="complex"):
        irc.Predictor(DIGITS, cast=True)(X.astype(np.complex64))


class Frame:
    """As much of pandas.DataFrame as the Predictor uses."""

    def __init__(self, data: dict[str, Any], index: Any = None) -> None:
        self._data, self.index = data, index

    @property
    def columns(self) -> list[str]:
        return list(self._data)

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def to_numpy(self) -> Any:
        return np.stack(list(self._data.values()), axis=1)


def rows_of(x: Any) -> Any:
    column = np.empty(len(x), object)
    column[:] = list(x)
    return column


def test_frames(pair: Path, wanted: Any) -> None:
    a, b = arrays(5)
    found = irc.Predictor(pair)(Frame({"b": b, "other": a, "a": a}, index="i"))
    assert isinstance(found, Frame) and found.index == "i"
    assert found.columns == ["sum", "product"] and (found["sum"] == a + b).all()
    features = Frame({f"pixel{n}": X[:, n] for n in range(64)})
    assert (np.stack(irc.Predictor(DIGITS)(features)["probabilities"]) == wanted).all()
    images = Frame({"image": rows_of(X)})
    assert (np.stack(irc.Predictor(DIGITS)(images)["probabilities"]) == wanted).all()
    assert irc.Predictor(DIGITS)(Frame({"image": rows_of(X[:0])}))["probabilities"] == []
    with pytest.raises(irc.InputError, match="a column is missing"):
        irc.Predictor(pair)(Frame({"a": a}))


def test_a_model_loads_once_per_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: Any
) -> None:
    made: list[object] = []

    def count(*args: Any, **options: Any) -> Any:
        made.append(args)
        return irc.compile_model(*args, **options)

    monkeypatch.setattr(predictor, "compile_model", count)
    monkeypatch.setattr(predictor, "_loaded", {})
    predicts = [pickle.loads(pickle.dumps(irc.Predictor(DIGITS))) for _ in range(4)]
    assert not made and len(pickle.dumps(predicts[0])) < 300
    workers = [threading.Thread(target=p, args=(X,)) for p in predicts]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(made) == 1 and (predicts[0](X) == wanted).all()
    irc.Predictor(DIGITS, num_threads=2)(X)
    assert len(made) == 2
    with pytest.raises(irc.UsageError):
        irc.Predictor(tmp_path / "none.irc")


def test_in_forked_processes(wanted: Any) -> None:
    """As Spark's and PyTorch's workers are: forked, after the parent has used the model."""
    predict = irc.Predictor(DIGITS)
    predict(X)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all((y == wanted).all() for y in pool.map_async(predict, [X] * 4).get(300))


def test_as_ray_calls_it(wanted: Any) -> None:
    """map_batches(irc.Predictor, fn_constructor_args=(path,)): the class, made in the actor from
    its arguments, takes a dict of NumPy batches and returns one with as many rows."""
    kind, arguments = pickle.loads(pickle.dumps((irc.Predictor, (str(DIGITS),))))
    found = kind(*arguments)({"image": X, "id": np.arange(len(X))})
    assert type(found) is dict and (found["probabilities"] == wanted).all()
    assert all(isinstance(y, np.ndarray) and len(y) == len(X) for y in found.values())


def test_as_spark_calls_it(wanted: Any, pair: Path) -> None:
    """predict_batch_udf(make, ...): `make` returns a function of one array per column, which
    returns an array, or a dict of arrays for a struct of several outputs."""
    one = functools.partial(irc.Predictor, str(DIGITS))()
    assert isinstance(one(X), np.ndarray) and (one(X) == wanted).all()
    a, b = arrays(5)
    several = functools.partial(irc.Predictor, str(pair))()(a, b)
    assert type(several) is dict and (several["sum"] == a + b).all()


def sample(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"irc_compiler.samples.{name}"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_sample_on_a_pool() -> None:
    assert re.match(r"352 of 360 digits right, 2 processes", sample("batch_inference"))
