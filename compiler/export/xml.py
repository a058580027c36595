"""IR version 11 as OpenVINO writes it: the file that OpenVINO, irc and viewers read."""

from __future__ import annotations

import io
import os
import re
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...ir.errors import UnsupportedOperationError
from ...ir.graph import Graph
from ..frontends.xml.text import shorten_text
from .attribute_format import escape
from .compress_fp16 import compress_weights
from .constants import WeightsWriter
from .decompose import decompose
from .files import replace_files
from .layers import NetWriter

# libxml2 refuses attributes of 10 MB, unless huge_tree is set. A character takes at
# most 6 bytes ("&quot;").
_MAX_VALUE_BYTES = 9_000_000
_MAX_VALUE_CHARS = _MAX_VALUE_BYTES // 6
_TAG = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


def write_xml(
    graph: Graph,
    xml_path: str | PathLike[str],
    bin_path: str | PathLike[str] | None = None,
    *,
    compress_to_fp16: bool = False,
    dialect: bool = False,
) -> None:
    """Save an inferred graph as .xml and .bin (by default of the same name next to it).

    Writes standard operation sets only, unless `dialect` keeps irc's own operations as
    version="irc". `compress_to_fp16` stores float weights as f16 with a Convert behind them. Both
    files are replaced whole or not at all; the graph itself is not changed.

    Raises UnsupportedOperationError where the graph has no standard form, Error where the files
    cannot be written.
    """
    xml = Path(os.fspath(xml_path))
    weights = xml.with_suffix(".bin") if bin_path is None else Path(os.fspath(bin_path))
    with replace_files(weights, xml) as (bin_stream, xml_stream):
        text, _ = write_net(graph, bin_stream, compress_to_fp16=compress_to_fp16, dialect=dialect)
        xml_stream.write(text.encode())


def to_xml_text(
    graph: Graph, *, compress_to_fp16: bool = False, dialect: bool = False
) -> tuple[str, bytes]:
    """The text of the .xml and the content of the .bin; arguments and errors as `write_xml`."""
    stream = io.BytesIO()
    text, _ = write_net(graph, stream, compress_to_fp16=compress_to_fp16, dialect=dialect)
    return text, stream.getvalue()


def write_net(
    graph: Graph, stream: BinaryIO, *, compress_to_fp16: bool = False, dialect: bool = False
) -> tuple[str, WeightsWriter]:
    """Write the content of the .bin to a stream; arguments and errors as `write_xml`.

    Returns the text of the .xml, and the weights: where in the stream each constant lies.
    """
    if not dialect:
        graph = decompose(graph)
    if compress_to_fp16:
        graph = graph.copy()
        compress_weights(graph)
    weights = WeightsWriter(stream)
    writer = NetWriter(weights, dialect=dialect)
    writer.open("net", {"name": graph.name, "version": "11"})
    writer.net(graph)
    write_tree(writer, "rt_info", graph.rt_info)
    writer.close("net")
    return '<?xml version="1.0"?>\n' + "\n".join(writer.lines) + "\n", weights


def write_tree(writer: NetWriter, tag: str, tree: dict[str, Any]) -> None:
    """A tree of rt_info: leaves have a value; a key that is not a legal tag is an `info`
    element."""
    _write_element(writer, tag, {}, tree)


def _write_element(writer: NetWriter, tag: str, head: dict[str, str], tree: dict[str, Any]) -> None:
    if not tree:
        writer.element(tag, head)
        return
    writer.open(tag, head)
    for key, value in tree.items():
        legal = _TAG.fullmatch(key) is not None and key != "info"
        inner_tag, inner = (key, {}) if legal else ("info", {"name": key})
        if isinstance(value, dict):
            _write_element(writer, inner_tag, inner, cast("dict[str, Any]", value))
        else:
            writer.element(inner_tag, inner | {"value": _readable(key, str(value))})
    writer.close(tag)


def _readable(key: str, value: str) -> str:
    """A value of rt_info. UnsupportedOperationError where no reader would accept its length."""
    if len(value) > _MAX_VALUE_CHARS and len(escape(value).encode()) > _MAX_VALUE_BYTES:
        raise UnsupportedOperationError(
            "a metadata value is too long for XML",
            where=shorten_text(key),
            got=f"{len(value)} characters",
            expected=f"at most {_MAX_VALUE_BYTES} bytes of UTF-8",
            fix="remove it from the model's metadata_props",
        )
    return value
