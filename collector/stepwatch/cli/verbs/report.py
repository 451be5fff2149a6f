"""`stepwatch report`: device-time by cause, over days, in Markdown or HTML."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

from stepwatch.cli.report.cost import job_cost
from stepwatch.cli.report.markdown import markdown
from stepwatch.cli.report.page import page
from stepwatch.cli.report.sections import sections
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.collector.slo.asked.rates import RateCard, read_rates
from stepwatch.signals import places
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch report --week --rates rates.toml --collector http://collector:8480"

DAY = 86_400
_MOST_DAYS = 3660


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--job", help="only this job")
    scope.add_argument("--class", dest="job_class", help="only jobs of this class")
    span = parser.add_mutually_exclusive_group()
    span.add_argument("--week", action="store_true", help="the last 7 days; the default")
    span.add_argument("--month", action="store_true", help="the last 30 days")
    span.add_argument(
        "--since", type=_since, metavar="WHEN", help="from 2026-11-01 on, or the last 14d"
    )
    parser.add_argument(
        "--rates",
        type=Path,
        default=os.environ.get(places.ENV_RATES) or None,
        metavar="FILE",
        help=f"rate card in TOML, for money [{places.ENV_RATES}]",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write it as one HTML file with charts, too"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; whole days in UTC, including today."""
    card = None if arguments.rates is None else read_rates(Path(arguments.rates))
    until = (_now_s() // DAY + 1) * DAY
    first = arguments.since if arguments.since is not None else until - DAY * _days(arguments)
    if first >= until:
        raise UsageError("--since: that day is yet to come")
    query = {"from": str(first), "until": str(until)}
    if arguments.job:
        query["job"] = component(arguments.job, "job")
    if arguments.job_class:
        query["class"] = arguments.job_class
    report = ask(arguments, "/v1/report", **query)
    if arguments.json:
        print(json.dumps(_with_money(report, card), indent=1))
    else:
        print(markdown(_title(arguments), sections(report, card)), end="")
    if arguments.html is not None:
        _write(arguments.html, page(_title(arguments), sections(report, card), report))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html: {path}: {error.strerror}; give a file that can be") from error


def _now_s() -> int:
    return int(time.time())


def _days(arguments: argparse.Namespace) -> int:
    return 30 if arguments.month else 7


def _since(words: str) -> int:
    """Parse a date, or a number of days up to today; return the first day's start, Unix seconds."""
    ago = re.fullmatch(r"(\d{1,4})d", words)
    if ago and 0 < int(ago[1]) <= _MOST_DAYS:
        return (_now_s() // DAY + 1 - int(ago[1])) * DAY
    try:
        return int(datetime.strptime(words, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        problem = f"{words[:40]!r} is not a day; write one, as 2026-11-01, or how many, as 14d"
        raise argparse.ArgumentTypeError(problem) from None


def _title(arguments: argparse.Namespace) -> str:
    if arguments.job:
        return f"Report on job {arguments.job}"
    if arguments.job_class:
        return f"Report on jobs of class {arguments.job_class}"
    return "Report on all jobs"


def _with_money(report: dict[str, object], card: RateCard | None) -> dict[str, object]:
    """Add each job's cost to the document if a card is given; None if a day has no rate."""
    if card is None:
        return report
    jobs: list[dict[str, object]] = report["jobs"]  # type: ignore[assignment]
    for job in jobs:
        money, without = job_cost(job, card)
        job["cost"], job["currency"] = None if without else round(money, 6), card.currency
    return report
