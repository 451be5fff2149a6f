"""A report as sections with paragraphs and tables, for any output format. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepwatch.cli import text
from stepwatch.cli.report.cost import job_cost
from stepwatch.collector.slo.asked.rates import RateCard

MOST_JOBS = 20
NUMBERS = "1. "
DAY = 86_400
Document = Mapping[str, Any]


class Table(NamedTuple):
    """Cells as text, below their column heads."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """A titled part: lines, then a table, then a closing line; each may be missing.

    All fields are text, which the output escapes. `mark` makes the lines a list: `NUMBERS`, or the
    prefix before each line.
    """

    title: str
    lines: Sequence[str] = ()
    table: Table | None = None
    closing: str = ""
    mark: str = ""

    def marked(self) -> Iterator[tuple[str, str]]:
        """Yield each line's prefix and the line."""
        for number, line in enumerate(self.lines, 1):
            yield f"{number}. " if self.mark == NUMBERS else self.mark, line


def sections(report: Document, card: RateCard | None = None) -> list[Section]:
    """Return a report's sections, the first untitled; a rate card adds money to device-time."""
    if not report["jobs"]:
        return [Section("", [f"{_span(report)}: no job used any device-time in it."])]
    return [
        Section("", _headline(report, card)),
        Section("Where device-time went", table=_causes(report, card)),
        # An earlier collector has neither field.
        *([_slos(report)] if report.get("slos") else []),
        *([_classes(report)] if len(report.get("classes", ())) > 1 else []),
        *_owners(report, card),
        _jobs(report, card),
        Section("Days", table=_days(report)),
        _listed("Incidents that cost most", _incidents(report)),
        _listed("Nodes at fault", _nodes(report)),
        _actions(report),
    ]


def _listed(title: str, table: Table) -> Section:
    return Section(title, table=table) if table.rows else Section(title, ["None."])


def _span(report: Document) -> str:
    first, last = (
        datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d")
        for moment_s in (report["from"], report["until"] - 1)
    )
    return f"{first} to {last} (UTC)"


def _headline(report: Document, card: RateCard | None) -> list[str]:
    total = report["total"]
    allocated = text.device_time(total["allocated_seconds"])
    lines = [
        f"{_span(report)}: {text.counted(len(report['jobs']), 'job')}, {allocated}, "
        f"productive {text.share(total['productive_ratio'])}, {total['steps']:,} steps kept, "
        f"{_tokens_words(report)}."
    ]
    if card is None:
        lines.append("Money is unknown: no rate card was given (--rates FILE).")
    else:
        money, without = _cost(report["jobs"], card)
        lines.append(f"Cost: {_money(money, card)}{_per_tokens(money, total['tokens'], card)}.")
        if without:
            lines.append(
                f"No rate is valid for {text.device_time(without)}: their cost is unknown."
            )
    lines.append(f"{text.counted(report['incident_count'], 'incident')}.")
    return lines


def _tokens(summed: Document) -> str:
    """Return tokens; an earlier collector reports 0 for steps without a token count."""
    is_counted = summed["tokens"] or not summed["steps"]
    return f"{summed['tokens']:,}" if is_counted else text.UNKNOWN


def _tokens_words(report: Document) -> str:
    without = sum(_tokens(job) == text.UNKNOWN for job in report["jobs"])
    words = f"{_tokens(report['total'])} tokens"
    if words.startswith(text.UNKNOWN):
        return "tokens unknown"
    return f"{words}, those of {text.counted(without, 'job')} unknown" if without else words


def _causes(report: Document, card: RateCard | None) -> Table:
    total = report["total"]
    allocated = total["allocated_seconds"]
    money, without = _cost(report["jobs"], card) if card else (0.0, 0.0)
    priced = allocated - without
    rows = []
    for cause in report["causes"]:
        seconds = total["seconds"][cause]
        row = [
            cause,
            text.device_time(seconds),
            text.percent(seconds / allocated if allocated else None),
        ]
        if card:
            row.append(_money(money * seconds / priced, card) if priced > 0 else text.UNKNOWN)
        rows.append(row)
    row = ["all", text.device_time(allocated), "100%"]
    rows.append([*row, _money(money, card)] if card else row)
    return Table(["cause", "device-time", "share", *(["cost"] if card else [])], rows)


def _classes(report: Document) -> Section:
    """Return one line per class; ratios are over sums of all jobs, so a large job weighs more."""
    rows = [
        [
            row["job_class"] or text.UNKNOWN,
            f"{row['jobs']:,}",
            text.device_time(row["allocated_seconds"]),
            text.share(row.get("productive_ratio")),
            _tokens(row),
        ]
        for row in sorted(report["classes"], key=lambda row: -row["allocated_seconds"])
    ]
    return Section(
        "Classes", table=Table(["class", "jobs", "device-time", "productive", "tokens"], rows)
    )


def _slos(report: Document) -> Section:
    """Return one line per class and SLO: budgets for the report's time, and the trend by part."""
    rows = []
    for line in report["slos"]:
        lost, allowed = line["lost_device_seconds"], line["allowed_device_seconds"]
        trend = [_compact(part["good_ratio"]) for part in line["trend"]]
        rows.append(
            [
                line["slo"],
                line["job_class"]
                or ("all of these" if line["job_class"] is None else text.UNKNOWN),
                f"{line['jobs']:,}",
                text.share(line["target"]),
                text.share(line["good_ratio"]),
                f"{text.device_time(lost)} of {text.device_time(allowed)}"
                if allowed > 0
                else text.UNKNOWN,
                " ".join(trend),
            ]
        )
    head = ["SLO", "class", "jobs", "target", "good", "budget spent", "trend, percent"]
    starts = [part["from"] for part in report["slos"][0]["trend"]]
    days = (starts[1] - starts[0]) // DAY if len(starts) > 1 else None
    closing = (
        f"The budget is that of the report's time. The trend has a figure for each "
        f"{'day' if days == 1 else f'{days} days'}, - where nothing was counted."
        if days
        else "The budget is that of the report's time."
    )
    return Section("SLOs", table=Table(head, rows), closing=closing)


def _compact(ratio: float | None) -> str:
    """Return a share in percent, rounded down: 99.97 is not 100."""
    return "-" if ratio is None else f"{math.floor(ratio * 1000) / 10:g}"


_OWNERS = {"project": "Projects", "team": "Teams", "cost_centre": "Cost centres"}


def _owners(report: Document, card: RateCard | None) -> Iterator[Section]:
    """Yield a section for each field (project, team, cost centre) that any job names."""
    for field, title in _OWNERS.items():
        jobs_by_owner: dict[str, list[Document]] = {}
        for job in report["jobs"]:
            jobs_by_owner.setdefault(job.get("owner", {}).get(field, ""), []).append(job)
        if not any(jobs_by_owner):
            continue
        ordered = sorted(jobs_by_owner.items(), key=lambda owner: -_allocated(owner[1]))
        rows = [_owner(name or text.UNKNOWN, jobs, report, card) for name, jobs in ordered]
        hidden_count = len(rows) - MOST_JOBS
        closing = f"{hidden_count} more, with less device-time." if hidden_count > 0 else ""
        head = [field.replace("_", " "), "jobs", "device-time", "productive", "lost most to"]
        head += ["cost"] if card else []
        yield Section(title, table=Table(head, rows[:MOST_JOBS]), closing=closing)


def _allocated(jobs: Iterable[Document]) -> float:
    return float(sum(job["allocated_seconds"] for job in jobs))


def _owner(
    name: str, jobs: Sequence[Document], report: Document, card: RateCard | None
) -> list[str]:
    """Return the row for one owner; ratios are sums over sums, as everywhere."""
    allocated = _allocated(jobs)
    seconds = {
        cause: sum(float(job["seconds"][cause]) for job in jobs) for cause in report["causes"]
    }
    good = seconds["productive"] / allocated if allocated > 0 else None
    row = [
        name,
        f"{len(jobs):,}",
        text.device_time(allocated),
        text.share(good),
        _worst(seconds, allocated),
    ]
    if card:
        money, without = _cost(jobs, card)
        row.append(text.UNKNOWN if without else _money(money, card))
    return row


def _worst(seconds: Mapping[str, float], allocated: float) -> str:
    """Return the cause with the largest loss, and its share."""
    worst = max(
        (cause for cause in seconds if cause != "productive"), key=lambda cause: seconds[cause]
    )
    lost = seconds[worst]
    return f"{worst} {text.percent(lost / allocated)}" if lost else "nothing"


def _jobs(report: Document, card: RateCard | None) -> Section:
    ordered = sorted(report["jobs"], key=lambda job: -job["allocated_seconds"])
    rows = []
    for job in ordered[:MOST_JOBS]:
        row = [
            job["job"],
            job["job_class"] or text.UNKNOWN,
            text.device_time(job["allocated_seconds"]),
            text.share(job.get("productive_ratio")),
            _worst(job["seconds"], job["allocated_seconds"]),
            _tokens(job),
        ]
        if card:
            money, without = job_cost(job, card)
            row.append(text.UNKNOWN if without else _money(money, card))
        rows.append(row)
    head = ["job", "class", "device-time", "productive", "lost most to", "tokens"]
    hidden_count = len(ordered) - MOST_JOBS
    closing = (
        f"{text.counted(hidden_count, 'more job')}, with less device-time."
        if hidden_count > 0
        else ""
    )
    return Section("Jobs", table=Table([*head, *(["cost"] if card else [])], rows), closing=closing)


def _days(report: Document) -> Table:
    rows = [
        [
            datetime.fromtimestamp(day["day"], UTC).strftime("%Y-%m-%d"),
            text.device_time(day["allocated_seconds"]),
            text.share(day.get("productive_ratio")),
            _tokens(day),
        ]
        for day in report["days"]
    ]
    return Table(["day", "device-time", "productive", "tokens"], rows)


def _incidents(report: Document) -> Table:
    rows = [
        [
            str(incident["id"]),
            str(incident["job"]),
            f"{incident['kind']}, {incident['cause']}",
            str(incident["rank"]) if incident["rank"] >= 0 else "-",
            str(incident["node"]),
            _device_time(incident["device_seconds_lost"]),
        ]
        for incident in report["incidents"]
    ]
    return Table(["incident", "job", "what", "rank", "node", "device-time lost"], rows)


def _device_time(seconds: float | None) -> str:
    return text.UNKNOWN if seconds is None else text.device_time(seconds)


def _nodes(report: Document) -> Table:
    rows = [
        [
            node["node"],
            str(node["incidents"]),
            _device_time(node["device_seconds_lost"]),
            # An earlier collector has neither field.
            text.count(node.get("faults_30d")),
            (node.get("health") or text.UNKNOWN)
            + (", repeat offender" if node.get("repeat_offender") else ""),
        ]
        for node in report["nodes"]
    ]
    head = ["node", "incidents", "device-time lost", "faults in 30 days", "now"]
    return Table(head, rows)


_ADVICE = {
    "start-up": "cache compiled code and images near the nodes; look at the first step's length",
    "redone-after-restart": "save more often, and asynchronously: steps since the last good save "
    "are done twice",
    "stall": "stepwatch incidents names the rank that did not arrive; drain nodes that it names "
    "repeatedly",
    "straggling": "stepwatch incidents names the rank that the others wait for, and its node",
    "exposed-communication": "overlap transfers with backward; look at slow-collective incidents",
    "bubble": "more microbatches a step, or stages of equal work",
    "data-wait": "more loader workers, prefetching, or shards nearer to the nodes",
    "checkpoint-stall": "save asynchronously; look at the storage of the slowest rank",
    "evaluation": "evaluate less often, on fewer batches, or in a job of its own",
    "idle-allocated": "end the job when a rank has ended",
    "unknown": "find out which ranks or nodes did not report: stepwatch status JOB",
}


def _actions(report: Document) -> Section:
    """Return the largest causes with the usual remedy; at most three, each at least 2 %."""
    total, allocated = report["total"]["seconds"], report["total"]["allocated_seconds"]
    losses = sorted(((total[cause], cause) for cause in _ADVICE), reverse=True)
    advice = [
        f"{cause} ({text.percent(seconds / allocated)}): {_ADVICE[cause]}."
        for seconds, cause in losses[:3]
        if seconds >= 0.02 * allocated
    ]
    title, nothing = "What to do next", ["Nothing took 2 % of the device-time or more."]
    return Section(title, advice, mark=NUMBERS) if advice else Section(title, nothing)


def _cost(jobs: Iterable[Document], card: RateCard) -> tuple[float, float]:
    """Return the cost of all jobs, and the device-seconds without a rate."""
    costs = [job_cost(job, card) for job in jobs]
    return sum(money for money, _ in costs), sum(without for _, without in costs)


def _money(amount: float, card: RateCard) -> str:
    return text.money(amount, card.currency)


def _per_tokens(money: float, tokens: int | None, card: RateCard) -> str:
    return f", {_money(money / tokens * 1e6, card)} per million tokens" if tokens else ""
