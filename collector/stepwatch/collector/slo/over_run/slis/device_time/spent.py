"""Goodput and waste: the uses of allocated device-time."""

from __future__ import annotations

from collections.abc import Callable

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.slo.waste import CAUSES, Spent

_SHOWN = 3


def goodput(facts: JobFacts) -> Reading:
    """Measure preserved work as a share of the allocation."""
    window = facts.ratios.get("goodput")
    if window is None or not window.total:
        return unknown("no step is known")
    return Reading(float(window.good / window.total))


def waste(facts: JobFacts) -> Reading:
    """Measure the unproductive share, with the largest causes."""
    productive = facts.share(Spent.PRODUCTIVE)
    if productive.unknown:
        return productive
    most = sorted(
        ((facts.device_seconds.get(cause, 0.0), cause) for cause in CAUSES[1:]), reverse=True
    )[:_SHOWN]
    shares = [f"{cause} {lost / facts.allocated:.1%}" for lost, cause in most if lost > 0]
    return Reading(1.0 - productive.value, detail=", ".join(shares))


def _share(*causes: Spent) -> Callable[[JobFacts], Reading]:
    return lambda facts: facts.share(*causes)


SLIS = (
    RunSli(
        name="goodput",
        mission="",
        what="device-time of work that was preserved (ETTR)",
        formula="device-seconds in steps that no later attempt redoes / allocated",
        unit="ratio",
        weight="device-time",
        expected="0.95",
        trap="it falls afterwards: at a resume, work since the last save turns bad",
        needs="steps, starts and resumes",
        measure=goodput,
    ),
    RunSli(
        name="waste",
        mission="M14",
        what="allocated device-time that was not productive, by cause",
        formula="1 - productive / allocated",
        unit="ratio",
        weight="device-time",
        expected="as little as can be; each cause has its own remedy",
        trap="waiting inside goodput's steps is waste, too: the two do not sum to 1",
        needs="accounts",
        measure=waste,
    ),
    RunSli(
        name="data-wait",
        mission="",
        what="device-time waiting for the next batch",
        formula="phase data of all ranks / allocated",
        unit="ratio",
        weight="device-time",
        expected="below 0.02",
        trap="a loader that copies to the device counts as data, too",
        needs="the phase data",
        measure=_share(Spent.DATA_WAIT),
    ),
)
