"""A bar chart of ratios as SVG text."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def chart(ratios: Mapping[str, float], *, limit: float = 3.0) -> str:
    """One bar per name, in order; 1 is the fastest peer, longer is faster."""
    row, left, unit = 18, 170, 400 / limit
    height = row * len(ratios) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    ]
    for i, (name, ratio) in enumerate(ratios.items()):
        y = 20 + i * row
        colour = "#2a7f62" if ratio >= 1 else "#b04a3a"
        parts.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        width = min(ratio, limit) * unit
        parts.append(
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{row - 4}" fill="{colour}"/>'
        )
        parts.append(f'<text x="{left + width + 4:.1f}" y="{y + 12}">{ratio:.2f}</text>')
    one = left + unit
    parts.append(
        f'<line x1="{one:.1f}" y1="14" x2="{one:.1f}" y2="{height}" stroke="#555"/>'
        f'<text x="{one:.1f}" y="12" text-anchor="middle">the faster peer</text></svg>'
    )
    return "\n".join(parts) + "\n"
