"""One trial of a sweep: its configuration, its cost, and the extremes of its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.history.curves import CURVES
from stepwatch.collector.web.job_view import cost_so_far
from stepwatch.collector.web.schema.sweep import Extremes

MOST_SETTINGS = 64
"""Settings per answer: a sweep changes a few."""


class _Unmade(NamedTuple):
    """A trial as copied under the lock."""

    fields: dict[str, Any]
    curves: Any


def _copied(job: LiveJob, verdicts: Verdicts, now: float) -> _Unmade:
    attempt = job.current
    fields = {
        "facts": attempt.tracker(RunFacts).facts(),
        "began_at": attempt.lifecycle.began_s,
        "device_seconds": sum(verdicts.accounts.seconds().values()),
        "cost": cost_so_far(job, verdicts),
    }
    return _Unmade(fields, CURVES.make(job, verdicts, now))


def _finished(unmade: _Unmade) -> bytes:
    return encoded({**unmade.fields, "metrics": [*_extremes(CURVES.finish(unmade.curves))]})


def _extremes(curves: Any) -> Iterator[Extremes]:
    for name in curves.names:
        points = curves.points(name)
        known = np.isfinite(points.least) & np.isfinite(points.greatest)
        yield {
            "name": name.name,
            "evaluation": name.evaluation,
            "unit": name.unit,
            "better": name.better,
            "least": float(points.least[known].min()) if known.any() else None,
            "greatest": float(points.greatest[known].max()) if known.any() else None,
            "last": float(points.last[-1]) if len(points.last) else None,
            "non_finite": int(points.non_finite.sum()),
        }


def differing(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of at most `MOST_SETTINGS` settings whose values are not all the same.

    Those that most trials report come first.
    """
    counts: dict[str, int] = {}
    values: dict[str, set[str]] = {}
    for trial_facts in facts:
        for name, value in trial_facts.items():
            counts[name] = counts.get(name, 0) + 1
            values.setdefault(name, set()).add(value)
    names = [name for name in counts if len(values[name]) > 1 or counts[name] < len(facts)]
    return sorted(names, key=lambda name: (-counts[name], name))[:MOST_SETTINGS]


TRIAL = View("trial", _copied, _finished, kept_seconds=0.0)
"""Made on request only: a page of hundreds of trials would renew each of them."""
