"""A report in Markdown: for a terminal, a wiki, or a mail. Pure.

Every text is escaped here, once.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwatch.cli.report.sections import Section, Table
from stepwatch.runbooks.markdown import block, inline


def markdown(title: str, sections: Iterable[Section]) -> str:
    """Return all sections below the title."""
    parts = [f"# {inline(title)}"]
    for section in sections:
        parts += [f"## {inline(section.title)}"] if section.title else []
        marked = [f"{mark}{block(line)}" for mark, line in section.marked()]
        parts += ["\n".join(marked)] if marked else []
        parts += [aligned(section.table)] if section.table is not None else []
        parts += [block(section.closing)] if section.closing else []
    return "\n\n".join(parts) + "\n"


def aligned(table: Table) -> str:
    """Return a Markdown table whose columns are aligned in plain text."""
    cells = [[inline(cell) for cell in row] for row in (table.head, *table.rows)]
    wide = [max(len(row[column]) for row in cells) for column in range(len(table.head))]
    lines = [
        "| " + " | ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (size + 2) for size in wide) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
