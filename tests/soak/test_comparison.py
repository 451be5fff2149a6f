"""The comparison after a soak can fail: a real store, whole and then damaged."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.verbs import simulate
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.signals.arrays import Rows
from tests.soak import comparison, slices
from tests.soak.comparison import Check
from tests.soak.counters import Falls
from tests.soak.log import StoredLog, read_log
from tests.soak.plan import JOB
from tests.soak.receipts import ACCEPTED, Receipts, read
from tests.soak.reference import MovedClock, undisturbed_incidents

RANKS, STEPS = 16, 80
EPOCH_NS = 1_790_000_000 * 1_000_000_000


class SoakRun:
    """A run's receipts, log, slices and incidents."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.sqlite(folder / "store.db")
        self.clock = MovedClock(EPOCH_NS)
        self._receipts = Receipts(folder / "receipts")
        service = Service(self.store, self.clock)
        for number, body in enumerate(_bodies()):
            self.clock.now_ns += 125_000_000
            self._send(service, body)
            if number % 8 == 0:
                service.evaluate()
        service.evaluate()
        service.stop()
        service.run()  # saves the state, as a collector does at its end
        self.receipts = read(folder / "receipts")
        self.log = read_log(self.store, JOB, folder / "segments")
        self.incidents = self.store.incidents.newest(JOB)

    def _send(self, service: Service, body: bytes) -> None:
        segments = self._receipts.sent(body)
        verdicts = [verdict._asdict() for verdict in service.receive(body)]
        answer = json.dumps({"verdicts": verdicts})
        self._receipts.answered(segments, 200, answer.encode())


def _bodies() -> Iterator[bytes]:
    """Yield one request per flush of a node; the tenth twice, as after a lost answer."""
    words = ["--ranks", str(RANKS), "--steps", str(STEPS), "--step-seconds", "0.25", "--job", JOB]
    words += ["--flush-seconds", "0.25", "--fault", "slow-compute:rank=5,step=40"]
    parser = argparse.ArgumentParser()
    simulate.add_arguments(parser)
    plan = simulate.plan_of(parser.parse_args(words))
    for number, flush in enumerate(Fleet(plan, EPOCH_NS, spool=7, nodes_at_once=1).flushes()):
        yield b"".join(flush.segments)
        if number == 10:
            yield b"".join(flush.segments)


@pytest.fixture(scope="module")
def soak_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoakRun]:
    run = SoakRun(tmp_path_factory.mktemp("soaked"))
    yield run
    run.store.close()


def failed_claims(checks: Iterator[Check]) -> list[str]:
    return [check.claim for check in checks if not check.holds]


def test_a_whole_store_holds(soak_run: SoakRun) -> None:
    checks = [
        *comparison.stored_once(soak_run.receipts, soak_run.log.stored),
        comparison.positions_once(soak_run.log.stored["position"]),
        comparison.records_once(soak_run.log.steps, RANKS, STEPS),
        *(
            comparison.same_slices(sli, soak_run.store.slice_rows(JOB, sli), expected)
            for sli, expected in slices.brute_force(soak_run.log, RANKS).items()
        ),
    ]
    assert failed_claims(iter(checks)) == []
    assert "1 known already" in checks[0].detail
    assert len(checks) == 9


def test_incidents_of_the_undisturbed_run_are_found_and_compared(soak_run: SoakRun) -> None:
    lines: list[str] = []
    expected = undisturbed_incidents(soak_run.log, JOB, lines.append)
    assert [(item["kind"], item["rank"]) for item in expected] == [("straggler", 5)]
    assert failed_claims(comparison.same_incidents(soak_run.incidents, expected, 0.0)) == []
    assert comparison.faults_found(["slow-compute:rank=5,step=40"], expected).holds
    assert lines


def drop_row(rows: Rows, index: int) -> Rows:
    """Return all rows but one."""
    return np.delete(rows, index)


@pytest.mark.parametrize(
    ("damage", "noticed"),
    [
        (lambda rows: drop_row(rows, 3), "acknowledged segments are stored"),
        (lambda rows: np.append(rows, rows[3:4]), "each is stored once"),
        (lambda rows: alter(rows, "high"), "with the content that was sent"),
    ],
)
def test_a_segment_lost_doubled_or_changed_is_noticed(
    soak_run: SoakRun, damage: Any, noticed: str
) -> None:
    assert failed_claims(
        comparison.stored_once(soak_run.receipts, damage(soak_run.log.stored))
    ) == [noticed]


def alter(rows: Rows, name: str) -> Rows:
    """Return the rows with one changed column in the fourth."""
    copied = rows.copy()
    copied[name][3] += 1
    return copied


def test_a_segment_never_acknowledged_or_new_twice_is_noticed(soak_run: SoakRun) -> None:
    receipts, stored = soak_run.receipts, soak_run.log.stored
    accepted = np.flatnonzero(receipts["what"] == ACCEPTED)
    assert failed_claims(comparison.stored_once(drop_row(receipts, accepted[0]), stored)) == [
        "sent segments were acknowledged"
    ]
    repeated = np.append(receipts, receipts[accepted[:1]])
    assert failed_claims(comparison.stored_once(repeated, stored)) == ["no segment was new twice"]


def test_positions_and_records_that_repeat_or_miss_are_noticed(soak_run: SoakRun) -> None:
    positions, steps = soak_run.log.stored["position"], soak_run.log.steps
    for wrong in (drop_row(positions, 0), np.append(positions, positions[:1])):
        assert not comparison.positions_once(wrong).holds
    for wrong in (drop_row(steps, 9), np.append(steps, steps[9:10])):
        assert not comparison.records_once(wrong, RANKS, STEPS).holds


@pytest.mark.parametrize("name", ["good", "total", "observed", "cumulative_total"])
def test_a_wrong_slice_is_noticed(soak_run: SoakRun, name: str) -> None:
    expected = slices.brute_force(soak_run.log, RANKS)[slices.GOODPUT]
    wrong = expected.copy()
    wrong[name][1] += 1
    assert not comparison.same_slices(slices.GOODPUT, wrong, expected).holds
    assert not comparison.same_slices(slices.GOODPUT, expected[1:], expected).holds


def test_an_incident_missing_doubled_or_about_something_else_is_noticed(soak_run: SoakRun) -> None:
    (incident,) = soak_run.incidents
    first = "incidents as in an undisturbed run"
    for incidents in (
        [],
        [incident, incident],
        [{**incident, "rank": 6}],
        [{**incident, "cause": "unknown"}],
    ):
        assert failed_claims(comparison.same_incidents(incidents, [incident], 0.0)) == [first]
    for changes in (
        {"opened_at": incident["opened_at"] + 100},
        {"since_step": incident["since_step"] + 9},
    ):
        assert failed_claims(
            comparison.same_incidents([{**incident, **changes}], [incident], 0.0)
        ) == ["their times"]
    assert not comparison.faults_found(["slow-compute:rank=5,step=12"], [incident]).holds


def test_a_counter_that_falls_in_a_process_or_of_a_job_is_noticed() -> None:
    text = "# TYPE {0}_total counter\n{0}_total{1} {2}\n"
    falls = Falls()
    for life, name, labels, value in (
        (1, "segments", "", 5),
        (1, "steps", '{job="a"}', 5),
        (2, "segments", "", 1),
        (2, "steps", '{job="a"}', 6),
    ):
        falls.read(text.format(name, labels, value), life)
    assert comparison.never_fell(falls).holds
    assert not comparison.never_fell(Falls()).holds
    falls.read(text.format("steps", '{job="a"}', 4), 3)
    falls.read(text.format("segments", "", 0), 2)
    assert [(fall.series, fall.within_a_life) for fall in falls.drops] == [
        ("steps_total{job=a}", False),
        ("segments_total{}", True),
    ]
    assert not comparison.never_fell(falls).holds


def test_a_log_is_read_back_in_the_order_in_which_nodes_packed_it(soak_run: SoakRun) -> None:
    log: StoredLog = soak_run.log
    times = [wall_ns for wall_ns, _ in log.bodies()]
    assert times == sorted(times) and len(times) == len(log.stored)


def test_a_log_that_was_put_together_has_the_same_content(
    soak_run: SoakRun, tmp_path: Path
) -> None:
    compactor = Compactor(soak_run.store.engine, lambda _: False)
    assert compactor.compact(Compaction(0.0, 0.0), soak_run.clock.wall_ns() * 2).segments > 0
    reread = read_log(soak_run.store, JOB, tmp_path / "segments")
    assert (reread.stored == soak_run.log.stored).all()
    assert failed_claims(comparison.stored_once(soak_run.receipts, reread.stored)) == []
