"""The report of a quantization as an HTML page: a table and a plot of errors and times by layer."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .accuracy import LayerResult

if TYPE_CHECKING:
    from .post_training import QuantizedModel

_ROW, _LEFT, _WIDTH = 18, 260, 420
_MAX_NAME = 36
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; }
td, th { padding: .2em .6em; border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg text { font-size: 11px; fill: currentColor; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } }
"""


def render_report(result: QuantizedModel, source: str) -> str:
    """The page. `result` was evaluated with analyze=True."""
    found = result.evaluation
    rows = [] if found is None else found.layers
    facts = [f"{len(result.quantized_layers)} of {len(result.layers)} layers are quantized."]
    if found is not None and found.quantized_metric is not None:
        facts.append(
            f"Metric {found.quantized_metric:.6g}; of the float model {found.float_metric:.6g}."
        )
    if found is not None and found.times is not None:
        facts += [f"{line[0].upper()}{line[1:]}." for line in found.times.describe()]
    body = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    title = escape(f"Quantization of {source}")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>{body}"
        "<p>SQNR: signal-to-quantization-noise ratio of the model's outputs with this layer alone "
        f"quantized, on the first batch.</p>{_plot(rows)}{_table(rows)}</body></html>"
    )


def _table(rows: list[LayerResult]) -> str:
    head = "".join(
        f"<th>{h}</th>"
        for h in ("layer", "kind", "weight", "SQNR dB", "float us", "quantized us", "verdict")
    )
    lines = [
        f"<tr><td>{escape(r.name)}</td><td>{escape(r.kind)}</td><td>{list(r.shape)}</td>"
        f"<td class='number'>{r.sqnr:.1f}</td><td class='number'>{_time(r.float_us)}</td>"
        f"<td class='number'>{_time(r.quantized_us)}</td><td>{escape(r.verdict)}</td></tr>"
        for r in rows
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _time(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _plot(rows: list[LayerResult]) -> str:
    """A bar for each layer's SQNR: the shorter, the larger its error."""
    if not rows:
        return ""
    most = max(1.0, *(min(r.sqnr, 100.0) for r in rows))
    parts: list[str] = []
    for number, row in enumerate(rows):
        top = number * _ROW
        length = max(1.0, _WIDTH * min(row.sqnr, 100.0) / most)
        color = "#c44" if row.verdict.startswith("float") else "#48a"
        name = row.name if len(row.name) <= _MAX_NAME else row.name[: _MAX_NAME - 3] + "..."
        parts.append(
            f"<text x='{_LEFT - 6}' y='{top + 13}' text-anchor='end'>{escape(name)}</text>"
            f"<rect x='{_LEFT}' y='{top + 3}' width='{length:.1f}' height='{_ROW - 6}' "
            f"fill='{color}'/><text x='{_LEFT + length + 4:.1f}' y='{top + 13}'>"
            f"{row.sqnr:.1f} dB</text>"
        )
    width, height = _LEFT + _WIDTH + 70, len(rows) * _ROW
    return (
        f"<svg role='img' aria-label='SQNR by layer' width='{width}' height='{height}'>"
        f"{''.join(parts)}</svg>"
    )
