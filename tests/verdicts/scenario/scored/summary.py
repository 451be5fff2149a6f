"""What came of many scenarios together: tables for people, figures for programs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from stepwatch.cli import text

from .statistics import poisson, quantile, wilson

Document = Mapping[str, Any]
_DAY_SECONDS = 86_400.0
_HEADINGS = ["fault", "n", "found", "rank", "phase", "cause", "node", "p50", "p90"]
EFFECTS = (1.05, 1.2, 1.5, 2.0, 3.0, 10.01)
COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.01)
_NO_FACTOR = ("slow-saver", "stopped-now-and-then")
_WIDE = 30
PERIODS = ((1, 1), (2, 5), (6, 20), (21, 50))


def figures(done: Sequence[Document]) -> dict[str, Any]:
    """All figures of a report; a share is [hits, of, low, high]."""
    answers = [each for one in done for each in one["answers"]]
    wanted = [each for each in answers if each["required"]]
    found = [each for each in answers if each["found"]]
    false = sum(len(one["false"]) for one in done)
    healthy = [one for one in done if one["healthy"]]
    quiet = sum(len(one["false"]) for one in healthy)
    days = sum(one["seconds"] for one in healthy) / _DAY_SECONDS
    low, high = poisson(quiet)
    slow = [each for each in wanted if not each["stops"]]
    return {
        "scenarios": len(done),
        "precision": share(len(found), len(found) + false),
        "recall": found_of(wanted),
        "recall of what stops or kills": found_of([each for each in wanted if each["stops"]]),
        "recall of what costs 5 % or more": found_of(slow),
        "right rank": right(found, "rank"),
        "right phase": right(found, "phase"),
        "right cause": right(found, "cause"),
        "right node": right(found, "node"),
        "seconds to verdict": _seconds(found),
        "seconds where every step is twice as long": _seconds(
            each
            for each in found
            if each["effect"] >= 2 and each["period"] == 1 and not each["stops"]
        ),
        "further incidents about a fault that was named": sum(
            one.get("repeated", 0) for one in done
        ),
        "healthy job-days": days,
        "false incidents in healthy jobs": quiet,
        "false incidents per healthy job-day": [
            _per(quiet, days),
            _per(low, days),
            _per(high, days),
        ],
        "healthy jobs with a false incident": share(
            sum(bool(one["false"]) for one in healthy), len(healthy)
        ),
        "pages in healthy jobs": sum(one["pages"] for one in healthy),
    }


def share(hits: int, of: int) -> list[float]:
    """[hits, of, low, high] with Wilson's interval."""
    return [hits, of, *wilson(hits, of)]


def found_of(answers: Sequence[Document]) -> list[float]:
    """How many of these faults were found."""
    return share(sum(each["found"] for each in answers), len(answers))


def right(answers: Iterable[Document], name: str) -> list[float]:
    """How many of the verdicts on which it counts named the right one."""
    known = [each[name] for each in answers if each[name] is not None]
    return share(sum(known), len(known))


def table(done: Sequence[Document]) -> str:
    """The report in words: all together, by class, power, and what was false."""
    parts = (_overall(figures(done)), _classes(done), power(done), curve(done), _false(done))
    return "\n\n".join(parts)


def _overall(known: Mapping[str, Any]) -> str:
    return text.table(
        ["all", ""], [[name, _words(value)] for name, value in known.items()], "", left=2
    )


def _words(value: Any) -> str:
    if isinstance(value, list) and len(value) == 4:
        hits, of, low, high = value
        return f"{hits / of:.3f} ({hits:.0f} of {of:.0f}; {low:.3f} to {high:.3f})" if of else "-"
    if isinstance(value, list) and len(value) == 3:
        return f"{value[0]:.2f} ({value[1]:.2f} to {value[2]:.2f})"
    if isinstance(value, list):
        return f"p50 {value[0]:.1f} s, p90 {value[1]:.1f} s"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _classes(done: Sequence[Document]) -> str:
    answers = [each for one in done for each in one["answers"]]
    rows = []
    for fault in sorted({each["fault"] for each in answers}):
        mine = [each for each in answers if each["fault"] == fault]
        wanted = [each for each in mine if each["required"]]
        found = [each for each in mine if each["found"]]
        seconds = [each["seconds"] for each in found if each["required"]]
        rows.append(
            [
                fault,
                str(len(mine)),
                _of(found_of(wanted)),
                *(_of(right(found, name)) for name in ("rank", "phase", "cause", "node")),
                *(_or_blank(quantile(seconds, ratio)) for ratio in (0.5, 0.9)),
            ]
        )
    return text.table(_HEADINGS, rows, "", left=1)


def _of(counted: Sequence[float]) -> str:
    return f"{counted[0]:.0f}/{counted[1]:.0f}" if counted[1] else ""


def _or_blank(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"{seconds:.1f} s"


def _slow(done: Sequence[Document]) -> list[Document]:
    """Verdicts on what slows steps, whether or not it had to be found."""
    return [
        each
        for one in done
        for each in one["answers"]
        if each["fault"].startswith(("slow-", "stopped-")) and not each["stops"]
    ]


def curve(done: Sequence[Document]) -> str:
    """A picture of the share found of what slows steps, against what it costs."""
    rows = []
    for low, high in pairwise(COSTS):
        mine = [each for each in _slow(done) if low <= each["cost"] < high]
        hits, of, least, most = found_of(mine)
        bar = "#" * round(_WIDE * hits / of) if of else ""
        interval = f"{least:.2f} to {most:.2f}" if of else ""
        rows.append(
            [f"{low:.0%} to {min(high, 1.0):.0%}", bar.ljust(_WIDE, "."), interval, _of([hits, of])]
        )
    return text.table(["found, by cost", "share", "interval", "n"], rows, "", left=3)


def power(done: Sequence[Document]) -> str:
    """Share found of what takes a factor longer in some steps, by effect and period."""
    slow = [each for each in _slow(done) if each["fault"] not in _NO_FACTOR]
    rows = []
    for low, high in pairwise(EFFECTS):
        row = [f"{low:g} to {high:.3g}"]
        for first, last in PERIODS:
            mine = [
                each
                for each in slow
                if low <= each["effect"] < high and first <= each["period"] <= last
            ]
            row.append(_of(found_of(mine)))
        rows.append(row)
    headings = [f"1 step in {a}" if a == b else f"1 in {a}-{b}" for a, b in PERIODS]
    return text.table(["found, by effect", *headings], rows, "", left=1)


def _false(done: Sequence[Document]) -> str:
    counts = Counter(
        ("healthy" if one["healthy"] else "with a fault", one["pace"], kind)
        for one in done
        for kind in one["false_kinds"]
    )
    rows = [[*key, str(count)] for key, count in counts.most_common(12)]
    return text.table(["false incidents in jobs", "pace", "kind", "n"], rows, "", left=3)


def line(one: Document) -> str:
    """What came of one scenario."""
    job = f"{one['shape']} {one['ranks']}/{one['nodes']} {one['pace']} {one['step_seconds']:.2f} s"
    said = "; ".join(map(_said, one["answers"])) or "healthy"
    wrong = f"; FALSE {'; '.join(each[:90] for each in one['false'])}" if one["false"] else ""
    return f"{one['seed']}  {job}: {said}{wrong}  [{one['cpu_seconds']:.0f} s]"


def _said(answer: Document) -> str:
    what = f"{answer['fault']} x{answer['effect']:.2f}/{answer['period']} {answer['cost']:.0%}"
    if not answer["found"]:
        return f"{what} {'MISSED' if answer['required'] else 'not found, need not be'}"
    wrong = [name for name in ("rank", "phase", "cause", "node") if answer[name] is False]
    verdict = f"WRONG {' '.join(wrong)} ({answer['named']})" if wrong else "right"
    return f"{what} {verdict} after {answer['seconds']:.0f} s"


def _seconds(answers: Iterable[Document]) -> list[float]:
    known = [each["seconds"] for each in answers if each["required"]]
    return [quantile(known, 0.5), quantile(known, 0.9)]


def _per(count: float, days: float) -> float:
    return count / days if days else math.nan
