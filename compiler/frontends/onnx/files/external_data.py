"""Tensors stored in files next to the model: never outside its folder, read into memory we own.

The location is the model file's own word, so nothing of it is trusted: the path has to be relative
and plain, and what it leads to, after all links, a regular file within the model's folder
(folder_files.py). Only the parts of a file that tensors refer to are read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .....ir.errors import Error, ModelFormatError
from .....ir.op import Array
from ...xml.file_parts import FileParts
from ...xml.source import OpenFile
from ...xml.text import shorten_text
from .folder_files import LeavesFolderError, open_inside

if TYPE_CHECKING:
    from onnx import TensorProto

_MAX_DIGITS = 20


@dataclass
class ExternalData:
    """The files next to one model, each read once. `folder` None: the model is not a file."""

    folder: str | None
    max_memory: int | None = None
    _files: dict[str, FileParts] = field(default_factory=dict[str, FileParts])

    def read(self, tensor: TensorProto, needed: int, where: str) -> Array:
        """The bytes of a tensor, `needed` by its shape and type. ModelFormatError otherwise."""
        entries = _entries(tensor, where)
        data = self._file(entries.get("location", ""), where)
        offset = _read_number(entries, "offset", 0, where)
        length = _read_number(entries, "length", max(data.size - offset, 0), where)
        if offset > data.size or length > data.size - offset:
            raise ModelFormatError(
                "external data lies outside its file",
                where=where,
                got=f"offset {offset}, length {length}, file of {data.size} bytes",
                expected=f"offset + length at most {data.size}",
                fix="check that the file was copied in full",
            )
        if length != needed and ("length" in entries or length < needed):
            raise ModelFormatError(
                "external data has the wrong size for its shape and type",
                where=where,
                got=f"{length} bytes",
                expected=f"{needed} bytes",
            )
        try:
            return data.part(offset, offset + needed)
        except Error as error:
            raise _add_tensor_name(error, where) from error

    def expect(self, tensors: Iterable[TensorProto]) -> None:
        """Announce tensors that will be read, so that neighbours are read together. What is wrong
        with one of them is an error when it is read."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        for tensor in tensors:
            found = {e.key: e.value for e in tensor.external_data}
            numbers = found.get("offset", "0"), found.get("length", "")
            if found.get("location") and all(map(_is_number, numbers)):
                first = int(numbers[0])
                ranges.setdefault(found["location"], []).append((first, first + int(numbers[1])))
        for location, wanted in ranges.items():
            with contextlib.suppress(ModelFormatError):
                self._file(location, "initialisers").expect(wanted)

    def close(self) -> None:
        """Close the files; what was read stays."""
        for parts in self._files.values():
            parts.close()

    def _file(self, location: str, where: str) -> FileParts:
        if location not in self._files:
            folder = self._check(location, where)
            path, what = os.path.join(folder, location), f"external data {shorten_text(location)}"
            try:
                file = OpenFile(path, what, opener=lambda: open_inside(folder, location))
            except LeavesFolderError as error:
                raise _refuse(
                    location,
                    where,
                    "is a link out of the model's folder",
                    "copy the file itself next to the model",
                ) from error
            except Error as error:
                raise _add_tensor_name(error, where) from error
            self._files[location] = FileParts(file, self.max_memory)
        return self._files[location]

    def _check(self, location: str, where: str) -> str:
        """The folder. ModelFormatError where a location is not relative and plain."""
        if self.folder is None:
            raise _refuse(
                location,
                where,
                "is needed, but the model was not read from a file",
                "pass the model's path",
            )
        if not location:
            raise _refuse(location, where, "has no location")
        if "\0" in location:
            raise _refuse(location, where, "has a NUL in its location")
        parts = location.replace("\\", "/").split("/")
        if os.path.isabs(location) or parts[0] == "" or ":" in parts[0]:
            raise _refuse(location, where, "has an absolute location")
        if ".." in parts:
            raise _refuse(location, where, "climbs out of the model's folder")
        return self.folder


def _refuse(location: str, where: str, reason: str, fix: str | None = None) -> ModelFormatError:
    return ModelFormatError(
        f"external data {reason}",
        where=where,
        got=shorten_text(location),
        expected="a relative path of a file inside the model's folder",
        fix=fix,
    )


def _add_tensor_name(error: Error, where: str) -> Error:
    """The same error, which says of what tensor the file is."""
    origin = f"{where}: {error.where}"
    return type(error)(
        error.what, where=origin, got=error.got, expected=error.expected, fix=error.fix
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _entries(tensor: TensorProto, where: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            raise ModelFormatError(
                "external data says one thing twice", where=where, got=shorten_text(entry.key)
            )
        entries[entry.key] = entry.value
    return entries


def _read_number(entries: dict[str, str], name: str, default: int, where: str) -> int:
    text = entries.get(name)
    if text is None:
        return default
    if not _is_number(text):
        raise ModelFormatError(
            f"the {name} of external data is not a number",
            where=where,
            got=shorten_text(text),
            expected="an unsigned decimal number",
        )
    return int(text)
