"""The history of replicas: counts of updates decide which digests are comparable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect import replica_drift, silent_corruption
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.signals.names import Cause
from stepwatch.signals.records import DTYPES, UNKNOWN_EXCHANGES, Kind, NumericsSource
from stepwatch.signals.wire import Rows
from tests.collector.made import JOB, run_segments

GROUPS = {7: Group(4, "0-3"), 8: Group(2, "0,2")}
RANKS = {7: [0, 1, 2, 3], 8: [0, 2]}


def digests(
    step: int,
    values: list[int],
    exchanges: int | list[int] = UNKNOWN_EXCHANGES,
    local: int = 0,
    group: int = 7,
) -> Rows:
    """One part's digests from a group's ranks in one step."""
    table = np.zeros(len(values), dtype=DTYPES[Kind.NUMERICS])
    table["rank"], table["digest"], table["exchanges"] = RANKS[group], values, exchanges
    table["step"], table["digest_group"], table["local_updates"] = step, group, local
    table["source"] = NumericsSource.PARAMETERS
    return table


def findings_of(*rows: Rows) -> list[Finding]:
    """What both detectors find when each table arrives on its own."""
    numerics = Numerics()
    for table in rows:
        numerics.add(table, 4)
        disputes = numerics.compare(GROUPS)
    replicas = numerics.replicas
    drift = replica_drift.detect(replicas.apart.values(), replicas.skips.values(), {})
    return drift + silent_corruption.detect(disputes, silent_corruption.LIMITS)


SAME, FLIPPED, APART = [5] * 4, [5, 5, 6, 5], [1, 2, 3, 4]


def test_replicas_that_never_agreed_drift_if_their_updates_are_counted() -> None:
    (finding,) = findings_of(digests(7, APART, 0), digests(8, APART, 0))
    assert (finding.cause, finding.rank, finding.began_step) == (
        Cause.NO_GRADIENT_EXCHANGE,
        NO_RANK,
        7,
    )
    (finding,) = findings_of(digests(7, FLIPPED, 8), digests(8, FLIPPED, 9))
    assert finding.cause == Cause.DIFFERENT_START
    other_part = digests(15, SAME, 16)
    other_part["digest_part"] = 1
    (finding,) = findings_of(digests(7, FLIPPED, 8), digests(8, FLIPPED, 9), other_part)
    assert finding.cause == Cause.DIFFERENT_START
    assert findings_of(digests(7, APART, 0)) == []
    assert findings_of(digests(7, APART), digests(8, APART)) == []
    assert findings_of(digests(7, APART, 0), digests(8, APART, 0), digests(15, SAME, 0)) == []


def test_a_difference_between_equally_many_updates_is_corruption() -> None:
    history = digests(7, SAME, 8), digests(15, FLIPPED, 16), digests(16, FLIPPED, 17)
    (finding,) = findings_of(*history)
    assert (finding.kind.value, finding.rank) == ("silent-corruption", 2)


@pytest.mark.parametrize("more", [1, 3])
def test_a_rank_with_fewer_updates_skipped_them(more: int) -> None:
    behind = [16, 16, 16 - more, 16]
    (finding,) = findings_of(digests(7, SAME, 8), digests(15, FLIPPED, behind))
    assert (finding.cause, finding.rank, finding.began_step) == (Cause.SKIPPED_STEPS, 2, 15)
    assert finding.summary.startswith(f"rank 2 skipped {more} step")


def test_counts_that_begin_unequal_are_compared_from_the_last_agreement() -> None:
    late = [8, 8, 7, 8]
    assert findings_of(digests(7, SAME, late)) == []
    corrupt = digests(7, SAME, late), digests(15, FLIPPED, [16, 16, 15, 16])
    assert findings_of(*corrupt) == []
    (finding,) = findings_of(*corrupt, digests(16, FLIPPED, [17, 17, 16, 17]))
    assert finding.kind.value == "silent-corruption"
    (finding,) = findings_of(digests(7, SAME, late), digests(15, FLIPPED, [16, 16, 14, 16]))
    assert finding.cause == Cause.SKIPPED_STEPS and "1 step" in finding.summary


def test_a_difference_after_local_updates_is_planned_unless_it_stays_without_them() -> None:
    local = (digests(7, SAME, 8), digests(15, FLIPPED, 8, 8), digests(16, FLIPPED, 8, 1))
    assert findings_of(*local) == []
    lasting = digests(23, FLIPPED, 15), digests(24, FLIPPED, 16)
    (finding,) = findings_of(*local, *lasting)
    assert (finding.kind.value, finding.began_step) == ("silent-corruption", 23)


def test_local_updates_after_which_replicas_agree_at_once_excuse_nothing() -> None:
    agree = digests(7, SAME, 0, 8), digests(8, SAME, 0, 1)
    (finding,) = findings_of(*agree, digests(15, FLIPPED, 0, 7), digests(16, FLIPPED, 0, 1))
    assert finding.kind.value == "silent-corruption"


@given(st.integers(2, 40), st.integers(0, 30))
def test_a_period_of_averaging_is_no_finding_whatever_its_begin(period: int, warmup: int) -> None:
    numerics, previous = Numerics(), -1
    for step in range(1200):
        if (step + 1) % 8 < 2 and step >= 7:
            equal = step < warmup or (step - warmup) % period == 0
            values = [step, step if equal else step + 1]
            local = max(0, step + 1 - max(previous + 1, warmup))
            numerics.add(digests(step, values, min(step + 1, warmup), local, group=8), 4)
            assert numerics.compare(GROUPS) == []
            previous = step
    assert not numerics.replicas.apart and not numerics.replicas.skips
    for averaging in numerics.replicas.averaging.values():  # none if no digest meets an averaging
        assert averaging.period % period == 0


def test_a_snapshot_keeps_the_history() -> None:
    job = LiveJob(JOB)
    tables = (
        digests(7, SAME, 8),
        digests(15, FLIPPED, [16, 16, 15, 16]),
        digests(7, [1, 2], 0, group=8),
        digests(8, [1, 2], 0, group=8),
    )
    for item in run_segments(5):
        job.apply(item, Received(0.0, 0.0))
    job.current.tracker(Numerics).add(np.concatenate(tables), 4)
    job.current.tracker(Numerics).compare(GROUPS)
    restored = put_together(taken_apart(job))
    assert isinstance(restored, LiveJob)
    before, after = (each.current.tracker(Numerics).replicas for each in (job, restored))
    assert before.skips == after.skips and len(after.skips) == 1
    assert before.apart == after.apart and len(after.apart) == 1
