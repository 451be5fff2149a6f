"""Slow sends and receives between pipeline stages: ranks wait although no stage works longer.

The wait between stages grows with their work, and with the transfer time. The wait that remains
after subtracting all growth in stage work since the run's first steps is the transfer.

    stage 0 works 0.2 s as before, stage 1 too; each waits 0.9 s instead of 0.1 s: 0.8 s transfer
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Confidence, Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import ranks_text

from .detector import fewest_long
from .thresholds import Thresholds

Pair = tuple[int, int]
"""Two neighbouring stages, the lower first."""
BASELINE = "baseline"
SUBJECT = "pipeline"
"""The subject of the single finding that can exist at a time."""


class Waiting(NamedTuple):
    """How long a pipeline's ranks wait for neighbours; arrays (steps,) in seconds.

    `numbers` are the evaluated steps, `seconds` their durations and `wait` the mean over ranks.
    `usual` is the mean wait in the run's first steps. `more` is the wait growth explained by longer
    stage work since then, each stage by its slowest rank. `sends` maps a pair of stages to the
    blocked send seconds per step, empty if the trainer's sends are not visible. `ranks` maps a
    stage to its ranks. If `against` is not the baseline, `usual` and `more` are that reference's
    results for the steps' work.
    """

    numbers: Integers
    seconds: Vector
    wait: Vector
    more: Vector
    usual: float
    sends: Mapping[Pair, float]
    ranks: Mapping[int, list[int]]
    against: str = BASELINE


def detect_between_stages(waiting: Waiting, limits: Thresholds) -> list[Finding]:
    """Return at most one finding, about stage transfers; it names the pair if one is slow."""
    if len(waiting.numbers) < limits.certain_few_steps:
        return []
    excess = waiting.wait - waiting.usual - waiting.more
    slow = (excess >= limits.least_excess_ratio * waiting.seconds) & (
        waiting.wait >= limits.wait_ratio * waiting.usual
    )
    recent = slow[-limits.window_steps :]
    often = recent.sum() >= limits.least_steps and recent[-1]
    if not often and not _is_certain(waiting, excess, limits):
        return []
    since = first_of_run(slow)
    return [_finding(waiting, excess, since, slow_pair(waiting.sends, limits))]


def _is_certain(waiting: Waiting, excess: Vector, limits: Thresholds) -> bool:
    """Return whether the newest few steps' waits are far longer, if these steps are long."""
    fewest = fewest_long(waiting.seconds, limits)
    if fewest is None:
        return False
    newest = slice(-fewest, None)
    is_far = (excess[newest] >= limits.certain_wait_excess_ratio * waiting.seconds[newest]) & (
        waiting.wait[newest] >= limits.certain_wait_ratio * waiting.usual
    )
    return bool(is_far.all())


def slow_pair(sends: Mapping[Pair, float], limits: Thresholds) -> Pair | None:
    """Return the pair of stages whose sends block far longer than any other pair's."""
    if not sends:
        return None
    worst = max(sends, key=lambda pair: (sends[pair], pair))
    other_seconds = [seconds for pair, seconds in sends.items() if pair != worst]
    stands_out = sends[worst] >= limits.least_ratio * max(other_seconds, default=0.0)
    return worst if sends[worst] > 0 and stands_out else None


def names_of(pair: Pair | None, ranks: Mapping[int, list[int]]) -> tuple[str, str]:
    """Return the subject of a finding on stage transfers, and the place words for its summary.

    The subject is the same for all pairs: the pair may become known late, and the incident stays
    the same.
    """
    if pair is None:
        return SUBJECT, "between stages of the pipeline (which pair is not known)"
    members = ranks_text([*ranks[pair[0]], *ranks[pair[1]]])
    return SUBJECT, f"between stages {pair[0]} and {pair[1]} ({members})"


def confidence_in(pair: Pair | None) -> Confidence:
    """Return the confidence for a known pair, or for an unknown one."""
    return Confidence.ONE_OF if pair is None else Confidence.LIKELY


def _finding(waiting: Waiting, excess: Vector, since: int, pair: Pair | None) -> Finding:
    now, more = (float(np.median(series[since:])) for series in (waiting.wait, excess))
    seconds, first = float(np.median(waiting.seconds[since:])), int(waiting.numbers[since])
    lost = min(1.0, more / seconds)
    subject, place = names_of(pair, waiting.ranks)
    summary = (
        f"transfers {place} are slow since step {first}: ranks wait {in_words(now)} a step for "
        f"their neighbours, {waiting.against} {in_words(waiting.usual)}, and no stage works longer "
        f"by that; it takes {lost:.0%} of the step more"
    )
    against = f"{waiting.against} {in_words(waiting.usual)}"
    evidence = [Evidence("wait for pipeline neighbours per step", now, "seconds", against)]
    if waiting.against == BASELINE:
        longer = Evidence(
            "what all stages work longer per step",
            float(np.median(waiting.more[since:])),
            "seconds",
            "than in the run's first steps: it explains as much of the wait",
        )
        evidence.append(longer)
    if pair is not None:
        evidence.append(
            Evidence(
                f"blocked in sends between stages {pair[0]} and {pair[1]} per step",
                waiting.sends[pair],
                "seconds",
                f"the longest of {len(waiting.sends)} pairs",
            )
        )
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(waiting.seconds[since:].sum()),
        severity=more,
        ratio=now / waiting.usual if waiting.usual > 0 else float("nan"),
        lost_ratio=lost,
        evidence=evidence,
        subject=subject,
        confidence=confidence_in(pair),
    )
