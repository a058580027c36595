"""A picture as SVG: for a file of its own, and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...ir.escape import escape_text
from .layout import Point
from .picture import LINE_HEIGHT, PADDING, Picture

# Fill and stroke by kind of work: light fills that carry dark text, distinguished by hue and
# stroke.
COLOURS = {
    "interface": ("#eceff4", "#5b6472"),
    "product": ("#dbe9ff", "#2f6fd0"),
    "elementwise": ("#dcf5e3", "#2c8a4b"),
    "reduction": ("#fff0d2", "#b7791f"),
    "control": ("#f3e0fb", "#8a3fb0"),
    "other": ("#f4f4f2", "#85857f"),
}
STYLE = """
.graph { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.box rect { stroke-width: 1.2; }
.box text { fill: #1d232b; }
.box .title { font-weight: bold; }
.box .type { fill: #4c5665; }
.box.fresh rect { stroke-width: 3; }
.edge { fill: none; stroke: #8b95a3; stroke-width: 1.2; }
""" + "\n".join(
    f".{kind} rect {{ fill: {fill}; stroke: {stroke}; }}"
    for kind, (fill, stroke) in COLOURS.items()
)
# orient makes the head follow the edge's end, which always points down.
_MARKER = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto" markerUnits="userSpaceOnUse">'
    '<path d="M0 0L8 4L0 8z" fill="#8b95a3"/></marker></defs>'
)


def as_svg(picture: Picture) -> str:
    """A complete SVG file."""
    width, height = picture.layout.width, picture.layout.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}"><title>{_text(picture.stage)}</title>'
        f'<style>{STYLE}</style>{_MARKER}<rect width="100%" height="100%" fill="#fff"/>'
        f"{content(picture)}</svg>\n"
    )


def content(picture: Picture) -> str:
    """Edges and boxes as one group; boxes carry their position in `data-box`."""
    parts = ['<g class="graph">']
    for (source, target, type_), route in zip(picture.edges, picture.layout.routes, strict=True):
        parts.append(
            f'<path class="edge" data-from="{source}" data-to="{target}" d="{path(route)}" '
            f'marker-end="url(#head)"><title>{_text(type_)}</title></path>'
        )
    for number, box in enumerate(picture.boxes):
        (x, y), (width, height) = picture.layout.centres[number], box.size
        fresh = " fresh" if number in picture.fresh else ""
        parts.append(
            f'<g class="box {box.kind}{fresh}" data-box="{number}" '
            f'transform="translate({x - width / 2:.1f},{y - height / 2:.1f})">'
            f'<rect width="{width:.1f}" height="{height:.1f}" rx="6"/>'
        )
        classes = ["title", "name" if box.name else "type", "type"]
        for n, line in enumerate(box.lines):
            at = PADDING + LINE_HEIGHT * (n + 1) - 6
            parts.append(
                f'<text class="{classes[n]}" x="{width / 2:.1f}" y="{at:.1f}" '
                f'text-anchor="middle">{_text(line)}</text>'
            )
        parts.append("</g>")
    return "".join([*parts, "</g>"])


def path(points: Sequence[Point]) -> str:
    """Straight down where the points are one above the other, S-curves elsewhere."""
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.05:
            parts.append(f"V{to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(parts)


def _text(text: str) -> str:
    """Escaped; XML forbids most control characters, which are shown as escapes."""
    return escape(escape_text(text))
