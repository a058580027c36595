"""Calibration data: batches, read one at a time and checked before the model runs.

A batch is a dictionary of arrays by input name. Data are an .npz file (arrays with one sample per
row, cut into batches), a folder (each .npz file is a batch, in the order of names), a list of
batches, or a function that returns an iterator of batches. All are read several times.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np

from ..compiler.model import PortInfo
from ..ir.errors import Error, InputError, InputFileError, UsageError
from ..ir.op import Array

Batch: TypeAlias = Mapping[str, Array]
Data: TypeAlias = (
    "str | os.PathLike[str] | Sequence[Batch] | Callable[[], Iterable[Batch]] | Iterable[Batch]"
)
# Samples in one batch of an .npz file, where the model does not fix it.
BATCH_ROWS = 32
MIN_SAMPLES = 8
_EXPECTED = (
    "an .npz file, a folder of .npz files, a list of batches, or a function that returns one"
)


@dataclass(frozen=True)
class Samples:
    """Calibration data of a model with these inputs. Each iteration reads them again."""

    data: Any
    ports: tuple[PortInfo, ...]
    min_samples: int = MIN_SAMPLES

    def __iter__(self) -> Iterator[dict[str, Array]]:
        count, batches = 0, 0
        for batch in self._raw():
            checked = self._check(batch, batches)
            first = next(iter(checked.values()))
            count += len(first) if first.ndim else 1
            batches += 1
            yield checked
        if count < self.min_samples:
            raise too_few_error(count, self.min_samples, self.data)

    def first(self) -> dict[str, Array]:
        """The first batch, checked: what can be wrong of data is mostly wrong there. A file that
        holds too few rows is refused here, too."""
        if isinstance(self.data, str | os.PathLike):
            path = Path(cast("str", self.data))
            rows = _count_rows(path) if path.is_file() else None
            if rows is not None and rows < self.min_samples:
                raise too_few_error(rows, self.min_samples, self.data)
        elif isinstance(self.data, list | tuple) and self.data:
            listed = cast("Sequence[Any]", self.data)
            if len(listed) < self.min_samples:
                for _ in self:
                    pass
        for batch in self._raw():
            return self._check(batch, 0)
        raise too_few_error(0, self.min_samples, self.data)

    def _raw(self) -> Iterator[Any]:
        data: Any = self.data
        if isinstance(data, str | os.PathLike):
            return _read_path(Path(cast("str", data)), self.ports)
        if callable(data):
            data = data()
        elif iter(data) is data:
            raise UsageError(
                "calibration data are read several times, and an iterator can be read once",
                got=type(data).__name__,
                expected=_EXPECTED,
            )
        return iter(data)

    def _check(self, batch: Any, number: int) -> dict[str, Array]:
        where = f"calibration batch {number}"
        if not isinstance(batch, Mapping):
            raise InputError(
                "a calibration batch is not a dictionary",
                where=where,
                got=type(batch).__name__,
                expected="arrays by input name",
            )
        given = cast("Mapping[str, Any]", batch)
        return {
            port.name: _check_array(port, given, where) for port in self._complete(given, where)
        }

    def _complete(self, given: Mapping[str, Any], where: str) -> tuple[PortInfo, ...]:
        known = {name for port in self.ports for name in (port.name, *port.names)}
        unknown = sorted(set(given) - known)
        missing = [p.name for p in self.ports if not {p.name, *p.names} & set(given)]
        if unknown or missing:
            raise InputError(
                "a calibration batch has an array that no input takes"
                if unknown
                else "a calibration batch lacks an input",
                where=where,
                got=", ".join(unknown or map(str, given)) or "no arrays",
                expected=", ".join(p.name for p in self.ports),
            )
        return self.ports


def too_few_error(count: int, least: int, data: Any) -> InputError:
    """The error for too few calibration samples."""
    return InputError(
        "there are too few calibration samples",
        where=os.fspath(data) if isinstance(data, str | os.PathLike) else None,
        got=f"{count} samples",
        expected=f"at least {least}; some hundreds are usual",
        fix="add samples, or lower min_samples (--min-samples)",
    )


def _check_array(port: PortInfo, given: Mapping[str, Any], where: str) -> Array:
    name = next(n for n in (port.name, *port.names) if n in given)
    array = np.asarray(given[name])
    where = f"{where}, input {port.name!r}"
    shape = port.shape
    if shape is not None and (
        len(shape) != array.ndim
        or any(isinstance(d, int) and d != n for d, n in zip(shape, array.shape, strict=True))
    ):
        raise InputError(
            "a calibration array has another shape than the input",
            where=where,
            got=list(array.shape),
            expected=f"[{', '.join(map(str, shape))}]",
        )
    if array.dtype.name != _dtype_name(port.dtype):
        raise InputError(
            "a calibration array has another type than the input",
            where=where,
            got=array.dtype.name,
            expected=_dtype_name(port.dtype),
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        at = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise InputError(
            "a calibration array holds NaN or infinity",
            where=f"{where}, element {[int(i) for i in at]}",
            got=float(array[at]),
            expected="finite numbers",
        )
    return array


def _dtype_name(dtype: str) -> str:
    from ..ir.dtype import DType

    return np.dtype(DType(dtype).numpy).name


def _read_path(path: Path, ports: Sequence[PortInfo]) -> Iterator[dict[str, Array]]:
    if path.is_dir():
        files = sorted(path.glob("*.npz"))
        if not files:
            raise InputFileError("the folder of calibration data holds no .npz files",
                                 where=str(path), expected=_EXPECTED)  # fmt: skip
        for file in files:
            yield from _read_rows(file, None, fixed=False)
        return
    sizes = [p.shape[0] for p in ports if p.shape and isinstance(p.shape[0], int)]
    yield from _read_rows(path, max(1, min(sizes, default=BATCH_ROWS)), fixed=bool(sizes))


def _count_rows(path: Path) -> int:
    """The rows of the arrays of an .npz file, which all have the same number."""
    with _Members(path) as members:
        return members.rows


def _read_rows(path: Path, rows: int | None, *, fixed: bool) -> Iterator[dict[str, Array]]:
    """The arrays of an .npz file, `rows` rows at a time (all, if None). fixed: fewer rows at the
    end are not a batch."""
    with _Members(path) as members:
        step = rows or max(1, members.rows)
        for start in range(0, members.rows, step):
            count = min(step, members.rows - start)
            if count == step or not fixed:
                yield members.read(start, count)


class _Members:
    """An .npz file whose arrays are read some rows at a time; objects are never unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays: dict[str, tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]] = {}
        self.rows = 0

    def __enter__(self) -> _Members:
        try:
            self._zip = zipfile.ZipFile(self._path)
            for name in dict.fromkeys(self._zip.namelist()):
                self._arrays[name.removesuffix(".npy")] = self._open(name)
        except Error:
            raise
        except Exception as error:
            raise self._unreadable_error(str(error)) from error
        counts = {n: s[0] if s else 1 for n, (_, s, _) in self._arrays.items()}
        if len(set(counts.values())) != 1:
            raise InputFileError(
                "the arrays of a file of calibration data have different numbers of rows"
                if counts
                else "a file of calibration data holds no arrays",
                where=str(self._path),
                got=", ".join(f"{n}: {c}" for n, c in counts.items()) or None,
                expected="one row per sample in each",
            )
        self.rows = next(iter(counts.values()))
        return self

    def __exit__(self, *error: object) -> None:
        for stream, _, _ in self._arrays.values():
            stream.close()
        self._zip.close()

    def _open(self, name: str) -> tuple[IO[bytes], tuple[int, ...], np.dtype[Any]]:
        stream = self._zip.open(name)
        version = np.lib.format.read_magic(stream)
        reader: Any = np.lib.format.read_array_header_1_0
        reader = reader if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(stream)
        if dtype.hasobject or (fortran and len(shape) > 1):
            raise self._unreadable_error(
                f"{name}: {'objects' if dtype.hasobject else 'Fortran order'}"
            )
        return stream, tuple(shape), dtype

    def read(self, start: int, rows: int) -> dict[str, Array]:
        """The next rows of each array; calls go through the file once, in order."""
        found: dict[str, Array] = {}
        for name, (stream, shape, dtype) in self._arrays.items():
            part = (rows, *shape[1:]) if shape else shape
            size = int(np.prod(part, dtype=np.int64)) * dtype.itemsize
            data = stream.read(size)
            if len(data) < size:
                raise self._unreadable_error(f"{name} is cut short at row {start}")
            found[name] = np.frombuffer(data, dtype).reshape(part)
        return found

    def _unreadable_error(self, got: str) -> InputFileError:
        return InputFileError(
            "calibration data cannot be read",
            where=str(self._path),
            got=got[:200],
            expected="an .npz file as numpy.savez writes it of numbers in C order",
        )
