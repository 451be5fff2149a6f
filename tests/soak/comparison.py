"""Checks after a soak: stored segments and incidents, compared with the expected ones.

Every check is pure, so that tests can show that it fails on a store that lost or doubled a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Rows

from .counters import Falls
from .receipts import ACCEPTED, DIGEST, DUPLICATE, KEY, OTHER, SENT

BEGAN_SECONDS, SINCE_STEPS = 5.0, 5
"""Tolerances of a disturbed incident: its begin, and its first step."""
OPENED_SECONDS = 60.0
"""Further delay of an incident beyond the longest gap without an answer: windows refill."""
_RELATIVE, _ABSOLUTE = 1e-9, 1e-6
"""Sums of the same floats in another order differ by so much at most."""
_KEYS = [name for name, _ in KEY]
_IDENTITY_FIELDS = [*_KEYS, *(name for name, _ in DIGEST)]
_TIMES = ("good", "total", "cumulative_good", "cumulative_total")


class Check(NamedTuple):
    """A claim, the details, and whether it holds."""

    claim: str
    detail: str
    holds: bool


def stored_once(receipts: Rows, stored: Rows) -> Iterator[Check]:
    """Check that all acknowledged segments are stored once, with the content that was sent."""
    tries = receipts[receipts["what"] == SENT]
    sent, times = np.unique(tries[_IDENTITY_FIELDS], return_counts=True)
    acknowledgements = receipts[np.isin(receipts["what"], (ACCEPTED, DUPLICATE))]
    acknowledged = np.unique(acknowledgements[_IDENTITY_FIELDS])
    repeated = int((receipts["what"] == DUPLICATE).sum())
    refused = int((receipts["what"] == OTHER).sum())
    open_tries = len(sent) - len(acknowledged)
    yield Check(
        "sent segments were acknowledged",
        f"{len(acknowledged):,} of {len(sent):,}; {int((times > 1).sum()):,} sent more than once, "
        f"{repeated:,} known already, {refused} refused",
        open_tries == 0 and refused == 0 and len(sent) > 0,
    )
    keys, counts = np.unique(
        acknowledgements[acknowledgements["what"] == ACCEPTED][_KEYS], return_counts=True
    )
    twice = int((counts > 1).sum())
    yield Check("no segment was new twice", f"{twice} of {len(keys):,}", twice == 0)
    stored_keys = stored[_IDENTITY_FIELDS]
    lost = int((~np.isin(acknowledged[_KEYS], stored_keys[_KEYS])).sum())
    yield Check("acknowledged segments are stored", f"{lost} lost", lost == 0)
    doubled = len(stored_keys) - len(np.unique(stored_keys[_KEYS]))
    yield Check("each is stored once", f"{doubled} doubled", doubled == 0)
    differing = int((~np.isin(stored_keys, sent)).sum())
    yield Check("with the content that was sent", f"{differing} differ", differing == 0)


def positions_once(positions: Rows) -> Check:
    """Positions of a job's segments are 1, 2, 3 ... without repeats."""
    numbers = positions.astype(np.int64)
    repeats = len(numbers) - len(np.unique(numbers))
    last = int(numbers.max(initial=0))
    return Check(
        "positions do not repeat, none is missing",
        f"1 to {last:,}, {repeats} repeated, {last - len(numbers) + repeats} missing",
        repeats == 0 and last == len(numbers) and bool((numbers > 0).all()),
    )


def records_once(steps: Rows, ranks: int, count: int) -> Check:
    """Each rank reported each step once."""
    counts = np.zeros((count, ranks), dtype=np.int64)
    inside = (steps["step"] < count) & (steps["rank"] < ranks)
    np.add.at(counts, (steps["step"][inside], steps["rank"][inside]), 1)
    missing, more = int((counts == 0).sum()), int((counts > 1).sum()) + int((~inside).sum())
    return Check(
        "each rank's step is there once",
        f"{len(steps):,} records, {missing} missing, {more} too many",
        missing == 0 and more == 0,
    )


def same_slices(sli: str, stored: Rows, expected: Rows) -> Check:
    """Check that an SLI's slices equal those of brute force; empty slices in between do not
    count."""
    stored = stored[(stored["observed"] > 0) | (stored["total"] > 0)]
    title = f"slices of {sli} equal brute force"
    if list(stored["start_s"]) != list(expected["start_s"]):
        differing = np.setxor1d(stored["start_s"], expected["start_s"])
        return Check(title, f"{len(differing)} of {len(expected)} are only in one of them", False)
    wrong = np.zeros(len(expected), dtype=np.bool_)
    for name in ("observed", "expected"):
        wrong |= stored[name] != expected[name]
    largest = 0.0
    for name in _TIMES:
        apart = np.abs(stored[name] - expected[name])
        wrong |= apart > _ABSOLUTE + _RELATIVE * np.abs(expected[name])
        largest = max(largest, float(apart.max(initial=0.0)))
    words = f"{len(expected)} slices, {int(wrong.sum())} differ, at most by {largest:.1e} s"
    for index in np.flatnonzero(wrong)[:3].tolist():
        apart = [f"{name} {stored[name][index] - expected[name][index]:+.1e}" for name in _TIMES]
        words += f"; number {index}: {', '.join(apart)}"
    return Check(title, words, not wrong.any() and len(expected) > 0)


Incidents = Sequence[Mapping[str, Any]]


def same_incidents(
    incidents: Incidents, expected: Incidents, longest_gap: float
) -> Iterator[Check]:
    """Check that the incidents equal those of the undisturbed run, except when they opened."""
    ours, expected_shown = _describe(incidents), _describe(expected)
    names = [_name(incident) for incident in expected_shown]
    missing = [name for name in names if names.count(name) > _names(ours).count(name)]
    more = [name for name in _names(ours) if _names(ours).count(name) > names.count(name)]
    words = f"{len(ours)}, undisturbed {len(expected_shown)}: {'; '.join(names) or 'none'}"
    words += f"; missing: {', '.join(missing)}" if missing else ""
    words += f"; not in the undisturbed run: {', '.join(more)}" if more else ""
    yield Check("incidents as in an undisturbed run", words, not missing and not more)
    if missing or more:
        return
    apart = [
        (a["began_at"] - b["began_at"], a["since_step"] - b["since_step"],
         a["opened_at"] - b["opened_at"])
        for a, b in zip(ours, expected_shown, strict=True)
    ]  # fmt: skip
    began = max((abs(gaps[0]) for gaps in apart), default=0.0)
    since = max((abs(gaps[1]) for gaps in apart), default=0)
    later = [gaps[2] for gaps in apart]
    limit = longest_gap + OPENED_SECONDS
    yield Check(
        "their times",
        f"began up to {began:.1f} s and {since} steps apart (limits {BEGAN_SECONDS:.0f} s, "
        f"{SINCE_STEPS}), opened {min(later, default=0.0):+.1f} to {max(later, default=0.0):+.1f} s"
        f" later (limit {limit:.0f} s)",
        began <= BEGAN_SECONDS
        and since <= SINCE_STEPS
        and all(-OPENED_SECONDS <= delay <= limit for delay in later),
    )


def faults_found(faults: Sequence[str], incidents: Incidents) -> Check:
    """Each injected fault has an incident of its step."""
    steps = [int(fault.split("step=")[1].split(",")[0]) for fault in faults]
    since_steps = [incident["since_step"] for incident in _describe(incidents)]
    missed = [
        fault
        for fault, step in zip(faults, steps, strict=True)
        if not any(abs(step - since_step) <= SINCE_STEPS for since_step in since_steps)
    ]
    words = f"{len(faults) - len(missed)} of {len(faults)}"
    words += f"; not {', '.join(missed)}" if missed else ""
    return Check("injected faults have incidents", words, not missed)


def never_fell(falls: Falls) -> Check:
    """No counter of `/metrics` fell."""
    worst = [
        f"{fall.series} {fall.previous:g} -> {fall.current:g}"
        f"{'' if fall.within_a_life else ' over a restart'}"
        for fall in falls.drops[:3]
    ]
    words = f"{len(falls.drops)} falls in {falls.readings:,} readings of {falls.series} series"
    words += f": {'; '.join(worst)}" if worst else ""
    return Check("counters of /metrics never fell", words, not falls.drops and falls.series > 0)


def _describe(incidents: Incidents) -> list[Mapping[str, Any]]:
    """Return the visible incidents in an order that does not depend on when they opened."""
    shown = [incident for incident in incidents if incident["state"] != "merged"]
    return sorted(shown, key=lambda incident: (_name(incident), incident["began_at"]))


def _names(incidents: Incidents) -> list[str]:
    return [_name(incident) for incident in incidents]


def _name(incident: Mapping[str, Any]) -> str:
    rank = f" rank {incident['rank']}" if incident["rank"] >= 0 else ""
    return f"{incident['kind']}{rank} {incident['cause']}"
