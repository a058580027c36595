"""Headers of safetensors files, checked before a tensor is read.

Format: 8 bytes with the header's length, JSON (name -> dtype, shape, data_offsets), then the data.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, cast

import numpy as np

from ...compiler.frontends.xml.source import FileState, OpenFile, record_files
from ...ir.dtype import DType
from ...ir.errors import ModelFormatError, UnsupportedOperationError
from ...ir.op import Array
from .stored_tensor import StoredTensor

_MAX_HEADER_BYTES = 100 << 20
_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": DType.bf16.numpy,
}  # fmt: skip


class SafetensorsFile:
    """An open file: `tensors` by name."""

    def __init__(self, path: str | os.PathLike[str], *, max_memory: int | None = None) -> None:
        self.path = os.fspath(path)
        with record_files() as files:
            self._file = OpenFile(path, "the safetensors file", max_memory=max_memory)
        self.files: tuple[FileState, ...] = tuple(files)
        try:
            self.tensors = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def read(self, name: str) -> Array:
        """A tensor of f32, f16 or bf16, read-only."""
        tensor = self.tensors[name]
        dtype = _DTYPES.get(tensor.kind)
        if dtype is None:
            raise UnsupportedOperationError(
                "a tensor has a type that language models of irc do not have",
                where=f"{self.path!r}, {name[:80]}",
                got=tensor.kind[:20],
                expected=", ".join(_DTYPES),
            )
        if tensor.last - tensor.first != math.prod(tensor.shape) * dtype.itemsize:
            raise self._fail(
                f"the bytes of {name[:80]!r} are not those of its shape",
                tensor.last - tensor.first,
                f"{tensor.kind}{list(tensor.shape)}",
            )
        return self._file.part(tensor.first, tensor.last).view(dtype).reshape(tensor.shape)

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._file.close()

    def _fail(self, what: str, got: object = None, expected: object = None) -> ModelFormatError:
        return ModelFormatError(what, where=repr(self.path), got=got, expected=expected)

    def _read_header(self) -> dict[str, StoredTensor]:
        if self._file.size < 8:
            raise self._fail("the file is too short", f"{self._file.size} bytes", "8 or more")
        size = int.from_bytes(self._file.part(0, 8).tobytes(), "little")
        most = min(self._file.size - 8, _MAX_HEADER_BYTES)
        if size > most:
            raise self._fail("the header is longer than the file", size, f"at most {most}")
        try:
            header = json.loads(self._file.part(8, 8 + size).tobytes())
        except (ValueError, RecursionError) as error:
            raise self._fail("the header is not JSON", str(error)[:120], "an object") from error
        if not isinstance(header, dict):
            raise self._fail("the header is not an object", type(header).__name__, "an object")
        records = cast("dict[str, Any]", header)
        records.pop("__metadata__", None)
        found = {k: self._tensor(k, v, 8 + size) for k, v in records.items()}
        order = sorted(found.values(), key=lambda t: t.first)
        for before, after in zip(order, order[1:], strict=False):
            if after.first < before.last:
                names = f"{before.name[:80]!r} and {after.name[:80]!r}"
                raise self._fail("two tensors overlap", names, "tensors one after another")
        return found

    def _tensor(self, name: str, record: Any, start: int) -> StoredTensor:
        try:
            kind, shape = record["dtype"], tuple(record["shape"])
            first, last = record["data_offsets"]
        except (KeyError, TypeError, ValueError) as error:
            expected = "dtype, shape and data_offsets"
            raise self._fail(f"tensor {name[:80]!r} is not described", None, expected) from error
        numbers = (first, last, *shape)
        if not isinstance(kind, str) or not all(type(n) is int and n >= 0 for n in numbers):
            raise self._fail(
                f"tensor {name[:80]!r} is described wrongly", str(record)[:80], "sizes"
            )
        if not first <= last <= self._file.size - start:
            got, most = f"{first} to {last}", self._file.size - start
            raise self._fail(f"tensor {name[:80]!r} lies outside the file", got, f"0 to {most}")
        return StoredTensor(name, kind, shape, start + first, start + last)
