"""A picture in Graphviz's DOT language."""

from __future__ import annotations

import json

from ...ir.escape import escape_text
from .picture import Picture
from .svg import COLOURS


def as_dot(picture: Picture) -> str:
    """A digraph: operations as boxes with name and type, edges labelled with the type."""
    lines = [
        f"digraph {_quote(picture.stage)} {{",
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10]',
        '  edge [fontname="monospace", fontsize=8]',
    ]
    for number, box in enumerate(picture.boxes):
        fill, stroke = COLOURS[box.kind]
        label = _quote("\n".join(box.lines))
        lines.append(f'  n{number} [label={label}, fillcolor="{fill}", color="{stroke}"]')
    for source, target, type_ in picture.edges:
        lines.append(f"  n{source} -> n{target} [label={_quote(type_)}]")
    return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    return json.dumps("\n".join(map(escape_text, text.split("\n"))), ensure_ascii=False)
