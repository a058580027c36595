"""openvino.layout_helpers: layouts of ports, stored in rt_info as OpenVINO stores them."""

from __future__ import annotations

from typing import Any

from ...ir.graph import Node as Record
from .types import Layout


def read_layout(record: Record) -> Layout | None:
    """The layout of a Parameter or Result, or None."""
    entry = record.rt_info.get(_key(record))
    return None if entry is None else Layout(entry["layout"])


def write_layout(record: Record, layout: Layout) -> None:
    """Set the layout of a Parameter or Result."""
    record.rt_info[_key(record)] = {"layout": str(layout)}


def _key(record: Record) -> str:
    return "in:0/layout" if record.op.kind == "Result" else "out:0/layout"


def get_layout(port: Any) -> Layout:
    """The layout of an input or output."""
    return read_layout(port.node.record) or Layout()


def set_layout(port: Any, layout: Any) -> None:
    """Set the layout of an input or output."""
    write_layout(port.node.record, Layout(layout))


def has_batch(layout: Layout) -> bool:
    """Whether an axis is N."""
    return layout.has_name("N")


def batch_idx(layout: Layout) -> int:
    """The axis N."""
    return layout.get_index_by_name("N")


def has_channels(layout: Layout) -> bool:
    """Whether an axis is C."""
    return layout.has_name("C")


def channels_idx(layout: Layout) -> int:
    """The axis C."""
    return layout.get_index_by_name("C")


def has_depth(layout: Layout) -> bool:
    """Whether an axis is D."""
    return layout.has_name("D")


def depth_idx(layout: Layout) -> int:
    """The axis D."""
    return layout.get_index_by_name("D")


def has_height(layout: Layout) -> bool:
    """Whether an axis is H."""
    return layout.has_name("H")


def height_idx(layout: Layout) -> int:
    """The axis H."""
    return layout.get_index_by_name("H")


def has_width(layout: Layout) -> bool:
    """Whether an axis is W."""
    return layout.has_name("W")


def width_idx(layout: Layout) -> int:
    """The axis W."""
    return layout.get_index_by_name("W")
