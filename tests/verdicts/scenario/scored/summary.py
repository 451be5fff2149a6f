"""What came of many scenarios together: tables for people, figures for programs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwatch.cli import text
from tests.verdicts.scenario.seeds import is_tuning
from tests.verdicts.scenario.truth import LEAST_COST

from . import alarms
from .power import curve, limits, power
from .shares import Document, found_of, in_words, right, share
from .statistics import quantile

_HEADINGS = ["fault", "n", "found", "rank", "phase", "cause", "node", "p50", "p90", "shows", "p90"]
SOON_SECONDS = 300.0
_LATE_SAVE = "slow-saver"
"""Its effect is the seconds of a save, and it hits one step in dozens."""


def figures(done: Sequence[Document]) -> dict[str, Any]:
    """All figures of a report; a share is [hits, of, low, high]."""
    answers = [each for one in done for each in one["answers"]]
    wanted = [each for each in answers if each["required"]]
    found = [each for each in answers if each["found"]]
    # Long healthy jobs are there for the count of a day: no fault can be found in them.
    false = sum(len(one["false"]) for one in done if not one.get("wanted", {}).get("long"))
    healthy = [one for one in done if one["healthy"]]
    quiet = sum(len(one["false"]) for one in healthy)
    ends = [each for each in wanted if each["stops"]]
    slow = [each for each in wanted if _costs(each)]
    alone = [one["answers"] for one in done if sum(map(_is_felt, one["answers"])) == 1]
    rest = [each for each in wanted if not each["stops"] and each["cost"] < LEAST_COST]
    doubled = [(each, one) for one in done for each in one["answers"] if _is_doubled(each)]
    steps = [each for each, _ in doubled if each["fault"] != _LATE_SAVE]
    shown = [each for each in steps if not math.isnan(_shows(each))]
    said = [each for each in found if each.get("untrue") is not None]
    ended = [each for each in found if each.get("ends")]
    return {
        "scenarios": len(done),
        "precision": share(len(found), len(found) + false),
        "recall": found_of(wanted),
        "recall of what stops or kills": found_of(ends),
        "of these, within five minutes": share(sum(map(_soon, ends)), len(ends)),
        "recall of what costs 5 % or more": found_of(slow),
        "of these, where nothing else is slow": found_of(
            [each for known in alone for each in known if each["required"] and _costs(each)]
        ),
        "of these, that cost as much beside the other fault": found_of(
            [each for each in slow if _cost_beside(each) >= LEAST_COST]
        ),
        "recall of memory that grows, agents that are gone": found_of(rest),
        "right rank": right(found, "rank"),
        "right phase": right(found, "phase"),
        "right cause": right(found, "cause"),
        "right node": right(found, "node"),
        "sentences with true numbers": share(sum(not each["untrue"] for each in said), len(said)),
        "faults that end whose incident does within a minute": share(
            sum(map(_is_over_soon, ended)), len(ended)
        ),
        "said to be lost over what was": _quantiles(
            each["price"] for each in found if each.get("price") is not None
        ),
        "seconds to verdict": _seconds(found),
        "seconds where every step is twice as long": _seconds([each for each, _ in doubled]),
        "the same in slow steps": _quantiles(
            each["seconds"] / (each["effect"] * one["step_seconds"]) for each, one in doubled
        ),
        "the same where a slow step takes up to a second": _seconds(
            [each for each, one in doubled if each["effect"] * one["step_seconds"] <= 1.0]
        ),
        "the same without late saves": _seconds(steps),
        "of these, until the first slow step was over": _quantiles(map(_shows, shown)),
        "of these, after it": _quantiles(each["seconds"] - _shows(each) for each in shown),
        "further incidents about a fault that was named": sum(
            one.get("repeated", 0) for one in done
        ),
        "healthy job-days": alarms.days(healthy),
        "false incidents in healthy jobs": quiet,
        "false incidents per healthy job-day": alarms.rate(quiet, alarms.days(healthy)),
        "healthy jobs with a false incident": share(
            sum(bool(one["false"]) for one in healthy), len(healthy)
        ),
        "pages in healthy jobs": sum(one["pages"] for one in healthy),
        "evaluations that failed": sum(one.get("failures", 0) for one in done),
    }


def table(done: Sequence[Document]) -> str:
    """The report in words: all together, by class, power, and what was false."""
    parts = (
        _made(done),
        _overall(figures(done)),
        _classes(done),
        power(done),
        limits(done),
        curve(done),
        alarms.tables(done),
    )
    return "\n\n".join(filter(None, parts))


def _made(done: Sequence[Document]) -> str:
    """Which seeds, by which code, at which cost."""
    tuning = sum(is_tuning(one["seed"]) for one in done)
    codes = Counter(one.get("code", "") or "unknown" for one in done)
    days = sum(one["seconds"] for one in done) / alarms.DAY_SECONDS
    spent = sum(one["cpu_seconds"] for one in done)
    said = [
        f"seeds: {len(done) - tuning} drawn from the operating system, {tuning} to tune on",
        "code: " + ", ".join(f"{code} ({count})" for code, count in codes.most_common()),
    ]
    if days:
        said.append(f"processor: {spent / 60.0 / days:.1f} minutes a job-day")
    return "\n".join(said)


def _overall(known: Mapping[str, Any]) -> str:
    return text.table(
        ["all", ""], [[name, _words(value)] for name, value in known.items()], "", left_columns=2
    )


def _words(value: Any) -> str:
    if isinstance(value, list) and len(value) == 4:
        hits, of, low, high = value
        return f"{hits / of:.3f} ({hits:.0f} of {of:.0f}; {low:.3f} to {high:.3f})" if of else "-"
    if isinstance(value, list) and len(value) == 3:
        return f"{value[0]:.2f} ({value[1]:.2f} to {value[2]:.2f})"
    if isinstance(value, list):
        return f"p50 {value[0]:.1f}, p90 {value[1]:.1f}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _classes(done: Sequence[Document]) -> str:
    answers = [each for one in done for each in one["answers"]]
    rows = []
    for fault in sorted({each["fault"] for each in answers}):
        mine = [each for each in answers if each["fault"] == fault]
        wanted = [each for each in mine if each["required"]]
        found = [each for each in mine if each["found"]]
        seconds = [each["seconds"] for each in found if each["required"]]
        shows = [_shows(each) for each in found if each["required"]]
        shows = [each for each in shows if not math.isnan(each)]
        rows.append(
            [
                fault,
                str(len(mine)),
                in_words(found_of(wanted)),
                *(in_words(right(found, name)) for name in ("rank", "phase", "cause", "node")),
                *(_or_blank(quantile(seconds, ratio)) for ratio in (0.5, 0.9)),
                *(_or_blank(quantile(shows, ratio)) for ratio in (0.5, 0.9)),
            ]
        )
    return text.table(_HEADINGS, rows, "", left_columns=1)


def _or_blank(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"{seconds:.1f} s"


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
    return _quantiles(each["seconds"] for each in answers if each["required"])


def _quantiles(values: Iterable[float]) -> list[float]:
    known = list(values)
    return [quantile(known, 0.5), quantile(known, 0.9)]


def _soon(answer: Document) -> bool:
    """Whether it was found as soon as slow steps are asked to be."""
    return bool(answer["found"]) and answer["seconds"] <= SOON_SECONDS


OVER_SECONDS = 60.0


def _is_over_soon(answer: Document) -> bool:
    """Whether its incident ended soon after it: infinite, which JSON does not hold, is never."""
    return answer.get("over") is not None and answer["over"] <= OVER_SECONDS


def _is_felt(answer: Document) -> bool:
    """Whether it is about what slows or stops the job."""
    return bool(answer["stops"] or answer["cost"] > 0)


def _costs(answer: Document) -> bool:
    """Whether it is about a fault that slows the job by enough."""
    return bool(not answer["stops"] and answer["cost"] >= LEAST_COST)


def _cost_beside(answer: Document) -> float:
    """What would be gained if this fault alone went away; older results say only what it costs by
    itself."""
    beside = answer.get("beside")
    return float(answer["cost"] if beside is None else beside)


def _shows(answer: Document) -> float:
    """Seconds from the fault to the end of the first step that it slows, or save; NaN where that is
    not known: older results do not hold it."""
    shows = answer.get("shows")
    return math.nan if shows is None else float(shows)


def _is_doubled(answer: Document) -> bool:
    """Whether it was named, and each step takes twice as long or more."""
    slows = answer["required"] and not answer["stops"] and answer["cost"] >= LEAST_COST
    return bool(slows and answer["found"] and answer["effect"] >= 2 and answer["period"] == 1)
