"""The table for people and the document for programs."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from stepwatch.cli import text

from .run import Ran
from .scoring import Score, Totals, score, totals

_HEADINGS = ["case", "runs", "precision", "recall", "rank", "phase", "cause", "p50", "p90", "false"]
_GOAL = ["goal", "", "0.99", "0.99", "0.97", "0.97", "0.97", "", "10.0 s", ""]


def table(runs: Sequence[Ran]) -> str:
    """Return one row per case, healthy cases after faults, then all together."""
    scored = [(ran, score(ran.outcome)) for ran in runs if not ran.problem]
    names = dict.fromkeys(ran.case.name for ran, _ in scored)
    rows = [
        _row(name, totals([run_score for ran, run_score in scored if ran.case.name == name]))
        for name in names
    ]
    rows += [_row("all", totals([run_score for _, run_score in scored])), _GOAL]
    return text.table(_HEADINGS, rows, "", left_columns=1)


def document(runs: Sequence[Ran], half: str) -> dict[str, Any]:
    """Return one row per run, and the totals; unknown values are null."""
    scored = [(ran, score(ran.outcome)) for ran in runs]
    sound = [run_score for ran, run_score in scored if not ran.problem]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "half": half,
        "python": platform.python_version(),
        "torch": version("torch"),
        "stepwatch": version("stepwatch"),
        "totals": _finite(totals(sound)._asdict()),
        "runs": [_run(ran, run_score) for ran, run_score in scored],
    }


def line(ran: Ran) -> str:
    """Return one run's result as a line."""
    run_score = score(ran.outcome)
    shown = "; ".join(
        f"{item.kind} rank {item.rank} {item.phase} {item.cause}" for item in ran.outcome.verdicts
    )
    if ran.problem:
        word = f"BROKEN ({ran.problem})"
    elif run_score.found is None:
        word = "false alarm" if run_score.false else "quiet"
    else:
        wrong = [name for name in ("rank", "phase", "cause") if getattr(run_score, name) is False]
        wrong += ["more than one"] if run_score.false else []
        word = (
            "MISSED" if not run_score.found else ("wrong " + ", ".join(wrong) if wrong else "right")
        )
    latency = "" if math.isnan(run_score.seconds) else f" after {run_score.seconds:.1f} s"
    return f"{word}{latency}: {shown or 'no verdict'}  [{ran.wall_seconds:.0f} s]"


def _row(name: str, sums: Totals) -> list[str]:
    ratios = (sums.precision, sums.recall, sums.rank, sums.phase, sums.cause)
    return [
        name,
        str(sums.runs),
        *("" if math.isnan(value) else f"{value:.2f}" for value in ratios),
        *("" if math.isnan(value) else f"{value:.1f} s" for value in (sums.p50, sums.p90)),
        str(sums.false),
    ]


def _run(ran: Ran, run_score: Score) -> dict[str, Any]:
    truth = ran.outcome.truth
    fields = {} if truth is None else truth._asdict()
    return {
        "case": ran.case.name,
        "seed": ran.case.seed,
        "half": ran.case.half,
        "ranks": ran.case.plan.world,
        "faults": ran.case.plan.described_faults(),
        "truth": {key: _plain(value) for key, value in fields.items()} or None,
        "verdicts": [item._asdict() for item in ran.outcome.verdicts],
        "seconds": _finite(run_score.seconds),
        "step_seconds": _finite(ran.step_seconds),
        "problem": ran.problem,
        **{name: getattr(run_score, name) for name in ("found", "rank", "phase", "cause", "false")},
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
