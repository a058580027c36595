"""A bar chart of ratios as SVG text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_AHEAD = ("#2a7f62", "#7fbfa8", "#b9ddd0")
_BEHIND = ("#b04a3a", "#d69184", "#e8c3bb")
_BAR, _GAP, _LEFT, _WIDTH = 11, 6, 250, 680


def chart(ratios: Mapping[tuple[str, int], float], *, limit: float = 3.0, title: str = "") -> str:
    """A group of bars per name, in order, one for each count of threads, the darkest for the
    least; 1 is the fastest peer, longer is faster, a bar beyond `limit` is drawn cut. title: the
    machine, at the upper left."""
    names = list(dict.fromkeys(name for name, _ in ratios))
    counts = sorted({threads for _, threads in ratios})
    unit = (_WIDTH - _LEFT - 60) / limit
    parts: list[str] = []
    y = 30
    for name in names:
        own = [(i, ratios[name, t]) for i, t in enumerate(counts) if (name, t) in ratios]
        middle = y + len(own) * _BAR / 2 + 4
        label = f'<text x="{_LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>'
        parts.append(label)
        for i, ratio in own:
            colour = (_AHEAD if ratio >= 1 else _BEHIND)[min(i, len(_AHEAD) - 1)]
            width = min(ratio, limit) * unit
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
                f'<text x="{_LEFT + width + 4:.1f}" y="{y + 9}" font-size="10">{ratio:.2f}</text>'
            )
            if ratio > limit:
                # The bar is cut: a slanted gap says so.
                cut = f"M{_LEFT + width - 12:.1f} {y + _BAR} l6 {-_BAR}"
                parts.append(f'<path d="{cut}" stroke="white" stroke-width="3"/>')
            y += _BAR
        y += _GAP
    one = _LEFT + unit
    legend = "".join(
        f'<rect x="{_WIDTH - 170 + 76 * i}" y="10" width="10" height="10" fill="{colour}"/>'
        f'<text x="{_WIDTH - 156 + 76 * i}" y="20">{n} thread{"s"[: n > 1]}</text>'
        for i, (n, colour) in enumerate(zip(counts, _AHEAD, strict=False))
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 8}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{one:.1f}" y="20" text-anchor="middle">fastest other = 1</text>'
        f'<text x="8" y="20">{escape(title)}</text>'
        f"{legend}"
    )
    line = f'<line x1="{one:.1f}" y1="26" x2="{one:.1f}" y2="{y}" stroke="#555"/></svg>'
    return "\n".join([head, *parts, line]) + "\n"
