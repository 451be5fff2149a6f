"""The results of many scenarios together: tables for people, figures for programs. Pure."""

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
from .shares import Document, found_share, in_words, right, share
from .statistics import quantile

_HEADINGS = ["fault", "n", "found", "rank", "phase", "cause", "node", "p50", "p90", "shows", "p90"]
SOON_SECONDS = 300.0
_LATE_SAVE = "checkpoint-stall"
"""Its effect is the seconds of a save, and it hits one step in dozens."""


def figures(documents: Sequence[Document]) -> dict[str, Any]:
    """Return all figures of a report; a share is [hits, total, low, high]."""
    answers = [answer for document in documents for answer in document["answers"]]
    wanted = [answer for answer in answers if answer["required"]]
    verdicts = [answer for answer in answers if answer["found"]]
    # Long healthy jobs count false incidents a day; they have no fault to find.
    false = sum(
        len(document["false"])
        for document in documents
        if not document.get("wanted", {}).get("long")
    )
    healthy = [document for document in documents if document["healthy"]]
    quiet = sum(len(document["false"]) for document in healthy)
    ends = [answer for answer in wanted if answer["stops"]]
    slow = [answer for answer in wanted if _costs(answer)]
    lone_answers = [
        document["answers"]
        for document in documents
        if sum(map(_is_felt, document["answers"])) == 1
    ]
    costless = [answer for answer in wanted if not answer["stops"] and answer["cost"] < LEAST_COST]
    doubled = [
        (answer, document)
        for document in documents
        for answer in document["answers"]
        if _is_doubled(answer)
    ]
    steps = [answer for answer, _ in doubled if answer["fault"] != _LATE_SAVE]
    shown = [answer for answer in steps if not math.isnan(_shows(answer))]
    sentences = [answer for answer in verdicts if answer.get("untrue") is not None]
    ended = [answer for answer in verdicts if answer.get("ends")]
    return {
        "scenarios": len(documents),
        "precision": share(len(verdicts), len(verdicts) + false),
        "recall": found_share(wanted),
        "recall of what stops or kills": found_share(ends),
        "of these, within five minutes": share(sum(map(_soon, ends)), len(ends)),
        "recall of what costs 5 % or more": found_share(slow),
        "of these, where nothing else is slow": found_share(
            [
                answer
                for group in lone_answers
                for answer in group
                if answer["required"] and _costs(answer)
            ]
        ),
        "of these, that cost as much beside the other fault": found_share(
            [answer for answer in slow if _marginal_cost(answer) >= LEAST_COST]
        ),
        "recall of memory that grows, agents that are gone": found_share(costless),
        "right rank": right(verdicts, "rank"),
        "right phase": right(verdicts, "phase"),
        "right cause": right(verdicts, "cause"),
        "right node": right(verdicts, "node"),
        "sentences with true numbers": share(
            sum(not answer["untrue"] for answer in sentences), len(sentences)
        ),
        "faults that end whose incident does within a minute": share(
            sum(map(_is_over_soon, ended)), len(ended)
        ),
        "said to be lost over what was": _quantiles(
            answer["price"] for answer in verdicts if answer.get("price") is not None
        ),
        "seconds to verdict": _seconds(verdicts),
        "seconds where every step is twice as long": _seconds([answer for answer, _ in doubled]),
        "the same in slow steps": _quantiles(
            answer["seconds"] / (answer["effect"] * document["step_seconds"])
            for answer, document in doubled
        ),
        "the same where a slow step takes up to a second": _seconds(
            [
                answer
                for answer, document in doubled
                if answer["effect"] * document["step_seconds"] <= 1.0
            ]
        ),
        "the same without late saves": _seconds(steps),
        "of these, until the first slow step was over": _quantiles(map(_shows, shown)),
        "of these, after it": _quantiles(answer["seconds"] - _shows(answer) for answer in shown),
        "further incidents about a fault that was named": sum(
            document.get("repeated", 0) for document in documents
        ),
        "healthy job-days": alarms.days(healthy),
        "false incidents in healthy jobs": quiet,
        "false incidents per healthy job-day": alarms.rate(quiet, alarms.days(healthy)),
        "healthy jobs with a false incident": share(
            sum(bool(document["false"]) for document in healthy), len(healthy)
        ),
        "pages in healthy jobs": sum(document["pages"] for document in healthy),
        "evaluations that failed": sum(document.get("failures", 0) for document in documents),
    }


def table(documents: Sequence[Document]) -> str:
    """Return the report in words: all together, by class, power, and false incidents."""
    parts = (
        _provenance(documents),
        _overall(figures(documents)),
        _classes(documents),
        power(documents),
        limits(documents),
        curve(documents),
        alarms.tables(documents),
    )
    return "\n\n".join(filter(None, parts))


def _provenance(documents: Sequence[Document]) -> str:
    """Return the seeds, the code and the cost of the scenarios."""
    tuning = sum(is_tuning(document["seed"]) for document in documents)
    codes = Counter(document.get("code", "") or "unknown" for document in documents)
    days = sum(document["seconds"] for document in documents) / alarms.DAY_SECONDS
    spent = sum(document["cpu_seconds"] for document in documents)
    lines = [
        f"seeds: {len(documents) - tuning} drawn from the operating system, {tuning} to tune on",
        "code: " + ", ".join(f"{code} ({count})" for code, count in codes.most_common()),
    ]
    if days:
        lines.append(f"processor: {spent / 60.0 / days:.1f} minutes a job-day")
    return "\n".join(lines)


def _overall(report: Mapping[str, Any]) -> str:
    return text.table(
        ["all", ""], [[name, _words(value)] for name, value in report.items()], "", left_columns=2
    )


def _words(value: Any) -> str:
    if isinstance(value, list) and len(value) == 4:
        hits, total, low, high = value
        return (
            f"{hits / total:.3f} ({hits:.0f} of {total:.0f}; {low:.3f} to {high:.3f})"
            if total
            else "-"
        )
    if isinstance(value, list) and len(value) == 3:
        return f"{value[0]:.2f} ({value[1]:.2f} to {value[2]:.2f})"
    if isinstance(value, list):
        return f"p50 {value[0]:.1f}, p90 {value[1]:.1f}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _classes(documents: Sequence[Document]) -> str:
    answers = [answer for document in documents for answer in document["answers"]]
    rows = []
    for fault in sorted({answer["fault"] for answer in answers}):
        fault_answers = [answer for answer in answers if answer["fault"] == fault]
        wanted = [answer for answer in fault_answers if answer["required"]]
        verdicts = [answer for answer in fault_answers if answer["found"]]
        seconds = [answer["seconds"] for answer in verdicts if answer["required"]]
        shows = [_shows(answer) for answer in verdicts if answer["required"]]
        shows = [moment for moment in shows if not math.isnan(moment)]
        rows.append(
            [
                fault,
                str(len(fault_answers)),
                in_words(found_share(wanted)),
                *(in_words(right(verdicts, name)) for name in ("rank", "phase", "cause", "node")),
                *(_or_blank(quantile(seconds, ratio)) for ratio in (0.5, 0.9)),
                *(_or_blank(quantile(shows, ratio)) for ratio in (0.5, 0.9)),
            ]
        )
    return text.table(_HEADINGS, rows, "", left_columns=1)


def _or_blank(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"{seconds:.1f} s"


def line(run: Document) -> str:
    """Return one scenario's result as a line."""
    job = f"{run['shape']} {run['ranks']}/{run['nodes']} {run['pace']} {run['step_seconds']:.2f} s"
    answers = "; ".join(map(_answer_text, run["answers"])) or "healthy"
    wrong = (
        f"; FALSE {'; '.join(incident[:90] for incident in run['false'])}" if run["false"] else ""
    )
    return f"{run['seed']}  {job}: {answers}{wrong}  [{run['cpu_seconds']:.0f} s]"


def _answer_text(answer: Document) -> str:
    fault = f"{answer['fault']} x{answer['effect']:.2f}/{answer['period']} {answer['cost']:.0%}"
    if not answer["found"]:
        return f"{fault} {'MISSED' if answer['required'] else 'not found, need not be'}"
    wrong = [name for name in ("rank", "phase", "cause", "node") if answer[name] is False]
    verdict = f"WRONG {' '.join(wrong)} ({answer['named']})" if wrong else "right"
    return f"{fault} {verdict} after {answer['seconds']:.0f} s"


def _seconds(answers: Iterable[Document]) -> list[float]:
    return _quantiles(answer["seconds"] for answer in answers if answer["required"])


def _quantiles(values: Iterable[float]) -> list[float]:
    sample = list(values)
    return [quantile(sample, 0.5), quantile(sample, 0.9)]


def _soon(answer: Document) -> bool:
    """Return whether the fault was found as soon as slow steps have to be."""
    return bool(answer["found"]) and answer["seconds"] <= SOON_SECONDS


OVER_SECONDS = 60.0


def _is_over_soon(answer: Document) -> bool:
    """Return whether the incident ended soon after the fault; null stands for never."""
    return answer.get("over") is not None and answer["over"] <= OVER_SECONDS


def _is_felt(answer: Document) -> bool:
    """Return whether the fault slows or stops the job."""
    return bool(answer["stops"] or answer["cost"] > 0)


def _costs(answer: Document) -> bool:
    """Return whether the fault slows the job by enough."""
    return bool(not answer["stops"] and answer["cost"] >= LEAST_COST)


def _marginal_cost(answer: Document) -> float:
    """Return the gain if this fault alone were removed; older results only have its own cost."""
    marginal_cost = answer.get("beside")
    return float(answer["cost"] if marginal_cost is None else marginal_cost)


def _shows(answer: Document) -> float:
    """Return seconds from the fault to the first slowed step's end; NaN in older results."""
    shows = answer.get("shows")
    return math.nan if shows is None else float(shows)


def _is_doubled(answer: Document) -> bool:
    """Return whether the fault was named, and each step takes at least twice as long."""
    slows = answer["required"] and not answer["stops"] and answer["cost"] >= LEAST_COST
    return bool(slows and answer["found"] and answer["effect"] >= 2 and answer["period"] == 1)
