"""One self-contained HTML page that shows a graph before and after each pass. No network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ...ir.escape import escape_text
from ..formatting import format_microseconds
from .picture import Box, Picture
from .svg import COLOURS, STYLE, content

# Stages that show a body of control flow begin so.
INSIDE = "inside "
_HERE = Path(__file__).parent


def as_page(
    title: str,
    stages: Sequence[tuple[str, Picture | None]],
    times: Mapping[str, tuple[float, float]] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> str:
    """stages: name and picture in order; None where a pass changed nothing. times: microseconds
    and share of the total of the step that computes an operation, by the operation's name.
    reasons: why an operation runs in Python, by its name; None where that is unknown."""
    title = escape_text(title)
    described = [
        _stage(escape_text(name), picture, times or {}, reasons or {}) for name, picture in stages
    ]
    # "<" can't end the script element, nor open a comment in it.
    data = json.dumps(
        {"title": title, "python": None if reasons is None else bool(reasons), "stages": described}
    ).replace("<", "\\u003c")
    drawn = "".join(
        f'<template id="stage-{n}"><svg>{content(picture)}</svg></template>'
        for n, (_, picture) in enumerate(stages)
        if picture is not None
    )
    legend = '<span><i class="python"></i>runs in Python</span>' if reasons else ""
    legend += "".join(
        f'<span><i style="background:{fill};border-color:{stroke}"></i>{kind}</span>'
        for kind, (fill, stroke) in COLOURS.items()
    )
    style = (_HERE / "page.css").read_text(encoding="utf-8") + STYLE
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    head = '<path d="M0 0L8 4L0 8z" fill="#8b95a3"/>'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} - irc graph</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<input id="search" type="search" placeholder="Search by name or operation ( / )"
 aria-label="Search">
<span id="found" role="status"></span>
<button id="fit" title="Show the whole graph (f)">Fit</button>
<button id="in" title="Zoom in (+)">+</button>
<button id="out" title="Zoom out (-)">&minus;</button>
<div id="legend">{legend}</div>
</header>
<nav id="stages" aria-label="Passes"><h2>Passes ( [ ] )</h2>
<p>Small and grey: no change.</p></nav>
<main id="view"><svg id="graph" xmlns="http://www.w3.org/2000/svg"><defs><marker id="head"
 viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto" markerUnits="userSpaceOnUse">{head}</marker>
</defs></svg></main>
<aside id="panel"></aside>
{drawn}
<script id="data" type="application/json">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def _stage(
    name: str,
    picture: Picture | None,
    times: Mapping[str, tuple[float, float]],
    reasons: Mapping[str, str],
) -> dict[str, Any]:
    if picture is None:
        return {
            "name": name,
            "note": "no change",
            "same": True,
            "body": False,
            "boxes": [],
            "changes": [],
        }
    note = f"{len(picture.boxes)} operations"
    if picture.changes:
        note += f", {len(picture.changes)} rewrite{'s' * (len(picture.changes) > 1)}"
    return {
        "name": name,
        "note": note,
        "same": False,
        "body": name.startswith(INSIDE),
        "width": round(picture.layout.width),
        "height": round(picture.layout.height),
        "boxes": [_box(b, times, reasons) for b in picture.boxes],
        "changes": picture.changes,
    }


def _box(
    box: Box, times: Mapping[str, tuple[float, float]], reasons: Mapping[str, str]
) -> dict[str, Any]:
    names = (box.name, *map(escape_text, box.sources))
    why = next((r for n, r in reasons.items() if escape_text(n) in names), "")
    found = next((times[s] for s in box.sources if s in times), None)
    words = escape_text(" ".join((box.title, box.name, *box.sources))).lower()
    return {
        "title": box.title,
        "label": box.name,
        "details": box.details,
        "words": words,
        "time": None
        if found is None
        else f"{format_microseconds(found[0])}, {found[1]:.1%} of the run",
        "python": escape_text(why),
        "share": 0 if found is None else found[1],
    }
