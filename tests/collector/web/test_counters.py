"""No exported counter falls while a collector runs, whatever order its segments come in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import job, live
from stepwatch.collector.store import Store
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals import names
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent
from stepwatch.signals.wire import Rows, Segment
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)

WORLD, ATTEMPTS = 4, 3
NODES = {"node-0": range(2), "node-1": range(2, 4)}
Counts = dict[tuple[str, ...], float]


def counters(service: Service) -> Counts:
    """Every sample of a counter or histogram by name and labels, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *(f"{key}={sample.labels[key]}" for key in sorted(sample.labels))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def value_of(
    service: Service, metric: names.Metric, suffix: str = "", **labels: str
) -> float | None:
    """One sample of the job; None where it is not exported."""
    wanted = {names.JOB: JOB, **labels}
    key = (metric.name + suffix, *(f"{name}={wanted[name]}" for name in sorted(wanted)))
    return counters(service).get(key)


def two_ranks(
    steps: range, seconds: float, ranks: range, *, time_s: float = 1.0
) -> dict[Kind, Rows]:
    states = state_rows(ranks, WORLD, time_s)
    return {Kind.STEP: step_rows(steps, ranks, seconds), Kind.RANK_STATE: states}


def test_a_step_counts_once_its_slowest_rank_reported(service: Service) -> None:
    fast = two_ranks(range(10), 0.3, range(2))
    service.receive(body([segment(1, fast, node="node-0")]))
    bucket_before = value_of(service, names.STEP_DURATION, "_bucket", le="0.5") or 0.0
    late_tables = two_ranks(range(10), 0.8, range(2, 4))
    service.receive(body([segment(1, late_tables, node="node-1")]))
    assert value_of(service, names.STEP_DURATION, "_bucket", le="0.5") == 0.0 >= bucket_before
    assert value_of(service, names.STEP_DURATION, "_bucket", le="1.0") == 10.0


def test_a_step_that_a_rank_never_reports_counts_when_a_later_one_is_complete(
    service: Service,
) -> None:
    service.receive(body([segment(1, two_ranks(range(4), 0.3, range(2)), node="node-0")]))
    service.receive(body([segment(1, two_ranks(range(2, 3), 0.3, range(2, 4)), node="node-1")]))
    assert value_of(service, names.STEP_DURATION, "_count") == 3.0
    assert value_of(service, names.JOB_TOKENS) == 10 * 100


def test_steps_are_not_awaited_for_ever(service: Service) -> None:
    service.receive(body([segment(1, two_ranks(range(100), 0.3, range(2)), node="node-0")]))
    assert value_of(service, names.STEP_DURATION, "_count") == 100 - 64


def test_a_relaunch_under_the_same_number_takes_nothing_back(service: Service) -> None:
    service.receive(body(run_segments(10)))
    counted = counters(service)
    failed = lifecycle_rows(LifecycleEvent.FAILURE, range(4), time_s=2.0)
    started = lifecycle_rows(LifecycleEvent.START, range(4), 4, time_s=3.0)
    service.receive(body([segment(20, {Kind.LIFECYCLE: failed})]))
    service.receive(body([segment(21, {Kind.LIFECYCLE: started})]))
    assert not fallen(counted, counters(service))
    assert value_of(service, names.JOB_TOKENS) == 10 * 4 * 100


def test_what_changes_its_mind_is_a_gauge(service: Service) -> None:
    events = (CheckpointEvent.WRITTEN, CheckpointEvent.VERIFIED, CheckpointEvent.REJECTED)
    scrapes: list[Counts] = []
    for number, event in enumerate(events):
        rows = checkpoint_rows(event, [0], 10)
        service.receive(body([*run_segments(5), segment(50 + number, {Kind.CHECKPOINT: rows})]))
        scrapes.append(counters(service))
    assert not any(fallen(*pair) for pair in itertools.pairwise(scrapes))
    assert value_of(service, names.CHECKPOINTS, outcome="verified") == 1.0
    assert value_of(service, names.CHECKPOINTS, outcome="failed") == 1.0


def fallen(earlier: Counts, later: Counts) -> dict[tuple[str, ...], tuple[float, float]]:
    """Counters that both scrapes hold and that are lower in the second."""
    common_keys = earlier.keys() & later.keys()
    return {key: (earlier[key], later[key]) for key in common_keys if later[key] < earlier[key]}


def pool() -> list[Segment]:
    """What a run of three attempts may send: steps by node, starts, ends, checkpoints."""
    return list(_pool())


def _pool() -> Iterator[Segment]:
    sequence = 0
    for attempt in range(ATTEMPTS):
        for node, ranks in NODES.items():
            for first in range(0, 24, 4):
                sequence += 1
                seconds = 0.04 * (1 + (sequence * 7) % 11)
                tables = two_ranks(range(first, first + 4), seconds, ranks, time_s=first + 4.0)
                yield segment(sequence, tables, attempt=attempt, node=node)
            for event in (LifecycleEvent.START, LifecycleEvent.FINISH, LifecycleEvent.FAILURE):
                sequence += 1
                rows = lifecycle_rows(event, ranks, WORLD, time_s=30.0)
                yield segment(sequence, {Kind.LIFECYCLE: rows}, attempt=attempt, node=node)
        for ending in CheckpointEvent:
            for step in (8, 16):
                sequence += 1
                rows = checkpoint_rows(ending, [0], step)
                yield segment(sequence, {Kind.CHECKPOINT: rows}, attempt=attempt)


POOL = pool()
OTHER = run_segments(5, job="other-job")


class Scrapes:
    """One store, one collector process after another, and the highest value of each counter."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = HandClock(60.0)
        self.sent = 0
        self.start()

    def start(self) -> None:
        self.service = Service(self.store, self.clock)
        self.seen = counters(self.service)

    def restart(self) -> None:
        earlier = {key: value for key, value in self.seen.items() if f"{names.JOB}={JOB}" in key}
        live = self.service.job(JOB) is not None
        self.start()
        for key, value in earlier.items():
            now = self.seen.get(key, 0.0)
            assert now in (0.0, value) if live else now == 0.0 or now >= value, key

    def send(self, item: Segment, *, new_key: bool) -> None:
        """Send a segment; `anew`: an agent with an empty spool sends its rows once more."""
        self.sent += 1
        key = item.key._replace(sequence=1000 + self.sent) if new_key else item.key
        self.service.receive(body([item._replace(key=key)]))
        self.clock.advance(1.0)
        self.service.evaluate()
        self.scrape()

    def other_job(self) -> None:
        self.send(OTHER[0], new_key=True)

    def scrape(self) -> None:
        now = counters(self.service)
        assert not fallen(self.seen, now)
        assert all(math.isfinite(value) for value in now.values())
        self.seen |= now


ACTION = st.one_of(
    st.tuples(st.just("send"), st.integers(0, len(POOL) - 1)),
    st.tuples(st.just("send"), st.integers(0, len(POOL) - 1)),
    st.tuples(st.just("anew"), st.integers(0, len(POOL) - 1)),
    st.tuples(st.sampled_from(["evict", "restart"]), st.just(0)),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(actions=st.lists(ACTION, min_size=10, max_size=50), cells=st.sampled_from([1 << 24, 3000]))
def test_no_counter_falls_in_a_random_history(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]], cells: int
) -> None:
    store = Store.sqlite(tmp_path_factory.mktemp("store") / "s.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "MAX_JOBS", 1)
        patch.setattr(job, "MAX_ATTEMPTS", 2)
        patch.setattr(job, "MAX_JOB_CELLS", cells)
        scrapes = Scrapes(store)
        for action, index in actions:
            if action == "restart":
                scrapes.restart()
            elif action == "evict":
                scrapes.other_job()
            else:
                scrapes.send(POOL[index], new_key=action == "anew")
    store.close()


def test_a_collector_that_starts_again_continues_its_counters(store: Store) -> None:
    scrapes = Scrapes(store)
    for item in POOL:
        scrapes.send(item, new_key=False)
    earlier = scrapes.seen
    scrapes.restart()
    job_keys = {key for key in earlier if f"{names.JOB}={JOB}" in key}
    assert job_keys and all(scrapes.seen[key] == earlier[key] for key in job_keys)
