"""Tensors stored in files beside the model: never outside its folder, read into memory we own.

The place is the model file's own word, so nothing of it is trusted: the path has to be relative
and plain, and what it leads to, after all links, a regular file within the model's folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....ir.errors import Error, ModelFormatError
from ....ir.op import Array
from ..xml.source import read_file
from ..xml.text import short

if TYPE_CHECKING:
    from onnx import TensorProto

_MAX_DIGITS = 20


@dataclass
class ExternalData:
    """The files beside one model, each read once. `folder` None: the model is not a file."""

    folder: str | None
    max_memory: int | None = None
    _files: dict[str, Array] = field(default_factory=dict[str, Array])

    def read(self, tensor: TensorProto, needed: int, where: str) -> Array:
        """The bytes of a tensor, `needed` by its shape and type. ModelFormatError otherwise."""
        entries = _entries(tensor, where)
        data = self._file(entries.get("location", ""), where)
        offset = _number(entries, "offset", 0, where)
        length = _number(entries, "length", max(data.size - offset, 0), where)
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
        return data[offset : offset + needed]

    def _file(self, location: str, where: str) -> Array:
        path = self._path(location, where)
        if path not in self._files:
            what = f"external data {short(location)}"
            try:
                self._files[path] = read_file(path, what, max_memory=self.max_memory)
            except Error as error:
                place = f"{where}: {error.where}"
                raise type(error)(
                    error.what, where=place, got=error.got, expected=error.expected, fix=error.fix
                ) from error
        return self._files[path]

    def _path(self, location: str, where: str) -> str:
        """The real path of a location. ModelFormatError where it is not inside the folder."""

        def refuse(reason: str, fix: str | None = None) -> ModelFormatError:
            return ModelFormatError(
                f"external data {reason}",
                where=where,
                got=short(location),
                expected="a relative path of a file inside the model's folder",
                fix=fix,
            )

        if self.folder is None:
            raise refuse(
                "is needed, but the model was not read from a file", "pass the model's path"
            )
        if not location:
            raise refuse("has no location")
        if "\0" in location:
            raise refuse("has a NUL in its location")
        parts = location.replace("\\", "/").split("/")
        if os.path.isabs(location) or parts[0] == "" or ":" in parts[0]:
            raise refuse("has an absolute location")
        if ".." in parts:
            raise refuse("climbs out of the model's folder")
        folder = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(folder, *location.split("/")))
        if os.path.commonpath([folder, path]) != folder or path == folder:
            raise refuse(
                "is a link out of the model's folder", "copy the file itself beside the model"
            )
        return path


def _entries(tensor: TensorProto, where: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            raise ModelFormatError(
                "external data says one thing twice", where=where, got=short(entry.key)
            )
        entries[entry.key] = entry.value
    return entries


def _number(entries: dict[str, str], name: str, default: int, where: str) -> int:
    text = entries.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ModelFormatError(
            f"the {name} of external data is no number",
            where=where,
            got=short(text),
            expected="an unsigned decimal number",
        )
    return int(text)
