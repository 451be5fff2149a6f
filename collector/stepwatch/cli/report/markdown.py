"""A report in Markdown: for a terminal, a wiki, or a mail. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from stepwatch.cli.report.sections import Section, Table


def markdown(title: str, sections: Iterable[Section]) -> str:
    """All sections below the title."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}"] if section.title else []
        parts += ["\n".join(section.lines)] if section.lines else []
        parts += [aligned(section.table)] if section.table is not None else []
        parts += [section.closing] if section.closing else []
    return "\n\n".join(parts) + "\n"


def aligned(table: Table) -> str:
    """A Markdown table whose columns line up in plain text; a name holds no markup of a wiki."""
    cells = [list(table.head), *([*map(_plain, row)] for row in table.rows)]
    wide = [max(len(row[at]) for row in cells) for at in range(len(table.head))]
    lines = [
        "| " + " | ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (size + 2) for size in wide) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _plain(cell: str) -> str:
    return cell.replace("|", "/").replace("<", "&lt;")
