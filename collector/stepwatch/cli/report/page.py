"""A report as one HTML file: no script, no external resources. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.cli.report.chart import days_chart, legend
from stepwatch.cli.report.html import html
from stepwatch.cli.report.sections import Section, Table

_STYLE = """
:root { color-scheme: light dark; --ground: #f7f7f5; --panel: #fff; --ink: #1d2329;
  --quiet: #5c6670; --line: #d9dde1; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181b; --panel: #1e2226;
  --ink: #e8eaec; --quiet: #9aa4ad; --line: #363c42; } }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 16px 24px 48px; }
h1 { font-size: 22px; margin: 16px 0 8px; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { margin: 4px 0; } .wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; background: var(--panel);
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 6px 10px; border: 1px solid var(--line); }
th { color: var(--quiet); font-size: 13px; } .number { text-align: right; }
.panel { margin-top: 16px; }
.panel { background: var(--panel); border: 1px solid var(--line); padding: 10px; }
svg { display: block; width: 100%; } svg text { fill: var(--quiet); font: 12px system-ui; }
.axis { stroke: var(--line); } .key { margin-right: 16px; color: var(--quiet); font-size: 13px;
  white-space: nowrap; } .swatch { display: inline-block; width: 12px; height: 12px;
  margin-right: 5px; vertical-align: -1px; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title: str, sections: Iterable[Section], report: Mapping[str, Any]) -> str:
    """Return all sections below the title, with a chart by day below the headline."""
    parts = [f"<h1>{html(title)}</h1>"]
    for section in sections:
        parts += [f"<h2>{html(section.title)}</h2>"] if section.title else []
        parts += [f"<p>{html(mark + line)}</p>" for mark, line in section.marked()]
        parts += [_table(section.table)] if section.table is not None else []
        parts += [f"<p>{html(section.closing)}</p>"] if section.closing else []
        if not section.title:
            chart, keys = days_chart(report["days"], report["causes"]), legend(report["causes"])
            parts += [f'<div class="panel">{chart}<p>{keys}</p></div>'] if chart else []
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="content-security-policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{html(title)}</title><style>{_STYLE}</style></head>\n<body><main>"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{html(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(words: str) -> str:
    """Return a table cell; numbers are right-aligned, dates are not."""
    is_number = words[:1].isdigit() and words[4:5] != "-"
    return f"<td{' class=number' if is_number else ''}>{html(words)}</td>"
