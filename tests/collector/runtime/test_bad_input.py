"""A healthy run of which some records are wrong, missing, late or repeated: nobody is called out.

What is found may be that something is not known. It is never that a rank is slow or that the job
hangs, and no evaluation fails.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment
from tests.collector.made import HandClock, body, lifecycle_rows, run_segments

WORLD, STEPS, SECONDS, EACH = 4, 90, 0.2, 5
"""Each segment holds so many steps."""
UNKNOWN = {"telemetry-lost"}
"""Kinds that say what is not known."""
Run = list[Segment]
numbers = st.integers(0, STEPS // EACH - 1)
ranks = st.integers(0, WORLD - 1)


def healthy(seed: int) -> Run:
    """A run in which each rank works a few percent more or less in each step."""
    noise, segments = np.random.default_rng(seed), []
    for item in run_segments(STEPS, WORLD, SECONDS):
        rows = item.tables[Kind.STEP].copy()
        for name in ("forward_ns", "backward_ns"):
            more = 0.03 * rows[name] * np.clip(noise.standard_normal(len(rows)), -3, 3)
            rows[name] = (rows[name] + more).astype(np.uint64)
            rows["collective_ns"] = (rows["collective_ns"] - more).astype(np.uint64)
        segments.append(item._replace(tables={**item.tables, Kind.STEP: rows}))
    return segments


def tokens(rank: int, value: int) -> Callable[[Run], Run]:
    """A rank's work counts lie."""

    def change(run: Run) -> Run:
        for item in run:
            rows = item.tables[Kind.STEP]
            rows["tokens"][rows["rank"] == rank] = value
        return run

    return change


def random_tokens(seed: int) -> Callable[[Run], Run]:
    """All work counts are nonsense."""
    noise = np.random.default_rng(seed)

    def change(run: Run) -> Run:
        for item in run:
            rows = item.tables[Kind.STEP]
            rows["tokens"] = noise.integers(0, 2**32, len(rows), dtype=np.uint32)
        return run

    return change


def lost(first: int, count: int) -> Callable[[Run], Run]:
    """Segments are missing."""
    return lambda run: run[:first] + run[first + count :]


def repeated(place: int) -> Callable[[Run], Run]:
    """A segment comes once more, under another number."""

    def change(run: Run) -> Run:
        item = run[min(place, len(run) - 1)]
        duplicate = item._replace(key=item.key._replace(sequence=1000 + len(run)))
        return [*run, duplicate]

    return change


def exchanged(place: int) -> Callable[[Run], Run]:
    """Two segments come in the wrong order."""
    return lambda run: [*run[:place], *run[place : place + 2][::-1], *run[place + 2 :]]


def silent(rank: int, first: int, count: int) -> Callable[[Run], Run]:
    """A rank's records are missing for a while: it comes late, vanishes, or has a gap."""

    def change(run: Run) -> Run:
        for index, item in enumerate(run):
            if first <= index < first + count:
                tables = dict(item.tables)
                for kind in tables.keys() - {Kind.LIFECYCLE}:
                    tables[kind] = tables[kind][tables[kind]["rank"] != rank]
                run[index] = item._replace(tables=tables)
        return run

    return change


def clock_set(first: int, seconds: int) -> Callable[[Run], Run]:
    """The node's wall clock is set."""

    def change(run: Run) -> Run:
        for index in range(min(first, len(run)), len(run)):
            clock = run[index].clock
            moved = clock._replace(wall_ns=clock.wall_ns + seconds * NANOSECONDS)
            run[index] = run[index]._replace(clock=moved)
        return run

    return change


def odd_values(name: str, place: int, value: float) -> Callable[[Run], Run]:
    """A field that times nothing holds what it should not."""

    def change(run: Run) -> Run:
        rows = run[min(place, len(run) - 1)].tables[Kind.STEP]
        rows[name] = value
        return run

    return change


def overlapping(first: int) -> Callable[[Run], Run]:
    """A later attempt begins while the one before still reports: its last records are late."""

    def change(run: Run) -> Run:
        began = min(first, len(run) - 1)
        later = []
        for offset, item in enumerate(run[began:]):
            tables = dict(item.tables)
            if not offset:
                tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD)
            key = item.key._replace(attempt=1, spool=8, sequence=offset + 1)
            later.append(item._replace(key=key, tables=tables))
        mixed = [segment for pair in zip(run[began:], later, strict=True) for segment in pair]
        return [*run[:began], *mixed]

    return change


CHANGES = st.one_of(
    st.builds(tokens, ranks, st.sampled_from([0, 1, 2**31, 2**32 - 1])),
    st.builds(random_tokens, st.integers(0, 99)),
    st.builds(lost, numbers, st.integers(1, 6)),
    st.builds(repeated, numbers),
    st.builds(exchanged, numbers),
    st.builds(silent, ranks, numbers, st.integers(1, 20)),
    st.builds(clock_set, numbers, st.sampled_from([-3600, -30, 30, 3600])),
    st.builds(odd_values, st.just("microbatches"), numbers, st.sampled_from([0, 2**15])),
    st.builds(odd_values, st.just("pipeline_wait_ns"), numbers, st.just(0)),
    st.builds(overlapping, numbers),
)


@settings(max_examples=40, deadline=None)
@example([random_tokens(0), tokens(1, 2**32 - 1)], 0)
@given(st.lists(CHANGES, min_size=1, max_size=3), st.integers(0, 5))
def test_records_that_are_wrong_call_nobody_out(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[Callable[[Run], Run]],
    seed: int,
) -> None:
    run = healthy(seed)
    for change in changes:
        run = change(run)
    store, clock = Store.sqlite(tmp_path_factory.mktemp("bad") / "store.db"), HandClock()
    service = Service(store, clock)
    for item in run:
        clock.advance(EACH * SECONDS)
        (got,) = service.receive(body([item]))
        assert got.verdict in ("accepted", "duplicate")
        service.evaluate()
    assert service.evaluation_failures == 0 and service.withheld() == {}
    called = [
        (item.kind, item.rank, item.summary)
        for _, verdicts in service.jobs_now()[0]
        for item in verdicts.incidents.values()
        if item.kind not in UNKNOWN
    ]
    store.close()
    assert called == []
