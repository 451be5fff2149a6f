"""What live state knows of a run's flow of data and tokens reaches the detectors and incidents."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.analysis.beginnings import beginning_of
from stepwatch.collector.analysis.class_throughput import MOST_ALIKE, ClassThroughput
from stepwatch.collector.analysis.first_steps import first_steps
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.steps.early_baseline import (
    KEPT_STEPS,
    LEAST_STEPS,
    EarlyBaseline,
)
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.collector.step_clocks import HOST
from stepwatch.signals.records import Kind
from tests.collector.gathered import gathering_run
from tests.collector.made import EPOCH, JOB, HandClock, body, run_segments, step_rows


def reported_incidents(service: Service) -> list[tuple[str, int]]:
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    return [(item.kind.value, item.rank) for item in job_state[1].findings]


def test_a_job_that_waits_for_data_opens_one_incident(service: Service, clock: HandClock) -> None:
    waits = {(rank, "data"): 0.3 for rank in range(4)}
    service.receive(body(run_segments(40, excess=waits, slow_from=30)))
    assert reported_incidents(service) == [("data-stall", -1)]


def test_a_stall_within_the_first_steps_is_no_past(service: Service) -> None:
    waits = {(rank, "data"): 0.3 for rank in range(4)}
    service.receive(body(run_segments(120, excess=waits, slow_from=14)))
    assert reported_incidents(service) == [("data-stall", -1)]


def test_an_uneven_shard_is_named_and_stands_above_its_straggler(service: Service) -> None:
    segments = run_segments(40, excess={(2, "forward"): 0.2}, slow_from=20)
    for item in segments:
        rows = item.tables[Kind.STEP]
        rows["tokens"][(rows["rank"] == 2) & (rows["step"] >= 20)] = 300
    service.receive(body(segments))
    assert ("data-skew", 2) in reported_incidents(service)
    job_state = service.job(JOB)
    assert job_state is not None
    skew = next(item for item in job_state[1].findings if item.kind.value == "data-skew")
    assert (skew.began_step, skew.ratio) == (20, 3.0)


def test_a_loss_that_jumps_is_told(service: Service) -> None:
    segments = run_segments(120)
    for item in segments:
        rows = item.tables[Kind.STEP]
        rows["loss"] = 3.0 + 0.01 * np.sin(rows["step"])
        rows["loss"][rows["step"] >= 110] += 3.0
    service.receive(body(segments))
    assert reported_incidents(service) == [("loss-anomaly", -1)]


def test_a_job_that_slows_down_as_a_whole_is_told_after_two_minutes(service: Service) -> None:
    segments = run_segments(300, seconds=1.0)
    for item in segments:
        rows = item.tables[Kind.STEP]
        slow_rows = rows["step"] >= 150
        for name in ("forward_ns", "duration_ns"):
            rows[name][slow_rows] += 10**9
    service.receive(body(segments))
    assert reported_incidents(service) == [("throughput-regression", -1)]
    job_state = service.job(JOB)
    assert job_state is not None
    (finding,) = job_state[1].findings
    assert (finding.began_step, finding.phase) == (150, "forward")


def live(name: str, seconds: float) -> LiveJob:
    job = LiveJob(name)
    for item in run_segments(40, seconds=seconds, job=name):
        job.apply(item, Received(EPOCH, 0.0))
    return job


def test_jobs_of_one_shape_are_each_others_class() -> None:
    class_throughput = ClassThroughput()
    for number, seconds in enumerate((0.2, 0.2, 0.25, 0.5)):
        class_throughput.keep(live(f"job-{number}", seconds))
    assert sorted(peer.speed for peer in class_throughput.peers("job-3")) == pytest.approx(
        [1600.0, 2000.0, 2000.0]
    )
    class_throughput.forget("job-0")
    assert len(class_throughput.peers("job-3")) == 2
    assert class_throughput.peers("unknown") == []


def test_steps_of_other_sizes_are_no_peers_and_about_as_many_tokens_are() -> None:
    """Sequences of many lengths give medians that differ a little."""
    class_throughput = ClassThroughput()
    for number, tokens in enumerate((400, 410, 600)):
        job = LiveJob(f"job-{number}")
        for item in run_segments(40, job=job.name):
            item.tables[Kind.STEP]["tokens"] = tokens // 4
            job.apply(item, Received(EPOCH, 0.0))
        class_throughput.keep(job)
    assert [peer.tokens for peer in class_throughput.peers("job-0")] == [408.0]
    assert class_throughput.peers("job-2") == []


def test_jobs_that_report_tokens_now_and_then_are_nobodys_peers() -> None:
    class_throughput = ClassThroughput()
    for number in range(2):
        job = LiveJob(f"job-{number}")
        for item in run_segments(40, job=job.name):
            rows = item.tables[Kind.STEP]
            rows["tokens"] = np.where(rows["step"] % 5 == 0, 100, 0)
            job.apply(item, Received(EPOCH, 0.0))
        class_throughput.keep(job)
    assert class_throughput.peers("job-0") == []


def test_only_jobs_of_its_shape_change_what_a_job_is_compared_with() -> None:
    class_throughput, job = ClassThroughput(), live("job", 0.2)
    class_throughput.keep(job)
    version = class_throughput.changed("job")
    other_job = LiveJob("other")
    for item in run_segments(40, world=2, job="other"):
        other_job.apply(item, Received(EPOCH, 0.0))
    class_throughput.keep(job)
    class_throughput.keep(other_job)
    assert class_throughput.changed("job") == version
    class_throughput.keep(live("peer", 0.3))
    assert class_throughput.changed("job") != version
    class_throughput.forget("peer")
    assert class_throughput.peers("job") == [] and class_throughput.changed("job") != version
    class_throughput.forget("job")
    assert class_throughput.changed("job") is None


def test_of_many_jobs_that_do_the_same_the_newest_are_enough() -> None:
    class_throughput = ClassThroughput()
    for number in range(MOST_ALIKE + 4):
        job = LiveJob(f"job-{number}")
        for item in gathering_run():
            job.apply(item._replace(key=item.key._replace(job=job.name)), Received(EPOCH, 0.0))
        class_throughput.keep(job)
    beginning = beginning_of(job.current, HOST)
    assert beginning is not None
    assert class_throughput.alike("job-0", beginning) == [beginning.waits] * MOST_ALIKE
    assert class_throughput.alike("job-0", beginning._replace(nodes=9)) == []


def test_pauses_in_the_first_steps_are_no_usual_ones() -> None:
    plain, paused = EarlyBaseline(), EarlyBaseline()
    for beginning in (plain, paused):
        rows = step_rows(range(40), range(2))
        if beginning is paused:
            rows["duration_ns"][rows["step"] == 8] += 60 * 10**9
            rows["other_ns"][rows["step"] == 8] += 60 * 10**9
            rows["eval_ns"][rows["step"] == 9] += 10**9
        beginning.add(rows)
    assert paused.usual_waits(2) == pytest.approx(plain.usual_waits(2))


def test_what_ranks_waited_in_the_first_steps_is_kept_with_that_of_who_waited_least() -> None:
    beginning = EarlyBaseline()
    steps = range(40)
    for rank, waited in ((0, 30_000_000), (1, 10_000_000)):
        rows = step_rows(steps, [rank])
        rows["collective_ns"], rows["pipeline_wait_ns"] = waited, 4 * waited
        beginning.add(rows)
    usual_waits = beginning.usual_waits(2)
    assert usual_waits is not None
    assert usual_waits.least_wait == pytest.approx(0.01)
    assert usual_waits.neighbours == pytest.approx(0.08)
    assert usual_waits.step == pytest.approx(beginning.seconds(2)["duration"].mean())
    assert beginning.usual_waits(3) is None, "a rank is missing"


def test_the_beginning_is_kept_and_nothing_else() -> None:
    beginning = EarlyBaseline()
    for step in (*range(40, 5, -1), *range(41, 400)):
        beginning.add(step_rows([step], range(4)))
    seconds = beginning.seconds(4)
    assert len(seconds["data"]) == KEPT_STEPS - WARMUP_STEPS
    assert seconds["data"] == pytest.approx(0.05 * 0.2)
    assert beginning.seconds(5) == {}, "a rank is missing"
    young = EarlyBaseline()
    young.add(step_rows(range(WARMUP_STEPS + LEAST_STEPS - 1), range(4)))
    assert young.seconds(4) == {}


def restarted(seconds: float, tokens: int, seconds_later: float, tokens_later: int) -> LiveJob:
    """A job whose second attempt has other steps."""
    job = LiveJob(JOB)
    for attempt, (step_s, token_count) in enumerate(
        ((seconds, tokens), (seconds_later, tokens_later))
    ):
        for item in run_segments(40, seconds=step_s):
            item.tables[Kind.STEP]["tokens"] = token_count
            job.apply(item._replace(key=item.key._replace(attempt=attempt)), Received(EPOCH, 0.0))
    return job


@pytest.mark.parametrize(
    ("tokens", "tokens_later", "attempt"), [(100, 101, 0), (100, 200, 1), (0, 0, 1), (100, 0, 1)]
)
def test_only_an_attempt_of_as_many_tokens_is_the_past(
    tokens: int, tokens_later: int, attempt: int
) -> None:
    job = restarted(0.2, tokens, 0.5, tokens_later)
    first = first_steps(job)
    assert first.attempt.number == attempt
    assert np.median(first.baseline(HOST).seconds) == pytest.approx((0.2, 0.5)[attempt])
