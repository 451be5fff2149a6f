"""`python -m tests.slis` moves each SLI by a fault on a real run, and compares it with a figure by
hand; exit 1 where they differ by more than the case allows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepwatch.cli import text
from tests import matrices
from tests.slis.cases import CASES, NOT_MOVED, Case, Row
from tests.slis.run import SliRun, SliSite


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slis",
        description=__doc__,
        epilog="example: python -m tests.slis --only kill --json slis.json",
    )
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and the store")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run the cases one after another, and print the table."""
    options = arguments(words)
    rows: list[dict[str, Any]] = []
    with matrices.folders("slis", options.keep) as (folder, rings):
        site = SliSite(folder, rings)
        try:
            site.start()
            for case in CASES:
                if not options.only or case.name in options.only:
                    rows += rows_of(case, site.run(case))
                    off = sum(not row["agrees"] for row in rows)
                    print(f"{case.name}: {off} of {len(rows)} differ", flush=True)
        except KeyboardInterrupt:
            print(matrices.INTERRUPTED, file=sys.stderr)
        finally:
            site.close()
    matrices.show(table(rows), {"rows": rows, "not_moved": NOT_MOVED}, options.json)
    return int(not rows or not all(row["agrees"] for row in rows))


def rows_of(case: Case, run: SliRun) -> Iterator[dict[str, Any]]:
    """Each SLI of a case with its three values, the figure by hand, and whether they agree."""
    for row in case.rows:
        figure, after_value = row.figure(run.record), run.values_after.get(row.sli)
        if row.has_before:
            figure += (run.values_before.get(row.sli) or 0.0) * (1 - figure)
        yield {
            "sli": row.sli,
            "moved_by": case.moved_by,
            "before": run.values_before.get(row.sli),
            "during": run.during.get(row.sli),
            "after": after_value,
            "by_hand": figure,
            "agrees": agrees(row, after_value, figure),
        }


def agrees(row: Row, measured: float | None, figure: float) -> bool:
    """Return whether an SLI is near its figure; an unknown one is not."""
    allowed = row.share * abs(figure) + row.absolute
    return measured is not None and abs(measured - figure) <= allowed


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table with one line per SLI."""
    lines = [
        "| SLI | moved by | before | during | after | by hand |",
        "|-----|----------|--------|--------|-------|---------|",
    ]
    for row in rows:
        values = (_format(row[name]) for name in ("before", "during", "after", "by_hand"))
        off = "" if row["agrees"] else " **differs**"
        lines.append(f"| {row['sli']} | {row['moved_by']} | {' | '.join(values)}{off} |")
    return "\n".join(lines)


def _format(value: float | None) -> str:
    return text.UNKNOWN if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(matrices.command("tests.slis", main))
